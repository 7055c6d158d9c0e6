"""The answer of a model with words or heads switched off, and what it costs the answer before, for the viewer."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import nn

from foveate.attention import Attention
from foveate.errors import UsageError
from foveate.inspect.ablation import switched_off
from foveate.inspect.attribution import Answer
from foveate.inspect.caption import UNSPACED
from foveate.inspect.text_unit import GAPS, is_mark
from foveate.inspect.trace.conversion import Stored
from foveate.inspect.trace.observation import mixed
from foveate.inspect.trace.trace import Trace
from foveate.inspect.trace.track import Span, Track

DIGITS = 4
"""Decimals of weights and log-probabilities in a page."""
MOST = 300
"""The number of positions beyond which the viewer does not show a text in words."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Ablation:
    """The answer of a model with some positions and heads switched off."""

    tokens_off: tuple[int, ...]
    tracks: Mapping[str, Track]
    """The tracks of the new answer."""
    weights: Float[np.ndarray, "queries keys"]
    """The weights of a head, or the mean of all, in which a head that is off counts as 0. NaN where a key is hidden."""
    log_probability: float | None
    """ln p of the answer before, with the switches; None for a model without words to score."""
    log_probability_before: float | None

    def header(self, before: Mapping[str, Track]) -> dict[str, Any]:
        """Plain data for the viewer, with the tracks that differ from those of the trace."""
        shown = {name: track.readable().header() for name, track in self.tracks.items()}
        known = {name: track.readable().header() for name, track in before.items()}
        changed = {name: track for name, track in shown.items() if known.get(name) != track}
        return {
            "tokens_off": list(self.tokens_off),
            "sequences": changed,
            "weights": [[_rounded(float(weight)) for weight in row] for row in self.weights],
            "log_probability": _rounded(self.log_probability),
            "log_probability_before": _rounded(self.log_probability_before),
        }


@runtime_checkable
class Ablator(Protocol):
    """A model that answers the same input again with switches."""

    @property
    def track(self) -> str:
        """The track whose positions can be switched off."""
        ...

    def __call__(
        self, *, heads_off: Sequence[tuple[str, int]], tokens_off: Sequence[int], site: int | str, head: int | None
    ) -> Ablation:
        """The answer, with the weights of a site and a head (None: the mean) to show. Sites of the trace that have the
        same name are calls of one module: its heads are off in all of them, and `site` is a number to show one of them.
        Raises UsageError for switches that the model does not have.
        """
        ...


@runtime_checkable
class Reader(Protocol):
    """A model that reads a text, such as a tagger."""

    @property
    def model(self) -> nn.Module: ...

    def trace(self, text: str, *, stored: Stored = "float16") -> Trace: ...

    def answer(self, text: str) -> Answer: ...


class ModelAblator(ABC):
    """Asks a model again while switches are set in it."""

    def __init__(self, model: nn.Module, track: str, whole: Trace) -> None:
        self.model, self.track, self.whole = model, track, whole

    @abstractmethod
    def read(self) -> Trace:
        """The trace of the answer that the model gives now."""

    @abstractmethod
    def score(self) -> float | None:
        """ln p of the answer before, by the model as it is now; None for one without words to score."""

    @property
    def hides(self) -> bool:
        """Whether words can be hidden wherever the model reads them: a Linformer mixes keys, Sinkhorn sorts blocks."""
        modules, read = dict(self.model.named_modules()), (self.track, mixed(self.track))
        sites = [site for site in self.whole.sites if site.key in read]
        return all(site.key == self.track and isinstance(modules.get(site.name), Attention) for site in sites)

    @cached_property
    def _before(self) -> float | None:
        return self.score()

    def __call__(
        self, *, heads_off: Sequence[tuple[str, int]], tokens_off: Sequence[int], site: int | str, head: int | None
    ) -> Ablation:
        before, off = self._before, hidden(self.whole, self.track, tokens_off)
        with switched_off(self.model, heads=heads_off, keys=off, sites=looking(self.whole, self.track)):
            trace, now = self.read(), self.score()
        return Ablation(
            tokens_off=off,
            tracks=trace.tracks,
            weights=shares(trace, site, head, heads_off),
            log_probability=now,
            log_probability_before=before,
        )


class TextAblator(ModelAblator):
    """Asks a model that reads one text again: no attention looks at words that are off."""

    def __init__(self, reader: Reader, text: str, trace: Trace) -> None:
        super().__init__(reader.model, trace.sites[trace.opening[0]].key, trace)
        self.reader, self.text = reader, text

    @cached_property
    def _answer(self) -> Answer | None:
        """None for a text with nothing to score, such as one without gaps."""
        try:
            return self.reader.answer(self.text)
        except UsageError:
            return None

    def read(self) -> Trace:
        return self.reader.trace(self.text, stored="float32")

    def score(self) -> float | None:
        return None if self._answer is None else float(self._answer.log_probabilities()[0].sum())


def looking(trace: Trace, track: str) -> list[str]:
    """The names of the sites that look at a track."""
    return [site.name for site in trace.sites if site.key == track]


def hidden(trace: Trace, track: str, tokens_off: Sequence[int]) -> tuple[int, ...]:
    """The positions to switch off, in order. Raises UsageError for one that does not exist, and for all."""
    count, off = len(trace.tracks[track]), tuple(sorted(set(tokens_off)))
    for position in off:
        if not 0 <= position < count:
            raise UsageError(f"There is no token {position} to switch off: there are {count}, counted from 0.")
    if len(off) == count:
        raise UsageError("All tokens are off: leave one on.")
    return off


def shares(
    trace: Trace, site: int | str, head: int | None, heads_off: Collection[tuple[str, int]]
) -> Float[np.ndarray, "queries keys"]:
    """The weights of a site and a head, or the mean, in which a head that is off counts as 0; NaN for hidden keys."""
    here = trace.sites[trace.index(site)]
    shape = here.queries, here.keys
    total, visible = np.zeros(shape), np.zeros(shape, dtype=bool)
    chosen = range(here.heads) if head is None else [head]
    for number in chosen:
        weights, rule = here.weights(number)
        visible_here = np.ones(shape, dtype=bool) if rule is None else rule.numpy()
        visible |= visible_here
        if (here.name, number) not in heads_off:
            total += np.where(visible_here, weights.numpy(), 0) / len(chosen)
    return np.where(visible, total, np.nan)


def single_switches(ablator: Ablator, trace: Trace) -> list[Ablation]:
    """The answers without each word in turn, with the weights that the trace opens with, for a page without a model.

    Raises UsageError for a text that is too long for the viewer to show in words.
    """
    track = trace.tracks[ablator.track]
    if len(track) > MOST:
        raise UsageError(
            f"The text has {len(track)} tokens, and switches are computed for up to {MOST}, which the viewer shows in "
            "words. Shorten the text, or leave --ablations out."
        )
    site, head = trace.opening
    spans = words_of(track)
    return [
        ablator(heads_off=(), tokens_off=range(*span), site=site, head=head)
        for span in spans
        if len(spans) > 1 or len(track) > span[1] - span[0]
    ]


def words_of(track: Track) -> list[Span]:
    """The spans of the words that the viewer shows: in scripts without spaces every piece, and no begin, end or gap.

    >>> words_of(Track.of_pieces(["<s>", "▁read", "ing", "▁我", "昨天", "</s>"]))
    [(1, 3), (3, 4), (4, 5)]
    """
    labels, notes = track.readable().labels, track.notes or ("",) * len(track)
    # The note of a gap names its candidates, with their shares.
    marks = [note.endswith("%") if label in GAPS else is_mark(label) for label, note in zip(labels, notes, strict=True)]
    alone = [mark or UNSPACED.search(label) is not None for label, mark in zip(labels, marks, strict=True)]
    cut = [begin for begin, _ in track.spans("word")]
    starts = sorted({*cut, *(at for at in range(len(labels)) if alone[at] or (at and alone[at - 1]))})
    return [span for span in pairwise([*starts, len(labels)]) if not marks[span[0]]]


def _rounded(value: float | None) -> float | None:
    """A number for JSON, which has neither NaN nor infinity."""
    return None if value is None or not np.isfinite(value) else round(value, DIGITS)
