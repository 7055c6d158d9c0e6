"""The targets of molecules: their names, whether they are numbers or classes, and how numbers are standardised."""

import json
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
        """The targets of training data. Raises DataError for classes other than 0 and 1."""
        values, count = table.values.astype(np.float64), len(table.targets)
        binary = np.isnan(values) | (values == 0) | (values == 1)
        if predicts is None:
            predicts = "classes" if binary.all() else "numbers"
        if predicts == "classes":
            require_classes(table, "predicts = classes")
            return cls(names=table.targets, predicts=predicts, mean=(0.0,) * count, deviation=(1.0,) * count)
        for name, column in zip(table.targets, values.T, strict=True):
            if np.isnan(column).all():
                raise DataError(f"No molecule for training has a value of {name!r}. Leave it out of data.targets.")
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


def require_classes(table: MoleculeTable, because: str) -> None:
    """Raises DataError, with the line, for a target that is neither 0 nor 1."""
    odd = np.argwhere(~(np.isnan(table.values) | np.isin(table.values, (0, 1))))
    if len(odd):
        row, column = odd[0].tolist()
        raise DataError(
            f"Line {table.lines[row]}: {table.targets[column]} is {table.values[row, column]:g}, but {because}. "
            'Write 0, 1 or nothing, or set predicts = "numbers".'
        )
