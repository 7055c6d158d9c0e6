"""Writes labels with times as Praat's TextGrid, as NIST's CTM, and as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from foveate.errors import UsageError

FORMAT, VERSION = "foveate-time-alignment", 1
DIGITS = 6
"""Decimals of a second in TextGrid and JSON; CTM has three."""
_SAME = 0.5 * 10**-DIGITS


@dataclass(frozen=True)
class TimedLabel:
    """A label from `start` to `end`, in seconds, with a confidence between 0 and 1 where there is one."""

    label: str
    start: float
    end: float
    score: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end < float("inf"):
            raise UsageError(
                f"The label {self.label!r} lasts from {self.start} to {self.end} seconds: it must begin at 0 or later, "
                "and end after it begins."
            )
        if self.score is not None and not 0 <= self.score <= 1:
            raise UsageError(f"The score of {self.label!r} is {self.score}; a confidence lies between 0 and 1.")


Tiers = Mapping[str, Sequence[TimedLabel]]


def text_grid(name: str, seconds: float, tiers: Tiers) -> str:
    """A TextGrid in Praat's long form, with an interval tier for each tier. Times without a label are intervals with an
    empty text, because the intervals of a tier cover the recording.

    >>> print(text_grid("a.wav", 1.0, {"words": [TimedLabel("one", 0.25, 1.0)]}).split("intervals: ")[1], end="")
    size = 2
            intervals [1]:
                xmin = 0
                xmax = 0.25
                text = ""
            intervals [2]:
                xmin = 0.25
                xmax = 1
                text = "one"

    Raises `UsageError` for labels that overlap, which a tier cannot contain.

    Reference: the Praat manual, "TextGrid file formats".
    """
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        "xmin = 0",
        f"xmax = {_number(seconds)}",
        "tiers? <exists>",
        f"size = {len(tiers)}",
        "item []:",
    ]
    for number, (tier, labels) in enumerate(tiers.items(), start=1):
        covered = list(_covering(f"{name}, {tier}", seconds, labels))
        lines += [
            f"    item [{number}]:",
            '        class = "IntervalTier"',
            f"        name = {_quoted(tier)}",
            "        xmin = 0",
            f"        xmax = {_number(seconds)}",
            f"        intervals: size = {len(covered)}",
        ]
        for place, (start, end, text) in enumerate(covered, start=1):
            lines += [
                f"        intervals [{place}]:",
                f"            xmin = {_number(start)}",
                f"            xmax = {_number(end)}",
                f"            text = {_quoted(text)}",
            ]
    return "\n".join(lines) + "\n"


def ctm(name: str, labels: Sequence[TimedLabel]) -> str:
    """Lines of NIST's time-marked conversations: recording, channel 1, start, duration, label, and the confidence where
    there is one. Columns are separated by spaces; white space within names and labels becomes `_`.

    >>> ctm("my clip.wav", [TimedLabel("one", 0.12, 0.5, score=0.875)])
    'my_clip.wav 1 0.120 0.380 one 0.8750\\n'

    Reference: NIST, SCTK, "ctm: time marked conversation scoring file format".
    """
    return "".join(
        f"{_joined(name)} 1 {each.start:.3f} {round(each.end, 3) - round(each.start, 3):.3f} {_joined(each.label)}"
        f"{'' if each.score is None else f' {each.score:.4f}'}\n"
        for each in labels
    )


def json_text(name: str, seconds: float, tiers: Tiers) -> str:
    """All tiers as JSON: `{"format", "version", "name", "seconds", "tiers": {tier: [{"label", "start", "end",
    "score"}]}}`. Labels without a confidence have no field `score`.
    """
    plain = {
        tier: [
            {"label": each.label, "start": round(each.start, DIGITS), "end": round(each.end, DIGITS)}
            | ({} if each.score is None else {"score": round(each.score, DIGITS)})
            for each in labels
        ]
        for tier, labels in tiers.items()
    }
    head = {"format": FORMAT, "version": VERSION, "name": name, "seconds": round(seconds, DIGITS)}
    return json.dumps({**head, "tiers": plain}, ensure_ascii=False, indent=1) + "\n"


def _covering(where: str, seconds: float, labels: Sequence[TimedLabel]) -> Iterator[tuple[float, float, str]]:
    """Labels and the empty intervals between them, from 0 to the end."""
    for before, after in pairwise(labels):
        if after.start < before.end - _SAME:
            raise UsageError(
                f"{where}: {before.label!r} lasts until {before.end:.3f} seconds, but {after.label!r} begins at "
                f"{after.start:.3f}. The labels of a TextGrid's tier do not overlap: write .ctm or .json."
            )
    at = 0.0
    for each in labels:
        if each.start > at + _SAME:
            yield at, each.start, ""
            at = each.start
        yield at, each.end, each.label
        at = each.end
    if seconds > at + _SAME or not labels:
        yield at, seconds, ""


def _number(value: float) -> str:
    """A number of seconds without trailing zeros."""
    return f"{value:.{DIGITS}f}".rstrip("0").rstrip(".")


def _quoted(text: str) -> str:
    """Praat's string: two double quotes inside it stand for one."""
    return '"' + " ".join(text.splitlines()).replace('"', '""') + '"'


def _joined(text: str) -> str:
    return "_".join(text.split()) or "_"
