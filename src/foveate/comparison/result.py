"""What a comparison found: means with errors, paired differences, and quality by length, from its cells."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from foveate.comparison.cell import Cell
from foveate.comparison.comparison_folder import Folder
from foveate.comparison.statistic import Estimate, paired
from foveate.storage.draft import write_file
from foveate.storage.manifest import write_json
from foveate.train.log import read_rows


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
    """Why a cell came to nothing, by its name."""

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
        """What a variant has more than the first one, over the seeds that both have."""
        if variant == self.variants[0]:
            return None
        sides = ({cell.seed: cell.scores[metric] for cell in self.of_variant(name)} for name in self._beside(variant))
        return paired(*sides)

    def mean(self, variant: str, figure: str) -> Estimate | None:
        """The mean of a figure of the cells, such as `seconds`; None where one is not known."""
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
        """What lengths are counted in; empty where there are none."""
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

    def _beside(self, variant: str) -> tuple[str, str]:
        return variant, self.variants[0]

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
