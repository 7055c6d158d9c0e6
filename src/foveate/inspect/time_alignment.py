"""Time alignments: when the words and letters of a transcript are heard, in seconds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from foveate.errors import UsageError
from foveate.inspect.alignment import SPECIAL, Span, join_pieces, readable, word_spans
from foveate.inspect.time_file import TimedLabel, ctm, json_text, text_grid

SHARE = 0.8
"""The share of a row's weight that lies within its stretch."""
LEEWAY = 1e-6
"""A rounding error of times, in seconds."""


@dataclass(frozen=True, kw_only=True)
class TimeAlignment:
    """The labels of a recording in tiers, such as "words" and "letters", each in the order of its starts.

    >>> frames = [(3, 5), (6, 7), (9, 12)]
    >>> alignment = TimeAlignment.of_frames(["▁a", "▁ro", "bot"], frames, hop=0.04, name="a.wav", seconds=0.6)
    >>> alignment
    <TimeAlignment of a.wav: a 0.12–0.20, robot 0.24–0.48 s>
    >>> print(alignment.ctm(), end="")
    a.wav 1 0.120 0.080 a
    a.wav 1 0.240 0.240 robot

    Raises `UsageError` for labels that end after the recording or are not in order.
    """

    name: str
    """The name of the recording."""
    seconds: float
    """Its length."""
    tiers: Mapping[str, tuple[TimedLabel, ...]] = field(hash=False)

    def __post_init__(self) -> None:
        for tier, labels in self.tiers.items():
            for label in labels:
                if label.end > self.seconds + LEEWAY:
                    raise UsageError(
                        f"{self.name}, {tier}: {label.label!r} ends at {label.end:.3f} seconds, but the recording at "
                        f"{self.seconds:.3f}. Is the hop that of the model's output?"
                    )
            if any(after.start < before.start - LEEWAY for before, after in pairwise(labels)):
                raise UsageError(f"{self.name}: the {tier} are not in the order of their starts. Sort them.")

    @classmethod
    def of_frames(
        cls,
        labels: Sequence[str],
        frames: Sequence[Span],
        *,
        hop: float,
        name: str,
        seconds: float,
        begin: float = 0.0,
        scores: Sequence[float] | None = None,
        words: Sequence[Span] | None = None,
        tier: str = "letters",
    ) -> "TimeAlignment":
        """An alignment of pieces of text with half-open ranges of frames, in the tiers "words" and `tier`.

        Frame i lasts from `begin` + i · `hop` to `begin` + (i + 1) · `hop` seconds, at most until the recording ends.
        Pieces become words by their marks, or by `words` (half-open ranges of pieces). A word lasts from the start of
        its first piece to the end of its last. Pieces of white space, special symbols and empty ranges have no time.
        `scores` are confidences of pieces; that of a word is their geometric mean. There is one tier only if every
        piece is a word.
        """
        if len(labels) != len(frames) or (scores is not None and len(scores) != len(labels)):
            more = "" if scores is None else f" and {len(scores)} scores"
            raise UsageError(f"{len(labels)} labels have {len(frames)} ranges of frames{more}: give one for each.")
        pieces: dict[int, TimedLabel] = {}
        for number, (text, (first, last)) in enumerate(zip(readable(labels), frames, strict=True)):
            if not first < last or not text.strip() or labels[number] in SPECIAL:
                continue
            start, end = begin + first * hop, begin + last * hop
            if not start < seconds or end > seconds + hop + LEEWAY:
                raise UsageError(
                    f"{name}: {text!r} stands on frames {first} to {last - 1}, which are {start:.3f} to {end:.3f} "
                    f"seconds, but the recording has {seconds:.3f}. Is the hop that of the model's output?"
                )
            score = None if scores is None else float(scores[number])
            pieces[number] = TimedLabel(text.strip(), max(start, 0.0), min(end, seconds), score)
        whole = []
        for first, last in word_spans(labels) if words is None else words:
            parts = [pieces[number] for number in range(first, last) if number in pieces]
            if parts:
                whole.append(_together(_joined(labels[first:last]), parts))
        tiers = {"words": _sorted(whole)}
        if len(whole) < len(pieces):
            tiers[tier] = _sorted(pieces.values())
        return cls(name=name, seconds=seconds, tiers=tiers)

    @classmethod
    def of_weights(
        cls,
        labels: Sequence[str],
        weights: Float[np.ndarray, "labels frames"],
        *,
        hop: float,
        name: str,
        seconds: float,
        begin: float = 0.0,
        words: Sequence[Span] | None = None,
        tier: str = "letters",
    ) -> "TimeAlignment":
        """An alignment of pieces of text with the frames that they attend to: the `stretch` of each row of weights.

        The stretch of a word is that of the mean of its pieces' rows, without pieces of white space. Stretches of
        attention may overlap, and labels without weight have no time.
        """
        place: dict[str, Any] = {"hop": hop, "name": name, "seconds": seconds, "begin": begin}
        spans = list(word_spans(labels) if words is None else words)
        whole, rows = [], []
        for first, last in spans:
            spoken = [at for at in range(first, last) if readable(labels)[at].strip() and labels[at] not in SPECIAL]
            whole.append(_joined(labels[first:last]) if spoken else "")
            rows.append(weights[spoken].mean(axis=0) if spoken else np.zeros(weights.shape[1]))
        pieces = cls.of_frames(labels, [stretch(row) or (0, 0) for row in weights], words=spans, tier=tier, **place)
        alone = [(at, at + 1) for at in range(len(whole))]
        merged = cls.of_frames(whole, [stretch(row) or (0, 0) for row in rows], words=alone, **place)
        return replace(pieces, tiers={**pieces.tiers, "words": merged.tier("words")})

    def placed(self, start: float, *, name: str, seconds: float) -> "TimeAlignment":
        """The same labels in a file: this recording begins in it at `start`, and lasts for `seconds`.

        >>> words = TimeAlignment(name="a", seconds=0.9, tiers={"words": (TimedLabel("one", 0.5, 0.75),)})
        >>> words.placed(3.0, name="talk.wav", seconds=1.0)
        <TimeAlignment of talk.wav: one 3.50–3.75 s>
        """
        tiers = {
            tier: tuple(replace(label, start=start + label.start, end=start + label.end) for label in labels)
            for tier, labels in self.tiers.items()
        }
        return TimeAlignment(name=name, seconds=start + max(seconds, self.seconds), tiers=tiers)

    def tier(self, name: str) -> tuple[TimedLabel, ...]:
        """The labels of a tier. Raises UsageError if it does not exist."""
        if name not in self.tiers:
            raise UsageError(f"{self.name} has no tier {name!r}. It has: {', '.join(self.tiers) or 'none'}.")
        return self.tiers[name]

    def text_grid(self) -> str:
        """All tiers as a TextGrid of Praat: see `foveate.inspect.time_file`."""
        return text_grid(self.name, self.seconds, self.tiers)

    @property
    def first(self) -> str:
        """The name of the tier that is drawn and written where one is enough: the words, otherwise the first."""
        return "words" if "words" in self.tiers else next(iter(self.tiers), "words")

    def ctm(self, tier: str | None = None) -> str:
        """One tier, the `first` unless it is named, as lines of NIST's CTM. The lines of several recordings may follow
        one another in one file.
        """
        return ctm(self.name, self.tier(self.first if tier is None else tier))

    def json(self) -> str:
        """All tiers as JSON."""
        return json_text(self.name, self.seconds, self.tiers)

    def __str__(self) -> str:
        """The first tier as a picture for a terminal; the gist of an alignment without labels in it."""
        from foveate.inspect.figure.time_strip import strip

        return strip(self) if self.tiers.get(self.first) else repr(self)

    def __repr__(self) -> str:
        first = next(iter(self.tiers.values()), ())
        times = ", ".join(f"{each.label} {each.start:.2f}–{each.end:.2f}" for each in first[:6])
        more = f", and {len(first) - 6} more" if len(first) > 6 else ""
        return f"<TimeAlignment of {self.name}: {f'{times} s{more}' if first else 'nothing'}>"


def stretch(weights: Float[np.ndarray, " frames"], share: float = SHARE) -> Span | None:
    """The shortest range of frames, half-open, with at least this share of the weights; the first of equally short
    ones. None for weights that are all 0 or are not numbers.

    >>> stretch(np.array([0.05, 0.1, 0.5, 0.25, 0.1]))
    (1, 4)
    """
    sums = np.concatenate([[0.0], np.cumsum(weights, dtype=np.float64)])
    if not 0 < sums[-1] < math.inf:
        return None
    # The last start from which a range that ends at each frame has enough, or −1.
    ends = np.arange(1, len(sums))
    starts = np.searchsorted(sums, sums[1:] - share * sums[-1] * (1 - LEEWAY), side="right") - 1
    lengths = np.where(starts >= 0, ends - starts, len(sums))
    best = int(lengths.argmin())
    return int(starts[best]), int(ends[best])


def _joined(pieces: Sequence[str]) -> str:
    return join_pieces(pieces).strip(" ▁Ġ")


def _together(label: str, parts: Sequence[TimedLabel]) -> TimedLabel:
    scores = [part.score for part in parts if part.score is not None]
    mean = math.exp(math.fsum(math.log(score) for score in scores) / len(scores)) if scores and all(scores) else None
    score = 0.0 if scores and mean is None else mean
    return TimedLabel(label, min(part.start for part in parts), max(part.end for part in parts), score)


def _sorted(labels: Iterable[TimedLabel]) -> tuple[TimedLabel, ...]:
    return tuple(sorted(labels, key=lambda each: (each.start, each.end)))
