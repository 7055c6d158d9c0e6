"""The results of a comparison: means with errors over random starts, paired differences, quality by length."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from foveate.comparison.cell import Cell
from foveate.comparison.comparison_folder import Folder
from foveate.storage.draft import write_file
from foveate.storage.manifest import write_json
from foveate.train.log import read_rows

# Two-sided 95 % points of Student's t with 1 to 30 degrees of freedom.
# fmt: off
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on


def student(degrees: int) -> float:
    """The t of a 95 % interval: what the standard error is multiplied by.

    >>> student(2), student(30), round(student(120), 2)
    (4.303, 2.042, 1.98)
    """
    return _T[degrees - 1] if degrees <= len(_T) else 1.96 + 2.4 / degrees


@dataclass(frozen=True)
class Estimate:
    """An estimate of the mean of independent figures.

    error = s / √n with s² = Σ (x − mean)² / (n − 1); the interval is mean ± t · error, which holds the true mean in 95
    of 100 such experiments if the figures scatter normally. One figure alone gives no error.

    >>> print(Estimate.of([1.0, 2.0, 3.0]), "|", Estimate.of([2.0]))
    2.00 ± 0.58 | 2
    """

    mean: float
    error: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Raises ValueError where there is no value."""
        if not values:
            raise ValueError("no value: there is no mean of nothing. Give at least one.")
        count = len(values)
        mean = math.fsum(values) / count
        if count == 1:
            return cls(mean, None, 1)
        variance = math.fsum((value - mean) * (value - mean) for value in values) / (count - 1)
        return cls(mean, math.sqrt(variance / count), count)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean, by Student's t."""
        if self.error is None:
            return None
        half = student(self.count - 1) * self.error
        return self.mean - half, self.mean + half

    @property
    def whisker(self) -> tuple[float, float]:
        """The ends of an error bar: a standard error to both sides, nothing where it is not known."""
        error = self.error if self.error is not None and math.isfinite(self.error) else 0.0
        return self.mean - error, self.mean + error

    @property
    def is_clear(self) -> bool:
        """Whether the 95 % interval leaves out 0: of a difference, whether there is likely to be one."""
        return self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)

    def to_dict(self) -> dict[str, float | int | list[float] | None]:
        """Plain data for JSON, which has no infinite numbers: an error beyond the largest number is not known."""
        known = self.interval if self.interval is not None and all(map(math.isfinite, self.interval)) else None
        error = self.error if self.error is not None and math.isfinite(self.error) else None
        interval = None if known is None else list(known)
        return {"mean": self.mean, "standard_error": error, "interval_95": interval, "count": self.count}

    def __str__(self) -> str:
        return self.shown()

    def shown(self, *, sign: bool = False) -> str:
        """The mean and its error with significant digits only: two of the error, or four of the mean.

        >>> Estimate(12.3456, 0.0123, 3).shown(), Estimate(1234.5, 25.0, 3).shown(sign=True)
        ('12.346 ± 0.012', '+1,234 ± 25')
        >>> Estimate(1.5e300, math.inf, 2).shown(), Estimate(2.5e18, 1.25e17, 3).shown()
        ('1.5e+300 ± ?', '2.5e+18 ± 1.2e+17')
        """
        plus = "+" if sign else ""
        if not self.error or not math.isfinite(self.error):
            error = "" if self.error is None else f" ± {'?' if self.error else 0}"
            return _figure(self.mean, plus, _digits(self.mean, 4), 4) + error
        digits = _digits(self.error, 2)
        return f"{_figure(self.mean, plus, digits, 4)} ± {_figure(self.error, '', digits, 2)}"


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """The mean difference of the starts that both have; None where there are none.

    Effects of the seed on both, mostly by the order of batches, cancel out: fewer seeds suffice than for two means.

    >>> print(paired({0: 3.0, 1: 5.0, 2: 9.0}, {0: 2.0, 1: 4.5}).shown(sign=True))
    +0.75 ± 0.25
    """
    shared = sorted(ours.keys() & theirs.keys())
    return Estimate.of([ours[seed] - theirs[seed] for seed in shared]) if shared else None


def _digits(value: float, significant: int) -> int:
    """Digits after the point that show so many significant ones."""
    if not value or not math.isfinite(value):
        return 0
    exponent = math.floor(math.log10(abs(value)))
    if significant == 4 and value == int(value):
        return 0
    return max(0, significant - 1 - exponent)


def _figure(value: float, plus: str, digits: int, significant: int) -> str:
    """A number with so many digits after the point; one of more than fifteen digits before it by its power of ten."""
    return f"{value:{plus}.{significant}g}" if abs(value) >= 1e15 else f"{value:{plus},.{digits}f}"


@dataclass(frozen=True, kw_only=True)
class Result:
    """The finished cells of a comparison."""

    task: str
    budget: str
    metrics: tuple[str, ...]
    lower: frozenset[str]
    """The metrics for which lower is better."""
    variants: tuple[str, ...]
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    folder: Path
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    """The reasons for failed cells, by their names."""

    @classmethod
    def of(cls, folder: Folder, cells: Sequence[Cell], failures: Mapping[str, str]) -> "Result":
        design = folder.design
        return cls(
            task=design.side.entry.name,
            budget=design.budget.words,
            metrics=design.asked.metrics,
            lower=frozenset(name for name in design.asked.metrics if name in design.side.lower),
            variants=tuple(design.variants),
            seeds=design.seeds,
            cells=tuple(cells),
            folder=folder.path,
            changes=design.changes,
            data={**folder.digests, **{f"test.{name}": digest for name, digest in folder.test_digests.items()}},
            failures=dict(failures),
        )

    def of_variant(self, variant: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.variant == variant]

    def score(self, variant: str, metric: str) -> Estimate | None:
        """The mean of a metric over the seeds; None while no cell is finished."""
        values = [cell.scores[metric] for cell in self.of_variant(variant)]
        return Estimate.of(values) if values else None

    def difference(self, variant: str, metric: str) -> Estimate | None:
        """The difference between a variant and the first one, over the seeds that both have."""
        if variant == self.variants[0]:
            return None
        ours, first = (
            {cell.seed: cell.scores[metric] for cell in self.of_variant(name)} for name in (variant, self.variants[0])
        )
        return paired(ours, first)

    def mean(self, variant: str, figure: str) -> Estimate | None:
        """The mean of a figure of the cells, such as `seconds`; None if a cell lacks it."""
        values = [getattr(cell, figure) for cell in self.of_variant(variant)]
        return Estimate.of(values) if values and None not in values else None

    def by_length(self, variant: str) -> dict[int, Estimate]:
        """The first metric by the length of the input."""
        values_of: dict[int, list[float]] = {}
        for cell in self.of_variant(variant):
            for bucket in cell.buckets:
                values_of.setdefault(bucket.longest, []).append(bucket.value)
        return {longest: Estimate.of(values) for longest, values in values_of.items()}

    @property
    def unit(self) -> str:
        """The unit of the lengths; empty where there are none."""
        return next((cell.unit for cell in self.cells if cell.buckets), "")

    def curves(self, cell: Cell) -> list[dict[str, Any]]:
        """The validations of a cell, from its metrics.jsonl."""
        rows = read_rows(self.folder / cell.folder / "metrics.jsonl")
        return [row for row in rows if row["kind"] == "valid"]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: all that the report shows, and every cell."""
        return {
            "task": self.task,
            "budget": self.budget,
            "metrics": {name: "lower" if name in self.lower else "higher" for name in self.metrics},
            "seeds": list(self.seeds),
            "data": dict(self.data),
            "variants": {name: self._summary(name) for name in self.variants},
            "cells": [asdict(cell) for cell in self.cells],
            "failures": dict(self.failures),
        }

    def save(self) -> None:
        """results.json, cells.csv, curves.csv and lengths.csv in the comparison's folder."""
        write_json(self.folder / "results.json", self.to_dict())
        for name, rows in (("cells", self._cells()), ("curves", self._curves()), ("lengths", self._lengths())):
            write_file(self.folder / f"{name}.csv", _csv(list(rows)))

    def _summary(self, name: str) -> dict[str, Any]:
        scores = {metric: self.score(name, metric) for metric in self.metrics}
        against = {metric: self.difference(name, metric) for metric in self.metrics}
        return {
            "changes": dict(self.changes.get(name, {})),
            "scores": {metric: estimate.to_dict() for metric, estimate in scores.items() if estimate},
            "difference_from_first": {metric: estimate.to_dict() for metric, estimate in against.items() if estimate},
            "by_length": {str(longest): one.to_dict() for longest, one in self.by_length(name).items()},
        }

    def _cells(self) -> Iterator[dict[str, Any]]:
        for cell in self.cells:
            figures = asdict(cell)
            names = ("variant", "seed", "parameters", "memory_bytes", "steps", "tokens", "seconds", "cpu_seconds")
            yield {**{name: figures[name] for name in names}, **cell.scores}

    def _curves(self) -> Iterator[dict[str, Any]]:
        for cell in self.cells:
            for row in self.curves(cell):
                figures = {name: value for name, value in row.items() if name not in ("kind", "best")}
                yield {"variant": cell.variant, "seed": cell.seed, **figures}

    def _lengths(self) -> Iterator[dict[str, Any]]:
        for cell in self.cells:
            for bucket in cell.buckets:
                where = {"variant": cell.variant, "seed": cell.seed, f"up_to_{cell.unit}": bucket.longest}
                yield {**where, "examples": bucket.count, self.metrics[0]: bucket.value}


def _csv(rows: list[dict[str, Any]]) -> bytes:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
