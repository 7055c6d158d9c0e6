"""The prefixes of a prefix search: sums over their paths, the frames of their tokens, and one step in plain Python."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from foveate.decode.frame import BLANK, TokenFrames
from foveate.decode.fusion import Knowledge

IMPOSSIBLE = -math.inf


class Link(NamedTuple):
    """The frames of a path's last token, with the probability at its peak, and the link of the token before."""

    before: "Link | None"
    frames: TokenFrames
    value: float

    @property
    def chain(self) -> "list[Link]":
        """The links of a path, first token first."""
        links, link = list[Link](), self
        while link.before is not None:
            links.append(link)
            link = link.before
        return [link, *reversed(links)]

    def __reduce__(self) -> Any:
        """A copy and a pickle go through the chain in a loop: link within link would exceed Python's recursion."""
        chain = self.chain
        return linked, ([tuple(link.frames) for link in chain], [link.value for link in chain])


class Path(NamedTuple):
    """The log-probability of one path and the frames of its tokens."""

    score: float
    link: Link | None

    def onto(self, gain: float, frame: int) -> "Path":
        """The path that stays on its last token for another frame."""
        if self.link is None or self.score + gain == IMPOSSIBLE:
            return NOWHERE
        (first, _, peak), value = self.link.frames, self.link.value
        if gain > value:
            peak, value = frame, gain
        return Path(self.score + gain, Link(self.link.before, TokenFrames(first, frame, peak), value))

    def to(self, gain: float, frame: int) -> "Path":
        """The path that goes on to a new token."""
        return Path(self.score + gain, Link(self.link, TokenFrames(frame, frame, frame), gain))


NOWHERE = Path(IMPOSSIBLE, None)


@dataclass(frozen=True, eq=False)
class Prefix:
    """One beginning of a text: log-sums over its paths that end in a blank and in its last token, the best path of
    either kind, and what length and a language model add to the score.

    `tokens` are those whose frames are not certain, and at least the last one that all prefixes share.
    """

    tokens: tuple[int, ...] = ()
    blank: float = 0.0
    token: float = IMPOSSIBLE
    blank_path: Path = Path(0.0, None)
    token_path: Path = NOWHERE
    bonus: float = 0.0
    knowledge: Knowledge | None = None

    @property
    def last(self) -> int:
        return self.tokens[-1] if self.tokens else BLANK

    @property
    def total(self) -> float:
        """The log-sum over all paths."""
        return added(self.blank, self.token)

    @property
    def score(self) -> float:
        return self.total + self.bonus

    @property
    def path(self) -> Path:
        return self.token_path if self.token_path.score >= self.blank_path.score else self.blank_path

    def before(self, token: int) -> float:
        """The log-sum over the paths that a token can follow: a repeat needs a blank between."""
        return self.blank if token == self.last else self.total

    def path_before(self, token: int) -> Path:
        return self.blank_path if token == self.last else self.path

    def stayed(self, row: Sequence[float], frame: int, parent: "Prefix | None") -> "Prefix":
        """The same prefix a frame later, with the paths that arrive from the prefix of one token less."""
        token, token_path = IMPOSSIBLE, NOWHERE
        if self.tokens:
            gain = row[self.last]
            token, token_path = self.token + gain, self.token_path.onto(gain, frame)
            if parent is not None:
                token = added(token, parent.before(self.last) + gain)
                arriving = parent.path_before(self.last)
                if arriving.score > self.token_path.score:
                    token_path = arriving.to(gain, frame)
        score, blank = self.path.score + row[BLANK], self.total + row[BLANK]
        blank_path = NOWHERE if score == IMPOSSIBLE else Path(score, self.path.link)
        return replace(self, blank=blank, token=token, blank_path=blank_path, token_path=token_path)

    def extended(self, token: int, gain: float, frame: int, bonus: float) -> "Prefix":
        return Prefix(
            tokens=(*self.tokens, token),
            blank=IMPOSSIBLE,
            token=self.before(token) + gain,
            blank_path=NOWHERE,
            token_path=self.path_before(token).to(gain, frame),
            bonus=self.bonus + bonus,
            knowledge=None if self.knowledge is None else self.knowledge.child(token),
        )


@dataclass(frozen=True, eq=False)
class Beam:
    """The prefixes that a search keeps, best first, and the place of the best path's prefix with its last label."""

    prefixes: tuple[Prefix, ...]
    greedy: int = 0
    label: int = BLANK


def advanced(beam: Beam, row: np.ndarray, frame: int, *, size: int, insertion: float, weight: float) -> Beam:
    """The beam after one frame, whose log-probabilities are `row`. `prefix_search.cpp` computes the same.

    Candidates are ordered by score, then by the place of the prefix that they continue, then by token. An extension
    cannot enter the beam below the `size`-th of the prefixes that stay, which excludes most tokens at once.
    """
    prefixes, gains = beam.prefixes, row.tolist()
    places = {prefix.tokens: place for place, prefix in enumerate(prefixes)}
    parents = [places.get(prefix.tokens[:-1]) if prefix.tokens else None for prefix in prefixes]
    stays = [
        prefix.stayed(gains, frame, None if parent is None else prefixes[parent])
        for prefix, parent in zip(prefixes, parents, strict=True)
    ]
    target = _greedy(beam, int(row.argmax()), places)
    scores = [prefix.score for prefix in stays]
    bar = sorted(scores, reverse=True)[size - 1] if len(scores) >= size else IMPOSSIBLE
    alive = [place for place, score in enumerate(scores) if score > IMPOSSIBLE or (place, BLANK) == target]
    order = [(-scores[place], place, BLANK) for place in alive]
    for place, prefix in enumerate(prefixes):
        bonus = np.full(len(row), insertion)
        if prefix.knowledge is not None:
            bonus += weight * prefix.knowledge.log_probabilities()
        gain = np.full(len(row), prefix.total)
        gain[prefix.last] = prefix.blank
        sums = (gain + row) + (prefix.bonus + bonus)
        for token in np.flatnonzero((sums >= bar) & (sums > IMPOSSIBLE)).tolist():
            if token != BLANK and (*prefix.tokens, token) not in places:
                order.append((-float(sums[token]), place, token))
        if target[0] == place and target[1] != BLANK:
            order.append((-float(sums[target[1]]), *target))
    identities = [(place, token) for _, place, token in sorted(set(order))[:size]]
    if target not in identities:
        identities[-1] = target
    result = []
    for place, token in identities:
        if token == BLANK:
            result.append(stays[place])
        else:
            prefix = prefixes[place]
            known = 0.0 if prefix.knowledge is None else weight * float(prefix.knowledge.log_probabilities()[token])
            result.append(prefix.extended(token, gains[token], frame, insertion + known))
    return Beam(tuple(result), identities.index(target), int(row.argmax()))


def _greedy(beam: Beam, label: int, places: dict[tuple[int, ...], int]) -> tuple[int, int]:
    """The candidate that is the best path's prefix: its place, and its token if it is an extension."""
    if label in (BLANK, beam.label):
        return beam.greedy, BLANK
    tokens = (*beam.prefixes[beam.greedy].tokens, label)
    return (places[tokens], BLANK) if tokens in places else (beam.greedy, label)


def linked(frames: Sequence[Sequence[int]], values: Sequence[float]) -> Link | None:
    """The last link of a path whose tokens stand on these frames, first token first; None without tokens."""
    link = None
    for span, value in zip(frames, values, strict=True):
        link = Link(link, TokenFrames(*span), value)
    return link


def added(x: float, y: float) -> float:
    """log(eˣ + eʸ)"""
    most, least = (x, y) if x >= y else (y, x)
    return most if least == IMPOSSIBLE else most + math.log1p(math.exp(least - most))
