"""Descriptors of whole molecules: numbers that RDKit computes, told as ranks among the molecules for training."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from foveate.data.archive import read_archive
from foveate.data.molecule import Molecule, chemistry
from foveate.errors import DataError
from foveate.storage.draft import write_file
from foveate.suggestion import listing

QUANTILES = 256
"""Intervals between the quantiles of a descriptor that a run stores."""


def descriptor_names() -> tuple[str, ...]:
    """The names of the descriptors that the installed RDKit computes. Raises SetupError without RDKit."""
    chemistry()
    from rdkit.Chem import Descriptors

    return tuple(name for name, _ in Descriptors.descList)


def with_descriptors(molecule: Molecule, names: Sequence[str]) -> Molecule:
    """The molecule with these descriptors, such as its mass, its polar surface and an estimate of its log P.

    They are computed from the canonical SMILES, so that two ways to write a molecule have the same. NaN where one is
    not defined, such as a partial charge of a metal.

    >>> from foveate.data.molecule import read_molecule
    >>> with_descriptors(read_molecule("OCC"), ["HeavyAtomCount", "NumHDonors", "RingCount"]).descriptors.tolist()
    [3.0, 1.0, 0.0]

    Raises DataError for one that the installed RDKit does not compute, SetupError without RDKit.
    """
    toolkit = chemistry()
    from rdkit import rdBase
    from rdkit.Chem import Descriptors

    with rdBase.BlockLogs():
        parsed = toolkit.MolFromSmiles(molecule.smiles)
        values = Descriptors.CalcMolDescriptors(parsed, missingVal=math.nan, silent=True)
    if missing := [name for name in names if name not in values]:
        raise DataError(
            f"The model reads descriptors that the installed RDKit does not compute: {listing(missing, 5)}. Install "
            "the version of RDKit with which the model was trained, or train again."
        )
    largest = np.finfo(np.float32).max
    numbers = np.clip(np.array([values[name] for name in names], np.float64), -largest, largest).astype(np.float32)
    return Molecule(molecule.smiles, molecule.graph, numbers)


def described(molecules: Sequence[Molecule], names: Sequence[str]) -> Float32[np.ndarray, "molecules descriptors"]:
    """Descriptors of several molecules by these names: those that they have, or, where one has none, computed now."""
    complete = (one if one.descriptors is not None else with_descriptors(one, names) for one in molecules)
    return np.array([one.descriptors for one in complete], np.float32).reshape(len(molecules), len(names))


@dataclass(frozen=True, eq=False)
class Ranks:
    """r(x) = P(X < x) + P(X ≤ x) − 1 for X among the molecules for training: from −1 to 1, and 0 for unknown values

    Descriptors differ by many orders of magnitude and have long tails; ranks do not. A descriptor with one value in
    training has the rank 0 everywhere, because nothing is learned about others. The distribution is kept as quantiles,
    with linear interpolation between values.

    >>> rings = np.repeat([[0], [1], [5]], 100, axis=0).astype(np.float32)
    >>> [f"{rank:.1f}" for rank in Ranks.of(("rings",), rings)(rings[::100])[:, 0]]
    ['-0.7', '0.0', '0.7']

    Reference: Yang et al. 2019, "Analyzing Learned Molecular Representations for Property Prediction", section 3.4, who
    use cumulative distribution functions that were fitted to a large set of molecules.
    """

    names: tuple[str, ...]
    quantiles: Float32[np.ndarray, "quantiles descriptors"]

    @classmethod
    def of(cls, names: Sequence[str], values: Float32[np.ndarray, "molecules descriptors"]) -> "Ranks":
        """The ranks among these molecules, for the descriptors that have more than one value."""
        known = [column[~np.isnan(column)] for column in values.T]
        shares = np.linspace(0, 1, QUANTILES + 1)
        columns = [np.quantile(column.astype(np.float64), shares) if len(column) else 0 * shares for column in known]
        return cls(tuple(names), np.stack(columns, axis=1).astype(np.float32))

    def __call__(
        self, values: Float32[np.ndarray, "molecules descriptors"]
    ) -> Float32[np.ndarray, "molecules descriptors"]:
        ranks = np.zeros(values.shape, np.float32)
        for column, quantiles in enumerate(self.quantiles.T):
            if quantiles[0] < quantiles[-1]:
                sides = (np.searchsorted(quantiles, values[:, column], side=side) for side in ("left", "right"))
                ranks[:, column] = sum(sides) / len(quantiles) - 1
        return np.where(np.isnan(values), np.float32(0), ranks)

    def save(self, path: Path) -> None:
        """Write them, completely or not at all."""
        content = io.BytesIO()
        np.savez_compressed(content, names=np.array(self.names), quantiles=self.quantiles)
        write_file(path, content.getvalue())

    @classmethod
    def open(cls, path: Path) -> "Ranks":
        """The ranks that `save` wrote. Raises DataError for a file that is missing or damaged."""
        arrays, _ = read_archive(
            str(path), lambda names: [name for name in names if name in ("names", "quantiles")], instead="Train again."
        )
        if set(arrays) != {"names", "quantiles"} or len(arrays["names"]) != len(arrays["quantiles"].T):
            raise DataError(f"{path} does not hold the ranks of descriptors. Restore it, or train again.")
        return cls(tuple(map(str, arrays["names"])), arrays["quantiles"])
