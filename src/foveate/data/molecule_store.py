"""Molecules with their targets in `.npz` files of a run folder, which need no RDKit to be read."""

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from foveate.data.archive import read_archive
from foveate.data.graph import Graph
from foveate.data.molecule import ATOM_WIDTH, BOND_WIDTH, Molecule
from foveate.data.molecule_table import MoleculeTable
from foveate.errors import DataError
from foveate.storage.draft import write_file

FORMAT = "foveate molecules 1"
REMEDY = "Restore it, or train again."
DESCRIPTORS = "descriptors"
NAMES = ("format", "text", "atoms", "bonds", "atom_features", "edges", "bond_features", "targets", "values", "lines")


def write_molecules(table: MoleculeTable, path: Path) -> None:
    """Write molecules, completely or not at all."""
    graphs = [molecule.graph for molecule in table.molecules]
    text = "\n".join("\t".join((molecule.smiles, *molecule.graph.names)) for molecule in table.molecules)
    arrays: dict[str, Any] = {
        "format": FORMAT,
        "text": np.frombuffer(text.encode(), np.uint8),
        "atoms": np.array([len(graph) for graph in graphs], np.int64),
        "bonds": np.array([graph.edges.shape[1] for graph in graphs], np.int64),
        "atom_features": _joined([graph.features for graph in graphs], (0, ATOM_WIDTH)).astype(np.uint8),
        "edges": _joined([graph.edges.T for graph in graphs], (0, 2)).astype(np.int32),
        "bond_features": _joined([graph.edge_features for graph in graphs], (0, BOND_WIDTH)).astype(np.uint8),
        "targets": np.array(table.targets),
        "values": table.values,
        "lines": np.array(table.lines, np.int64),
    }
    described = [one.descriptors for one in table.molecules if one.descriptors is not None]
    if described:
        arrays[DESCRIPTORS] = np.stack(described)
    content = io.BytesIO()
    plain: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez_compressed(content, **plain)
    write_file(path, content.getvalue())


def read_molecules(path: Path) -> MoleculeTable:
    """The molecules that `write_molecules` wrote. Raises DataError for a file that is missing or damaged."""
    known = (*NAMES, DESCRIPTORS)
    arrays, names = read_archive(str(path), lambda names: [name for name in known if name in names], instead=REMEDY)
    if {*names, DESCRIPTORS} != set(known) or str(arrays["format"]) != FORMAT:
        raise DataError(f"{path} does not hold the molecules of a run. {REMEDY}")
    atoms, bonds = (np.cumsum([0, *arrays[name]]) for name in ("atoms", "bonds"))
    rows = arrays["text"].tobytes().decode().split("\n") if len(arrays["atoms"]) else []
    described = list(arrays.get(DESCRIPTORS, [None] * len(rows)))
    molecules = [
        Molecule(
            row[0],
            Graph(
                features=arrays["atom_features"][slice(*atom)].astype(np.float32),
                edges=arrays["edges"][slice(*bond)].T,
                edge_features=arrays["bond_features"][slice(*bond)].astype(np.float32),
                names=tuple(row[1:]),
            ),
            descriptors,
        )
        for row, atom, bond, descriptors in zip(
            (row.split("\t") for row in rows), pairwise(atoms), pairwise(bonds), described, strict=True
        )
    ]
    return MoleculeTable(molecules, tuple(map(str, arrays["targets"])), arrays["values"], arrays["lines"].tolist())


def _joined(parts: list[Any], empty: tuple[int, int]) -> np.ndarray:
    return np.concatenate([np.zeros(empty, np.float32), *parts])
