"""SDF files: records of molecules, each a drawing of atoms and bonds followed by named values."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from foveate.data.molecule import chemistry, reason_of_rdkit
from foveate.data.text import read_lines
from foveate.errors import DataError

REMEDY = "Correct it, or remove the record."
END = "$$$$"
"""The line after each record."""


class Record(NamedTuple):
    """A molecule of an SDF file."""

    line: int
    """The line with which the record begins, from 1."""
    smiles: str
    """Canonical SMILES by RDKit."""
    name: str
    """The title of the drawing, empty without one."""
    values: dict[str, str]
    """The named values below the drawing, as they are written."""


def read_records(path: Path | str) -> Iterator[Record]:
    """The records of an SDF file; `.gz` and `.xz` files are unpacked.

    Raises DataError with file, line, number of the record and RDKit's reason for one that is not a molecule, and
    SetupError without RDKit.
    """
    toolkit = chemistry()
    from rdkit import rdBase

    for number, (line, text) in enumerate(_texts(path), start=1):
        where = f"{path}:{line}: record {number}"
        with rdBase.BlockLogs():
            molecule = _parsed(toolkit, text)
        if molecule is None:
            reason = reason_of_rdkit(partial(_parsed, toolkit, text))
            raise DataError(f"{where} is not a molecule: {reason} {REMEDY}")
        if not molecule.GetNumAtoms():
            raise DataError(f"{where} is a molecule without atoms. {REMEDY}")
        values = {name: molecule.GetProp(name) for name in molecule.GetPropNames()}
        title = molecule.GetProp("_Name") if molecule.HasProp("_Name") else ""
        yield Record(line, toolkit.MolToSmiles(molecule), title.strip(), values)


def _parsed(toolkit: Any, text: str) -> Any:
    supplier = toolkit.SDMolSupplier()
    supplier.SetData(text)
    return next(iter(supplier), None)


def _texts(path: Path | str) -> Iterator[tuple[int, str]]:
    """The text of each record, and its first line. Empty lines at the end of a file are not a record."""
    first, lines = 1, list[str]()
    for line, text in enumerate(read_lines(path), start=1):
        if text.rstrip() == END:
            yield first, "\n".join([*lines, END, ""])
            first, lines = line + 1, []
        else:
            lines.append(text)
    if any(text.strip() for text in lines):
        yield first, "\n".join([*lines, ""])
