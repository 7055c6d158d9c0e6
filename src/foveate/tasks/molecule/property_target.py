"""The targets of molecules: their names, whether they are numbers or classes, and how numbers are standardised."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from foveate.data.molecule_table import MoleculeTable
from foveate.errors import DataError
from foveate.storage.draft import write_file
from foveate.suggestion import listing

TARGETS = "data/targets.json"
"""The file of a run with its targets."""
Predicts = Literal["numbers", "classes"]


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The properties that a model predicts."""

    names: tuple[str, ...]
    predicts: Predicts
    mean: tuple[float, ...]
    """The mean of each target in the training data; 0 for classes."""
    deviation: tuple[float, ...]
    """Its standard deviation; 1 for classes, and for a target with one value."""

    @classmethod
    def of(cls, table: MoleculeTable, predicts: Predicts | None) -> "Targets":
        """The targets of training data.

        Raises DataError for a target without any value, for classes other than 0 and 1, and where the known classes of
        every target are one and the same.
        """
        for name, column in _columns(table):
            if np.isnan(column).all():
                raise DataError(
                    f"No molecule for training has a value of {name!r}. Give values, or leave it out of data.targets."
                )
        values, count = table.values.astype(np.float64), len(table.targets)
        binary = np.isnan(values) | (values == 0) | (values == 1)
        if predicts is None:
            predicts = "classes" if binary.all() else "numbers"
        if predicts == "classes":
            require_classes(table, "predicts = classes")
            if len(single := single_values(table)) == count:
                known = listing((f"{value:g} of {name!r}" for name, value in single.items()), 5)
                raise DataError(
                    f"All molecules for training have the same class, {known}, so there is nothing to learn. Choose "
                    "other columns with data.targets, give molecules of both classes, or split them otherwise."
                )
            return cls(names=table.targets, predicts=predicts, mean=(0.0,) * count, deviation=(1.0,) * count)
        deviation = np.nanstd(values, axis=0)
        return cls(
            names=table.targets,
            predicts=predicts,
            mean=tuple(np.nanmean(values, axis=0).tolist()),
            deviation=tuple(np.where(deviation > 0, deviation, 1.0).tolist()),
        )

    @classmethod
    def open(cls, run: Path) -> "Targets":
        record: dict[str, Any] = json.loads((run / TARGETS).read_text(encoding="utf-8"))
        parts: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in record.items()}
        return cls(**parts)

    def save(self, run: Path) -> None:
        write_file(run / TARGETS, (json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n").encode())

    def standardised(self, values: Float32[np.ndarray, "molecules targets"]) -> Float[Tensor, "molecules targets"]:
        return torch.from_numpy(((values - np.array(self.mean)) / np.array(self.deviation)).astype(np.float32))

    def answers(self, outputs: Float[Tensor, "molecules targets"]) -> Float32[np.ndarray, "molecules targets"]:
        """Outputs of the model in the units of the data: numbers, or the probability of class 1."""
        if self.predicts == "classes":
            return outputs.float().sigmoid().numpy()
        return (outputs.double().numpy() * np.array(self.deviation) + np.array(self.mean)).astype(np.float32)


def single_values(table: MoleculeTable) -> dict[str, float]:
    """The targets whose known values are all the same, each with this value."""
    different = {name: np.unique(column[~np.isnan(column)]) for name, column in _columns(table)}
    return {name: float(values[0]) for name, values in different.items() if len(values) == 1}


def unscored(table: MoleculeTable, predicts: Predicts) -> dict[str, str]:
    """The targets for which predictions of these molecules have no score, each with the reason."""
    reasons, single = dict[str, str](), single_values(table)
    for name, column in _columns(table):
        if np.isnan(column).all():
            reasons[name] = "no molecule has a value of it"
        elif predicts == "classes" and name in single:
            reasons[name] = f"all its known values are of class {single[name]:g}, and ROC-AUC compares two classes"
    return reasons


def require_scored(table: MoleculeTable, targets: Targets, name: str) -> None:
    """Raises DataError, with the `name` of the table, if predictions of its molecules have no score at all."""
    reasons = unscored(table, targets.predicts)
    if len(reasons) == len(targets.names):
        why = listing((f"of {target!r}, {reason}" for target, reason in reasons.items()), 5)
        raise DataError(
            f"{name} gives no score: {why}. Give molecules with other values; `foveate predict` needs no values."
        )


def _columns(table: MoleculeTable) -> Iterator[tuple[str, Float32[np.ndarray, " molecules"]]]:
    return zip(table.targets, table.values.T, strict=True)


def require_classes(table: MoleculeTable, because: str) -> None:
    """Raises DataError, with the line, for a target that is neither 0 nor 1."""
    odd = np.argwhere(~(np.isnan(table.values) | np.isin(table.values, (0, 1))))
    if len(odd):
        row, column = odd[0].tolist()
        raise DataError(
            f"Line {table.lines[row]}: {table.targets[column]} is {table.values[row, column]:g}, but {because}. "
            'Write 0, 1 or nothing, or set predicts = "numbers".'
        )
