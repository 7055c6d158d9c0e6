"""A word aligner without networks: IBM model 1, then a prior for the diagonal, by expectation-maximisation.

It is a baseline for neural alignments, and makes links for guided attention if there are no links by people.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from foveate.errors import DataError
from foveate.inspect.link import Link, symmetrise

Words = Sequence[str]
TINY = 1e-300
NOTHING = 0
"""The index of the empty word."""


@dataclass(frozen=True, eq=False)
class Aligner:
    """p(t_j, a_j = i | s) ∝ θ(t_j | s_i) · exp(−λ |i/m − j/n|), with a share p₀ for the empty word

    θ is stored for pairs of words that occur together in a sentence. λ = 0 is model 1.

    >>> pairs = [(["la", "maison"], ["the", "house"]), (["la", "fleur"], ["the", "flower"])]
    >>> sorted(Aligner.train(pairs, tension=0.0)(["fleur", "la"], ["the", "flower"]))
    [(0, 1), (1, 0)]

    Reference: Brown et al. 1993 (model 1); Dyer, Chahuneau & Smith 2013, equation 1 (who learn λ; here it is a
    setting, and the position of a word is its middle, (j + ½)/n).
    """

    source: dict[str, int]
    target: dict[str, int]
    keys: Int64[np.ndarray, " pairs"]
    theta: Float64[np.ndarray, " pairs"]
    tension: float
    nothing: float

    @classmethod
    def train(
        cls,
        pairs: Sequence[tuple[Words, Words]],
        *,
        iterations: int = 5,
        tension: float = 4.0,
        nothing: float = 0.08,
        smoothing: float = 0.01,
    ) -> "Aligner":
        """Train model 1 for `iterations`, then as many with the prior. Smoothing is added to every expected count, so
        that a rare word does not explain all words around it. Raises DataError if no pair has words.
        """
        pairs = [(s, t) for s, t in pairs if s and t]  # pairs with an empty side are not useful
        if not pairs:
            raise DataError(
                "No pair has words on both sides, so there is nothing to align. Give pairs with words on both sides."
            )
        source, target = (_vocabulary(side) for side in zip(*pairs, strict=True))
        grids = [_grid([NOTHING, *_numbers(s, source)], _numbers(t, target), len(target)) for s, t in pairs]
        keys, pair = np.unique(np.concatenate([grid.ravel() for grid in grids]), return_inverse=True)
        row = np.concatenate([_rows(grid) + start for grid, start in zip(grids, _starts(grids), strict=True)])
        of_source = keys // len(target)
        theta = np.ones(len(keys))
        for strength in [0.0] * iterations + [tension] * iterations:
            prior = np.concatenate([_prior(grid, strength, nothing).ravel() for grid in grids])
            joint = theta[pair] * prior
            count = np.bincount(pair, joint / np.bincount(row, joint)[row], len(keys)) + smoothing
            theta = count / np.bincount(of_source, count).clip(min=TINY)[of_source]
        return cls(source, target, keys, theta, tension, nothing)

    def __call__(self, source: Words, target: Words) -> set[Link]:
        """The most probable source word of every target word, unless it is the empty word."""
        if not source or not target:
            return set()
        known = [[self.source.get(word, -1) for word in source], [self.target.get(word, -1) for word in target]]
        grid = _grid([NOTHING, *known[0]], known[1], len(self.target))
        place = np.searchsorted(self.keys, grid).clip(max=len(self.keys) - 1)
        met = (self.keys[place] == grid) & (np.array(known[1], dtype=int) >= 0)[:, None]
        theta = np.where(met, self.theta[place], 1e-9)
        best = (theta * _prior(grid, self.tension, self.nothing)).argmax(1) - 1
        return {(int(i), j) for j, i in enumerate(best) if i >= 0}


def align(train: Sequence[tuple[Words, Words]], pairs: Iterable[tuple[Words, Words]]) -> list[set[Link]]:
    """Align in both directions and symmetrise by grow-diag-final-and."""
    forward = Aligner.train(train)
    backward = Aligner.train([(target, source) for source, target in train])
    return [symmetrise(forward(s, t), {(i, j) for j, i in backward(t, s)}) for s, t in pairs]


def diagonal(source: Words, target: Words) -> set[Link]:
    """Target word j of n with source word ⌊(j + ½) m / n⌋ of m: a baseline that uses only the lengths."""
    return {(int((j + 0.5) * len(source) / len(target)), j) for j in range(len(target) if source else 0)}


def _vocabulary(sentences: Iterable[Words]) -> dict[str, int]:
    words = dict.fromkeys(word for words in sentences for word in words)
    return {word: number for number, word in enumerate(words, start=1)} | {"": NOTHING}


def _numbers(words: Words, vocabulary: dict[str, int]) -> list[int]:
    return [vocabulary[word] for word in words]


def _grid(source: Sequence[int], target: Sequence[int], size: int) -> np.ndarray:
    """One number for every pair of words: rows are target words."""
    return np.array(source, dtype=np.int64)[None, :] * size + np.array(target, dtype=np.int64)[:, None]


def _rows(grid: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(grid.shape[0]), grid.shape[1])


def _starts(grids: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(grid) for grid in grids])[:-1]])


def _prior(grid: np.ndarray, tension: float, nothing: float) -> np.ndarray:
    """The prior of each target word: p₀ for the empty word; the other source words share the rest."""
    target, source = grid.shape
    apart = np.abs((np.arange(target)[:, None] + 0.5) / target - (np.arange(source - 1) + 0.5) / max(source - 1, 1))
    near = np.exp(-tension * apart)
    near *= (1 - nothing) / near.sum(1, keepdims=True)
    return np.concatenate([np.full((target, 1), nothing), near], axis=1)
