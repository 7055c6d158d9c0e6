"""Errors of transcripts: insertions, deletions and substitutions of words or characters."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Edits:
    """The smallest number of edits that turn a reference into a hypothesis, by kind, and its `hits`.

    Edits add up: their sum over a corpus gives the error rate of the corpus.

    >>> edits = Edits.between("the cat sat down".split(), "a cat sat".split())
    >>> edits
    Edits(hits=2, substitutions=1, deletions=1, insertions=0)
    >>> edits.rate
    0.5

    Reference: Levenshtein 1966. Where several alignments are best, their kinds may differ, never their sum.
    """

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @classmethod
    def between(cls, reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> "Edits":
        """Counted along one best alignment, which prefers substitutions to deletions and deletions to insertions."""
        table = _distances(reference, hypothesis)
        row, column = len(reference), len(hypothesis)
        counts = {"hits": 0, "substitutions": 0, "deletions": 0, "insertions": 0}
        while row or column:
            here = table[row, column]
            if row and column and reference[row - 1] == hypothesis[column - 1] and table[row - 1, column - 1] == here:
                kind, row, column = "hits", row - 1, column - 1
            elif row and column and table[row - 1, column - 1] + 1 == here:
                kind, row, column = "substitutions", row - 1, column - 1
            elif row and table[row - 1, column] + 1 == here:
                kind, row = "deletions", row - 1
            else:
                kind, column = "insertions", column - 1
            counts[kind] += 1
        return cls(**counts)

    @classmethod
    def of_words(cls, references: Iterable[str], hypotheses: Iterable[str]) -> "Edits":
        """The edits of words, which are separated by white space, over a corpus."""
        return cls.total(
            cls.between(reference.split(), hypothesis.split())
            for reference, hypothesis in zip(references, hypotheses, strict=True)
        )

    @classmethod
    def of_characters(cls, references: Iterable[str], hypotheses: Iterable[str]) -> "Edits":
        """The edits of characters over a corpus; white space between words counts as one character."""
        return cls.total(
            cls.between(" ".join(reference.split()), " ".join(hypothesis.split()))
            for reference, hypothesis in zip(references, hypotheses, strict=True)
        )

    @classmethod
    def total(cls, parts: Iterable["Edits"]) -> "Edits":
        """The sum of edits."""
        return sum(parts, cls())

    def __add__(self, other: "Edits") -> "Edits":
        return Edits(
            self.hits + other.hits,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )

    @property
    def count(self) -> int:
        """All edits."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def length(self) -> int:
        """The words or characters of the references."""
        return self.hits + self.substitutions + self.deletions

    @property
    def rate(self) -> float:
        """Edits per word or character of the reference, which may exceed 1; infinite for insertions into nothing."""
        if self.length:
            return self.count / self.length
        return float("inf") if self.count else 0.0


def _distances(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> np.ndarray:
    """The edits between the first i of one and the first j of the other, for all i and j.

    A row follows from the one before at once: d(i, j) = min_k≤j [m(i, k) + j − k], where m has no insertion in row i.
    """
    numbers: dict[Hashable, int] = {}
    rows, columns = (
        np.array([numbers.setdefault(one, len(numbers)) for one in side], np.int64) for side in (reference, hypothesis)
    )
    places = np.arange(len(columns) + 1)
    table = np.empty((len(rows) + 1, len(columns) + 1), np.int64)
    table[0] = places
    for number, one in enumerate(rows, start=1):
        above = table[number - 1]
        row = above + 1
        row[1:] = np.minimum(row[1:], above[:-1] + (columns != one))
        table[number] = np.minimum.accumulate(row - places) + places
    return table
