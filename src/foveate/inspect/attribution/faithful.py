"""The agreement of attributions with leave-one-out, and the effect of deleting the words that they rank first."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from foveate.errors import DataError
from foveate.inspect.attribution.answer import Answer, Way
from foveate.inspect.attribution.occlusion import MASKED
from foveate.inspect.attribution.reason import Why, why

MEASURES = {
    "tau": "Kendall's τ-b with leave-one-out",
    "tau_size": "Kendall's τ-b of sizes, without signs",
    "first": "share of words whose first input word is that of leave-one-out",
    "area": "area of the deletion curve above random orders, in nats",
}
"""The figures of a method, in words."""


@dataclass(frozen=True)
class Mean:
    """A mean over sentences with its standard error."""

    value: float
    error: float
    count: int
    """The sentences that have the figure."""

    @classmethod
    def of(cls, values: Iterable[float]) -> "Mean":
        """The mean of the values that are numbers; NaN without any, and an error of NaN for a single one.

        >>> Mean.of([1.0, 3.0, float("nan")])
        Mean(value=2.0, error=1.0, count=2)
        """
        real = np.array([value for value in values if not math.isnan(value)])
        if not len(real):
            return cls(math.nan, math.nan, 0)
        error = float(real.std(ddof=1) / math.sqrt(len(real))) if len(real) > 1 else math.nan
        return cls(float(real.mean()), error, len(real))

    def plain(self) -> dict[str, float | int | None]:
        """As plain data for JSON."""
        return {"value": _known(self.value), "error": _known(self.error), "count": self.count}

    def __str__(self) -> str:
        """
        >>> print(Mean(0.5, 0.02, 10), Mean(math.nan, math.nan, 0))
        0.500 ± 0.020 —
        """
        if math.isnan(self.value):
            return "—"
        return f"{self.value:.3f}" if math.isnan(self.error) else f"{self.value:.3f} ± {self.error:.3f}"


@dataclass(frozen=True, kw_only=True)
class Faithfulness:
    """The figures of each method over many sentences. A sentence counts once, with the mean of its words."""

    figures: Mapping[str, Mapping[str, Mean]]
    """By method, then by the names of `MEASURES`."""
    sentences: int
    way: Way
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Methods that do not suit the model, with the reason."""

    def __str__(self) -> str:
        """The table in Markdown."""
        lines = [f"| | {' | '.join(MEASURES)} |", f"|---|{'---|' * len(MEASURES)}"]
        for method, figures in self.figures.items():
            lines.append(f"| {method} | {' | '.join(str(figures[name]) for name in MEASURES)} |")
        lines += [f"| {method} | {' | '.join('—' * len(MEASURES))} |" for method in self.skipped]
        return "\n".join(lines)

    @property
    def note(self) -> str:
        """The measurement in words."""
        meanings = "; ".join(f"{name}: {words}" for name, words in MEASURES.items())
        return f"words are {MASKED[self.way]}; means with standard errors over texts; {meanings}"

    def plain(self) -> dict[str, object]:
        """The figures as plain data for JSON; a figure that is not known is null."""
        figures = {
            method: {name: mean.plain() for name, mean in means.items()} for method, means in self.figures.items()
        }
        return {"sentences": self.sentences, "way": self.way, "figures": figures, "skipped": dict(self.skipped)}


def faithfulness(answers: Iterable[Answer], *, way: Way | None = None, seed: int = 0) -> Faithfulness:
    """The figures of all methods over the answers to many sentences, with standard errors over sentences.

    Methods that do not suit the model of the first answer are left out. Raises DataError without answers.
    """
    measured: list[dict[str, dict[str, float]]] = []
    first: Why | None = None
    for answer in answers:
        reasons = why(answer, way=way, curves=True, seed=seed)
        first = first or reasons
        measured.append(figures_of(reasons))
    if first is None:
        raise DataError("There are no sentences to measure. Give a file with at least one that has words.")
    return Faithfulness(
        figures={
            method: {name: Mean.of(each.get(method, {}).get(name, math.nan) for each in measured) for name in MEASURES}
            for method in measured[0]
        },
        sentences=len(measured),
        way=first.way,
        skipped=first.skipped,
    )


def figures_of(reasons: Why) -> dict[str, dict[str, float]]:
    """The figures of one sentence by method: means over the words of its answer that have them."""
    return {
        each.method: {
            "tau": _mean(reasons.tau(each, output) for output in reasons.chosen),
            "tau_size": _mean(reasons.tau(each, output, signed=False) for output in reasons.chosen),
            "first": _mean(reasons.agrees(each, output) for output in reasons.chosen),
            "area": _mean(deletion.areas[number] for deletion in reasons.deletions),
        }
        for number, each in enumerate(reasons.attributions)
    }


def _mean(values: Iterable[float]) -> float:
    return Mean.of(values).value


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
