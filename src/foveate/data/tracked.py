"""Examples with a label for each vector: recordings with label tracks, and rows of vectors with lists of labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from foveate.config.field import setting
from foveate.data.feature import VectorReader
from foveate.data.label_track import LabelTrack, read_labels, read_track
from foveate.data.reader import Example, Reader, RowMaker
from foveate.errors import DataError

UNLABELLED = "-"
"""The label of a time without a label, unless settings name another."""


@dataclass(frozen=True, kw_only=True)
class TrackConfig:
    """The label tracks of recordings."""

    tier: str | None = setting(None, "tier of a TextGrid: name, or number from 1; none: the only one with intervals")
    nothing: str | None = setting(None, f"the label of a time without a label; none: {UNLABELLED}")
    hop: float | None = setting(
        None, "seconds between vectors of .npy files with label tracks; none: a file has a label for each vector"
    )

    def __post_init__(self) -> None:
        if self.hop is not None and not 0 < self.hop < float("inf"):
            raise ValueError(f"hop must be above 0 seconds, got {self.hop}")
        if self.nothing is not None and (not self.nothing.strip() or self.nothing != self.nothing.strip()):
            raise ValueError(f"nothing must be a label without space around it, got {self.nothing!r}")

    @property
    def unlabelled(self) -> str:
        """The label of a time without a label."""
        return UNLABELLED if self.nothing is None else self.nothing


@dataclass(frozen=True)
class Clock:
    """The times of vectors: the centre of vector i is `first` + i · `hop`, in seconds.

    >>> Clock(first=0.0125, hop=0.01).centres(3)
    array([0.0125, 0.0225, 0.0325])
    """

    first: float
    hop: float

    @classmethod
    def of(cls, rows: RowMaker, config: TrackConfig) -> "Clock | None":
        """The clock of rows of frames, or that of the configuration; None for vectors without a time."""
        timed: Any = rows
        if hasattr(rows, "hop"):
            return cls(timed.first, timed.hop)
        return None if config.hop is None else cls(config.hop / 2, config.hop)

    def centres(self, count: int) -> Float[np.ndarray, " count"]:
        return self.first + self.hop * np.arange(count)

    def until(self, seconds: float) -> int:
        """The number of vectors whose centre lies before a time."""
        return max(int(np.ceil((seconds - self.first) / self.hop)), 0)


class Tracked(NamedTuple):
    """A recording or a sequence of vectors, its line in the table, and its labels."""

    line: int
    thing: Any
    file: str
    """The label track as the table names it."""
    track: LabelTrack | Sequence[str]
    """Segments of the recording, or a label for each vector."""

    @property
    def example(self) -> Example:
        """The line of the table, as readers know it."""
        return Example(self.line, self.thing, self.file)

    @property
    def start(self) -> float:
        """The start of the thing in its recording, in seconds."""
        return float(getattr(self.thing, "start", 0.0) or 0.0)

    @property
    def names(self) -> Sequence[str]:
        """The labels that occur, except that of a time without one."""
        return self.track.names if isinstance(self.track, LabelTrack) else self.track

    def require_within(self, rows: RowMaker) -> None:
        """Raises DataError for a label track that lasts longer than its recording."""
        measured: Any = rows
        if isinstance(self.track, LabelTrack) and hasattr(rows, "seconds") and getattr(self.thing, "end", None) is None:
            self.track.require_within(self.start + measured.seconds(self.thing), str(self.thing))

    def labels(self, count: int, clock: Clock | None, nothing: str) -> Sequence[str]:
        """A label for each of `count` vectors. Raises DataError where there are more or fewer, or there is no clock."""
        if not isinstance(self.track, LabelTrack):
            if len(self.track) != count:
                raise DataError(
                    f"{self.thing} has {count:,} vectors, and {self.file} has {len(self.track):,} labels. Write one a "
                    "line for each vector, or set track.hop for a label track in seconds."
                )
            return self.track
        return self.track.labels(self.start + self._clock(clock).centres(count), nothing=nothing)

    def all_labels(self, rows: RowMaker, clock: Clock | None, nothing: str) -> Sequence[str]:
        """The labels of all vectors, without making those of recordings."""
        if not isinstance(self.track, LabelTrack):
            return self.track
        measured: Any = rows
        if not hasattr(rows, "seconds"):
            return self.labels(len(rows.row(self.thing)), clock, nothing)
        end = getattr(self.thing, "end", None)
        seconds = float(measured.seconds(self.thing) if end is None else end - self.start)
        return self.labels(self._clock(clock).until(seconds), clock, nothing)

    def _clock(self, clock: Clock | None) -> Clock:
        if clock is None:
            raise DataError(f"{self.thing} has vectors without a time, and {self.file} has seconds. Set track.hop.")
        return clock


def read_tracked(reader: Reader, path: str, config: TrackConfig) -> Iterator[Tracked]:
    """Examples of a table whose labels are files, relative to the table: label tracks, or lists of labels for vectors
    without a time. A user's reader may give the labels of the vectors themselves, as a list.

    Raises DataError with the table's line for a file that cannot be read.
    """
    if Path(path).suffix.lower() == ".npz" and isinstance(reader, VectorReader):
        raise DataError(
            f"{path} has one label an example, and tagging needs one for each vector. Give a table: the path of an "
            ".npy file, a tab, the path of a file with a label for each vector."
        )
    by_line = isinstance(reader, VectorReader) and config.hop is None
    for example in reader.read(path):
        if not isinstance(example.label, str):
            yield Tracked(example.line, example.thing, str(example.thing), tuple(example.label))
            continue
        file = Path(path).parent / example.label
        if not file.is_file():
            raise DataError(
                f"{path}:{example.line}: {file} is missing. A line is the path of a recording, a tab, and the path of "
                "its label track, relative to the table."
            )
        recording = Path(str(getattr(example.thing, "path", example.thing))).name
        track = read_labels(file) if by_line else read_track(file, tier=config.tier, recording=recording)
        yield Tracked(example.line, example.thing, str(file), track)
