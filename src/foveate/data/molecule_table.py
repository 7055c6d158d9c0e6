"""Tables of molecules: a column of SMILES, and columns of numbers or classes that a model predicts."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from foveate.data.graph import LARGEST, feature_of
from foveate.data.molecule import REMEDY, Molecule, read_molecule
from foveate.data.structure_file import read_records
from foveate.data.text import read_lines, short
from foveate.errors import DataError
from foveate.suggestion import did_you_mean, listing

SMILES = "smiles"
"""The usual name of the column, in large or small letters."""
PACKED = (".gz", ".xz")
FORM = (
    "A table of molecules is a .csv or .tsv file whose first line names the columns; one column has SMILES, and others "
    "have numbers. Or it is an .sdf file, whose records have the numbers as named values."
)


@dataclass(frozen=True, eq=False)
class MoleculeTable:
    """Molecules, and what is known about each."""

    molecules: list[Molecule]
    targets: tuple[str, ...]
    """The names of the columns that are predicted."""
    values: Float32[np.ndarray, "molecules targets"]
    """NaN where a cell is empty."""
    lines: list[int]

    def __len__(self) -> int:
        return len(self.molecules)

    def chosen(self, numbers: Sequence[int]) -> "MoleculeTable":
        """Some of the molecules."""
        molecules, lines = [self.molecules[number] for number in numbers], [self.lines[number] for number in numbers]
        return MoleculeTable(molecules, self.targets, self.values[np.array(numbers, np.int64)], lines)


def read_molecule_table(path: Path | str, *, smiles: str | None = None, targets: Sequence[str] = ()) -> MoleculeTable:
    """The molecules of a table and their targets. Empty cells of targets are unknown values.

    `smiles` names the column of SMILES, by default the one of this name; `targets` name the columns that are predicted,
    by default the only other one. The molecules of an .sdf file are those that it draws, and its named values are the
    columns; the line of a record is its first one.

    Raises DataError with file and line for SMILES that are not valid, cells that are not numbers, and a line with
    another number of cells; and for a table without these columns.
    """
    rows = _rows(path)
    if not rows:
        raise DataError(f"{path} is empty. {FORM}")
    line, header = rows[0]
    header = [name.strip() for name in header]
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"{path}:{line}: two columns have the name {short(twice)}. Rename one of them.")
    place = 0 if _is_sdf(path) else _smiles_column(path, header, smiles)
    places = _target_columns(path, header, place, targets)
    molecules, values, lines = list[Molecule](), list[list[float]](), list[int]()
    for line, cells in rows[1:]:
        if len(cells) != len(header):
            raise DataError(f"{path}:{line}: the line has {len(cells)} cells, but the first line names {len(header)}.")
        try:
            molecules.append(read_molecule(cells[place]))
        except DataError as error:
            raise DataError(f"{path}:{line}: {error}") from None
        values.append([_number(path, line, header[column], cells[column]) for column in places])
        lines.append(line)
    if not molecules:
        raise DataError(f"{path} has no molecules below its first line. {FORM}")
    table = np.array(values, np.float32).reshape(len(molecules), len(places))
    return MoleculeTable(molecules, tuple(header[column] for column in places), table, lines)


class WrittenMolecule(NamedTuple):
    """The SMILES of a file."""

    line: int
    smiles: str
    name: str = ""


def read_smiles(path: Path | str, *, smiles: str | None = None) -> list[WrittenMolecule]:
    """The SMILES of a file: of a table with that column, or of lines that are SMILES each.

    In a file of lines, such as `.smi`, text after the first space or tab is the name of a molecule, and the first line
    may be a title that begins with the word SMILES.
    """
    if _kind(path) in (".csv", ".tsv"):
        rows = _rows(path)
        if not rows:
            raise DataError(f"{path} is empty. {FORM}")
        place = _smiles_column(path, [name.strip() for name in rows[0][1]], smiles)
        return [WrittenMolecule(line, cells[place] if place < len(cells) else "") for line, cells in rows[1:]]
    if _is_sdf(path):
        return [WrittenMolecule(record.line, record.smiles, record.name) for record in read_records(path)]
    parts = [(line, text.split()) for line, text in enumerate(read_lines(path), start=1) if text.strip()]
    titled = bool(parts) and parts[0][1][0].lower() == SMILES
    return [WrittenMolecule(line, first, " ".join(name)) for line, (first, *name) in parts[titled:]]


def _is_sdf(path: Path | str) -> bool:
    return _kind(path) == ".sdf"


def _kind(path: Path | str) -> str:
    """The last ending that is not of packing, in lower case; empty without one."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in PACKED), "")


def _rows(path: Path | str) -> list[tuple[int, list[str]]]:
    """The cells of lines that are not empty, with the numbers of the lines. Of records, the SMILES stand first."""
    if _is_sdf(path):
        records = list(read_records(path))
        names = list(dict.fromkeys(name for record in records for name in record.values))
        cells = [(one.line, [one.smiles, *(one.values.get(name, "") for name in names)]) for one in records]
        return [(1, ["", *names]), *cells] if records else []
    lines = [f"{line}\n" for line in read_lines(path)]
    tabs = _kind(path) == ".tsv" or (_kind(path) != ".csv" and bool(lines) and "\t" in lines[0])
    try:
        reader = csv.reader(lines, delimiter="\t" if tabs else ",", strict=True)
        return [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: {error}. {FORM}") from None


def _smiles_column(path: Path | str, header: Sequence[str], name: str | None) -> int:
    names = [name] if name is not None else [each for each in header if each.lower() == SMILES]
    if len(names) != 1 or names[0] not in header:
        lack = f"no column {short(name)}" if name is not None else f"{len(names)} columns with the name `smiles`"
        raise DataError(
            f"{path} has {lack}.{did_you_mean(name or SMILES, header)} Its columns are "
            f"{listing(map(repr, header), 20)}. Name that of SMILES with data.smiles."
        )
    return header.index(names[0])


def _target_columns(path: Path | str, header: Sequence[str], smiles: int, names: Sequence[str]) -> list[int]:
    others = [name for place, name in enumerate(header) if place != smiles]
    if not names:
        if len(others) != 1:
            raise DataError(
                f"{path} has {len(others)} columns beside SMILES: {listing(map(repr, others), 20) or 'none'}. Name "
                "those to predict: --set 'data.targets=[\"…\"]'."
            )
        names = others
    for name in names:
        if name not in others:
            raise DataError(
                f"{path} has no column {short(name)} beside SMILES.{did_you_mean(name, others)} There are: "
                f"{listing(map(repr, others), 20) or 'none'}."
            )
    return [header.index(name) for name in names]


def _number(path: Path | str, line: int, name: str, cell: str) -> float:
    if not cell.strip():
        return math.nan
    value = feature_of(cell)
    if value is None:
        raise DataError(
            f"{path}:{line}: {name} is {short(cell)}, and must be a number from {-LARGEST:.2g} to {LARGEST:.2g}, 0 or "
            f"1 for classes, or empty where it is not known. {REMEDY}"
        )
    return value
