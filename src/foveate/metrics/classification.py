"""Metrics of classification: accuracy, and precision, recall and F1 of every class."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from foveate.metrics.named_score import Score, require_pairs


@dataclass(frozen=True)
class ClassScore:
    """The counts of one class: `right` predictions, all that were `predicted`, and all in the reference (`there`).

    >>> score = ClassScore("NOUN", right=3, predicted=4, there=6)
    >>> score.precision, score.recall, score.f1
    (75.0, 50.0, 60.0)
    """

    name: str
    right: int
    predicted: int
    there: int

    @property
    def precision(self) -> float:
        """100 · right / predicted, or 0 without predictions."""
        return 100 * self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """100 · right / there, or 0 if the reference does not contain the class."""
        return 100 * self.right / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        """2 · right / (predicted + there): the harmonic mean of precision and recall."""
        total = self.predicted + self.there
        return 200 * self.right / total if total else 0.0


def accuracy(predicted: Sequence[str], gold: Sequence[str]) -> Score:
    """100 · right labels / all labels.

    >>> print(accuracy(["N", "V", "N"], ["N", "V", "V"]))
    accuracy = 66.67

    Raises DataError for unequal counts or without labels.
    """
    require_pairs("accuracy", predicted, gold)
    right = sum(a == b for a, b in zip(predicted, gold, strict=True))
    return Score(name="accuracy", value=100 * right / len(gold), higher_is_better=True)


def class_scores(predicted: Sequence[str], gold: Sequence[str]) -> list[ClassScore]:
    """The counts of every class, the most frequent in the reference first."""
    require_pairs("F1", predicted, gold)
    right = Counter(b for a, b in zip(predicted, gold, strict=True) if a == b)
    guesses, there = Counter(predicted), Counter(gold)
    names = sorted(guesses | there, key=lambda name: (-there[name], name))
    return [ClassScore(name, right[name], guesses[name], there[name]) for name in names]


def macro_f1(predicted: Sequence[str], gold: Sequence[str]) -> Score:
    """The mean F1 of the classes of the reference, with equal weight for rare and frequent classes.

    >>> print(macro_f1(["N", "N", "N"], ["N", "N", "V"]))
    F1|mean:classes = 40.00
    """
    scores = [score.f1 for score in class_scores(predicted, gold) if score.there]
    return Score(name="F1", value=sum(scores) / len(scores), signature="mean:classes", higher_is_better=True)
