"""Prefix search: the most probable texts of labelled frames, each with the sum over its paths."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.decode.ctc import CTCConfig
from foveate.decode.frame import BLANK, TimedHypothesis, TokenFrames, require_frames
from foveate.decode.fusion import Fusion
from foveate.decode.prefix import Beam, Link, Path, Prefix, advanced
from foveate.decode.prefix_kernel import advanced_by_kernel
from foveate.errors import UsageError

BLOCK = 512
"""The largest number of frames between two moments at which certain tokens leave the beam."""
SETTLING = 8
"""Frames between two moments at which `settle_after` is considered. They are multiples of this, whatever the pieces."""


@torch.no_grad()
def prefix_search(
    log_probabilities: Float[Tensor, "batch frames vocab"],
    lengths: Int[Tensor, " batch"],
    config: CTCConfig,
    fusion: Fusion | None = None,
) -> list[list[TimedHypothesis]]:
    """The `num_best` most probable texts of each row, fewer where fewer exist, best first.

        score(y) = log p(y | frames) + bonus · tokens(y) + weight · log p_language(y)

    `log_probability` is log p(y | frames), the log-sum over those paths whose beginnings were all kept: over all paths
    with a beam that keeps every prefix. Beside the best prefixes, the beginning of the best path is always kept, so
    that no result is worse than it, unless `settle_after` removes it. Frames are those of the most probable path. Equal
    scores are ordered by place in the beam, then by token. A row's results depend neither on the other rows nor on
    padding.

    >>> frames = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]).log()  # the best path is empty, with 0.36
    >>> [[text]] = prefix_search(frames, torch.tensor([2]), CTCConfig())
    >>> text.tokens, round(float(np.exp(text.log_probability)), 2)
    ((1,), 0.64)

    Raises `UsageError` for logits, `DataError` for NaN.

    Reference: Graves 2012 (Supervised Sequence Labelling), section 7.5.3; Hannun et al. 2014, algorithm 1.
    """
    require_frames(log_probabilities, lengths)
    search = PrefixStream(config, fusion)
    results = []
    for row, length in zip(log_probabilities, lengths.tolist(), strict=True):
        state, _ = search.advance(search.begin(), row[:length], last=True)
        results.append(state.hypotheses(config.num_best))
    return results


@dataclass(frozen=True)
class Partial(TimedHypothesis):
    """The best text so far. Its first `certain` tokens cannot change any more.

    They are shared by all prefixes that are kept. `finished` and `certain` are those of the whole text after the last
    frame.
    """

    certain: int = 0


@dataclass(frozen=True, eq=False)
class PrefixState:
    """A search between two pieces of a stream: the beam, and the tokens that have become certain with their frames."""

    beam: Beam
    read: int = 0
    """The number of frames so far."""
    settled: tuple[int, ...] = ()
    settled_frames: tuple[TokenFrames, ...] = ()
    finished: bool = False

    @property
    def tokens(self) -> tuple[int, ...]:
        """The best text so far."""
        return (*self.settled, *self._order[0].tokens)

    @property
    def certain(self) -> int:
        """The number of tokens that all texts in the beam share at their beginning."""
        if self.finished:
            return len(self.tokens)
        return len(self.settled) + _common([prefix.tokens for prefix in self.beam.prefixes])

    def hypotheses(self, num_best: int) -> list[TimedHypothesis]:
        """The best texts so far, best first."""
        return [self._hypothesis(prefix) for prefix in self._order[:num_best]]

    def partial(self) -> Partial:
        return Partial(**vars(self._hypothesis(self._order[0])), certain=self.certain)

    @property
    def _order(self) -> list[Prefix]:
        return sorted(self.beam.prefixes, key=lambda prefix: -prefix.score)

    def _hypothesis(self, prefix: Prefix) -> TimedHypothesis:
        frames = (*self.settled_frames, *frames_of(prefix.path.link))
        tokens = (*self.settled, *prefix.tokens)
        return TimedHypothesis(tokens, prefix.score, prefix.total, self.finished, frames)


@dataclass(frozen=True, eq=False)
class PrefixStream:
    """Prefix search over frames that come in pieces; pieces of any size give what the whole gives.

    >>> frames = torch.nn.functional.one_hot(torch.tensor([3, 0, 3, 3, 4, 0])).float().log()
    >>> search = PrefixStream(CTCConfig(beam=4))
    >>> state, text = search.advance(search.begin(), frames[:3], last=False)
    >>> text.tokens
    (3, 3)
    >>> state, text = search.advance(state, frames[3:], last=True)
    >>> text.tokens, text.frames[1]
    ((3, 3, 4), TokenFrames(first=2, last=3, peak=2))

    A state is a value and holds the tokens that may still change, whatever the length of the stream; those that are
    certain are kept beside it.
    """

    config: CTCConfig
    fusion: Fusion | None = None

    look_ahead = 0
    """Frames after a frame that its output waits for."""

    @property
    def _fusion(self) -> Fusion | None:
        return self.fusion if self.config.language_weight else None

    def begin(self) -> PrefixState:
        knowledge = None if self._fusion is None else self._fusion.start()
        return PrefixState(Beam((Prefix(knowledge=knowledge),)))

    @torch.no_grad()
    def advance(
        self, state: PrefixState, log_probabilities: Float[Tensor, "frames vocab"], *, last: bool
    ) -> tuple[PrefixState, Partial]:
        """The state and the best text after these frames; `last` says that the stream ends with them.

        Raises `UsageError` for logits and for frames after the last, `DataError` for NaN.
        """
        if state.finished:
            raise UsageError("decode: this stream has ended. Begin a new one with `begin()`.")
        frames = len(log_probabilities)
        require_frames(log_probabilities[None], torch.tensor([frames]))
        rows = log_probabilities.detach().double().cpu().contiguous().numpy()
        block, start = SETTLING if self.config.settle_after else BLOCK, 0
        while start < frames:
            size = block - state.read % block
            state = self._read(state, rows[start : start + size])
            start += size
        if last:
            state = self._finished(state)
        return state, state.partial()

    def _read(self, state: PrefixState, rows: Float[np.ndarray, "frames vocab"]) -> PrefixState:
        beam, size, insertion = state.beam, self.config.beam, self.config.insertion_bonus
        swift = None
        if self._fusion is None:
            swift = advanced_by_kernel(beam, rows, state.read, size=size, insertion=insertion)
        if swift is None:
            weight = self.config.language_weight
            for frame, row in enumerate(rows, state.read):
                beam = advanced(beam, row, frame, size=size, insertion=insertion, weight=weight)
        beam, read = swift or beam, state.read + len(rows)
        if self.config.settle_after and read % SETTLING == 0:
            beam = _agreeing(beam, before=read - self.config.settle_after)
        return _settled(replace(state, beam=beam, read=read))

    def _finished(self, state: PrefixState) -> PrefixState:
        fusion, weight = self._fusion, self.config.language_weight
        if fusion is None:
            return replace(state, finished=True)
        prefixes = []
        for prefix in state.beam.prefixes:
            assert prefix.knowledge is not None
            end = float(prefix.knowledge.log_probabilities()[fusion.end])
            prefixes.append(replace(prefix, bonus=prefix.bonus + weight * end))
        return replace(state, beam=replace(state.beam, prefixes=tuple(prefixes)), finished=True)


def _agreeing(beam: Beam, before: int) -> Beam:
    """The prefixes that have all tokens of the best one that ended before this frame."""
    best = max(beam.prefixes, key=lambda prefix: prefix.score)
    tokens = best.tokens[: sum(frames.last < before for frames in frames_of(best.path.link))]
    places = [place for place, prefix in enumerate(beam.prefixes) if prefix.tokens[: len(tokens)] == tokens]
    prefixes = tuple(beam.prefixes[place] for place in places)
    if beam.greedy in places:
        return replace(beam, prefixes=prefixes, greedy=places.index(beam.greedy))
    label = best.last if best.token_path.score >= best.blank_path.score else BLANK
    return Beam(prefixes, places.index(beam.prefixes.index(best)), label)


def _settled(state: PrefixState) -> PrefixState:
    """The state without the first tokens of its prefixes, if they and their frames are the same in all paths.

    One token that all share remains, because the next one may be its repeat.
    """
    prefixes = state.beam.prefixes
    links = [_links(path.link) for prefix in prefixes for path in (prefix.blank_path, prefix.token_path)]
    links = [own for own in links if own]
    frames = [[(link.frames, link.value) for link in own] for own in links]
    count = min(_common([prefix.tokens for prefix in prefixes]), _common(frames)) - 1
    if count < 1 or not links:
        return state
    return replace(
        state,
        beam=replace(state.beam, prefixes=tuple(_cut(prefix, count) for prefix in prefixes)),
        settled=(*state.settled, *prefixes[0].tokens[:count]),
        settled_frames=(*state.settled_frames, *(link.frames for link in links[0][:count])),
    )


def _cut(prefix: Prefix, count: int) -> Prefix:
    def cut(path: Path) -> Path:
        link = None
        for old in _links(path.link)[count:]:
            link = Link(link, old.frames, old.value)
        return Path(path.score, link)

    return replace(
        prefix,
        tokens=prefix.tokens[count:],
        blank_path=cut(prefix.blank_path),
        token_path=cut(prefix.token_path),
    )


def _links(link: Link | None) -> list[Link]:
    return [] if link is None else link.chain


def frames_of(link: Link | None) -> tuple[TokenFrames, ...]:
    return tuple(each.frames for each in _links(link))


def _common(sequences: Sequence[Sequence[object]]) -> int:
    """The number of elements that all sequences share at their beginning."""
    if not sequences:
        return 0
    shortest, longest = min(map(len, sequences)), sequences[0]
    for place in range(shortest):
        if any(other[place] != longest[place] for other in sequences):
            return place
    return shortest
