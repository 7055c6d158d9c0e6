"""Reads label tracks, which name the parts of a recording: Audacity, Praat's TextGrid, NIST CTM, HTK.

The ending of a file's name is its format:

| ending | program | a line or an interval |
|---|---|---|
| `.txt`, `.tsv` | Audacity | start, tab, end, tab, label; in seconds |
| `.TextGrid` | Praat | an interval of one tier, in the long or the short form: `foveate.data.text_grid` |
| `.ctm` | NIST | recording, channel, start, duration, label; in seconds |
| `.lab` | HTK | start, end, label; in units of 100 ns |
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
from jaxtyping import Float

from foveate.data.text import normalise, read_lines
from foveate.data.text_grid import intervals
from foveate.errors import DataError
from foveate.suggestion import listing, missing_file

ROUNDING = 0.01
"""The largest overlap, in seconds, that rounded times explain: the later of two segments then begins at its start."""
BEYOND = 0.05
"""The largest time, in seconds, that a track may last longer than its recording: aligners count whole frames."""
HTK = 1e-7
"""HTK's unit of time in seconds."""
_NAMED = 8


@dataclass(frozen=True)
class Segment:
    """A label from `start` to `end`, in seconds, and its line in the file."""

    start: float
    end: float
    label: str
    line: int = 0


@dataclass(frozen=True)
class LabelTrack:
    """Segments in the order of time, without overlaps. A time between segments has no label.

    >>> track = LabelTrack("a.txt", (Segment(0.0, 0.2, "a"), Segment(0.3, 0.4, "b")))
    >>> track.labels(np.arange(0.05, 0.5, 0.1), nothing="-")
    ['a', 'a', '-', 'b', '-']
    """

    name: str
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        for before, segment in zip((None, *self.segments), self.segments, strict=False):
            _require_sound(self.name, segment, before)

    def __str__(self) -> str:
        return self.name

    @property
    def names(self) -> tuple[str, ...]:
        """The labels of the segments, in their order."""
        return tuple(segment.label for segment in self.segments)

    def labels(self, times: Float[np.ndarray, " frames"], *, nothing: str) -> list[str]:
        """The label at each time in seconds, such as the centre of a frame; `nothing` where there is none."""
        starts, ends = (np.array([getattr(one, side) for one in self.segments]) for side in ("start", "end"))
        # A nanosecond is far below any hop, and far above the rounding error of a product of frame and hop.
        segments = np.searchsorted(starts, times + 1e-9, side="right") - 1
        inside = segments >= 0
        inside[inside] = times[inside] + 1e-9 < ends[segments[inside]]
        return [self.segments[one].label if here else nothing for one, here in zip(segments, inside, strict=True)]

    def require_within(self, seconds: float, recording: str) -> "LabelTrack":
        """Return this track. Raises DataError for a segment beyond the end of a recording that lasts so long."""
        late = next((one for one in self.segments if one.end > seconds + BEYOND), None)
        if late is not None:
            raise DataError(
                f"{self.name}:{late.line}: {late.label!r} ends at {late.end:.3f} s, and {recording} lasts "
                f"{seconds:.3f} s. Check that the track belongs to the recording, and its unit of time."
            )
        return self


def read_track(path: Path | str, *, tier: str | None = None, recording: str | None = None) -> LabelTrack:
    """Read a label track.

    `tier` is the name of a TextGrid's tier, or its number, counted from 1; it may be left out if there is only one tier
    of intervals. `recording` is the name of the recording in a CTM file, which may contain several.

    Raises DataError with file and line for lines that cannot be read, and for segments that overlap, are out of order,
    or have no duration.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(missing_file(path))
    ending = path.suffix.lower()
    if ending == ".textgrid":
        segments = _of_grid(path, tier)
    elif ending not in _LINES:
        raise DataError(f"{path} does not end with {', '.join(ENDINGS)}. Name the file after the format of its lines.")
    elif tier is not None:
        raise DataError(f"{path} has no tiers, only a .TextGrid has. Leave the tier {tier!r} out.")
    else:
        segments = _LINES[ending](path, recording)
    return LabelTrack(str(path), tuple(segments))


def read_labels(path: Path | str) -> tuple[str, ...]:
    """One label a line, for vectors without a time. Raises DataError for an empty line before the last label."""
    labels = [line.strip() for line in read_lines(path)]
    while labels and not labels[-1]:
        labels.pop()
    if "" in labels:
        raise DataError(f"{path}:{labels.index('') + 1}: the line is empty. Write a label for each vector.")
    return tuple(labels)


def _of_audacity(path: Path, recording: str | None) -> Iterator[Segment]:
    """Lines with a backslash are the frequencies of the label above, which a selection in a spectrogram has."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("\\"):
            continue
        cells = line.split("\t", 2)
        if len(cells) < 2:
            raise DataError(f"{path}:{number}: {line.strip()!r} is not a segment. Write start, tab, end, tab, label.")
        start, end = (_seconds(cell, path, number) for cell in cells[:2])
        if label := "".join(cells[2:]).strip():
            yield Segment(start, end, label, number)


def _of_ctm(path: Path, recording: str | None) -> Iterator[Segment]:
    others: dict[str, None] = {}
    name: str | None = None
    # A column cannot contain a blank: programs, this one, too, write `_` in its place.
    spellings = (
        {"_".join(each.split()) for each in (recording, Path(recording).stem)} if recording is not None else None
    )
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith(";;"):
            continue
        cells = line.split()
        if len(cells) not in (5, 6):
            raise DataError(
                f"{path}:{number}: the line has {len(cells)} columns. Write recording, channel, start, duration, label "
                "and, if you like, a confidence."
            )
        if spellings is not None and spellings.isdisjoint((cells[0], Path(cells[0]).name)):
            others[cells[0]] = None
            continue
        name = cells[0] if name is None else name
        if recording is not None and Path(cells[0]).parent != Path(name).parent:
            raise DataError(
                f"{path}:{number}: {cells[0]!r} and {name!r} are both named {recording!r}. Write a file for each."
            )
        start, duration = (_seconds(cell, path, number) for cell in cells[2:4])
        yield Segment(start, start + duration, cells[4], number)
    if others and name is None:
        raise DataError(
            f"{path} has no line of {recording!r}, only of {listing(map(repr, others), _NAMED)}. The first column is "
            "the name of the recording's file."
        )


def _of_htk(path: Path, recording: str | None) -> Iterator[Segment]:
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split()
        if not cells:
            continue
        if len(cells) < 3 or not all(cell.isdecimal() for cell in cells[:2]):
            raise DataError(
                f"{path}:{number}: {line.strip()!r} is not a segment. Write start, end and label, with whole numbers "
                "of 100 ns."
            )
        yield Segment(int(cells[0]) * HTK, int(cells[1]) * HTK, cells[2], number)


def _of_grid(path: Path, tier: str | None) -> Iterator[Segment]:
    for line, start, end, label in intervals(path, tier):
        if text := normalise(label, f"{path}:{line}").strip():
            yield Segment(start, end, text, line)


_LINES: dict[str, Callable[[Path, str | None], Iterator[Segment]]] = {
    ".txt": _of_audacity,
    ".tsv": _of_audacity,
    ".ctm": _of_ctm,
    ".lab": _of_htk,
}
ENDINGS: Sequence[str] = (*_LINES, ".TextGrid")
"""The endings of label tracks."""


def _seconds(text: str, path: Path, line: int) -> float:
    try:
        seconds = float(text)
    except ValueError:
        comma = " Write a point before the decimals." if "," in text else ""
        raise DataError(f"{path}:{line}: {text.strip()!r} is not a time in seconds.{comma}") from None
    if not isfinite(seconds):
        raise DataError(f"{path}:{line}: {text.strip()!r} is not a time in seconds.")
    return seconds


def _require_sound(name: str, segment: Segment, before: Segment | None) -> None:
    where, what = f"{name}:{segment.line}:", f"{segment.label!r} from {segment.start:.3f} to {segment.end:.3f} s"
    if segment.start < 0:
        raise DataError(f"{where} {what} begins before the recording. Times are counted from its start.")
    if segment.end <= segment.start:
        raise DataError(f"{where} {what} has no duration. Give it one, or remove the line.")
    if before is None:
        return
    if segment.start < before.start:
        raise DataError(
            f"{where} {what} begins before the segment of line {before.line}, at {before.start:.3f} s. Sort the "
            "segments by their start."
        )
    if segment.start < before.end - ROUNDING:
        raise DataError(
            f"{where} {what} overlaps with {before.label!r} of line {before.line}, which ends at {before.end:.3f} s. A "
            "frame has one label: shorten one of them."
        )
