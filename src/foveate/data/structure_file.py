"""SDF files: records of molecules, each a drawing of atoms and bonds followed by named values."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from foveate.data.molecule import LARGEST, chemistry, reason_of_rdkit
from foveate.data.text import read_lines, short
from foveate.errors import DataError

REMEDY = "Correct it, or remove the record."
END = "$$$$"
"""The line after each record."""
DRAWN = "M  END"
"""The line after each drawing."""
HEADER = re.compile(r">.*?<(.+)>")
"""The line before a named value, such as `>  <log S>  (12)`."""


class Record(NamedTuple):
    """A molecule of an SDF file."""

    line: int
    """The line with which the record begins, from 1."""
    smiles: str
    """Canonical SMILES by RDKit."""
    name: str
    """The title of the drawing, with single spaces; empty without one."""
    values: dict[str, str]
    """The named values below the drawing, as they are written."""


def read_records(path: Path | str) -> Iterator[Record]:
    """The records of an SDF file; `.gz` and `.xz` files are unpacked.

    Raises DataError with file, line, number of the record and RDKit's reason for one that is not a molecule, and with
    the line for text below a drawing that is not a named value, and for two values with one name; SetupError without
    RDKit.
    """
    toolkit = chemistry()
    from rdkit import rdBase

    for number, (first, lines) in enumerate(_parts(path), start=1):
        ends = (place for place, text in enumerate(lines, start=1) if text.startswith(DRAWN))
        size = next(ends, len(lines))
        parse = partial(toolkit.MolFromMolBlock, "\n".join([*lines[:size], ""]))
        where = f"{path}:{first}: record {number}"
        if not lines:
            raise DataError(f"{where} has no lines. Remove this line {END}.")
        with rdBase.BlockLogs():
            molecule = parse()
        if molecule is None:
            raise DataError(f"{where} is not a molecule: {reason_of_rdkit(parse)} {REMEDY}")
        if not molecule.GetNumAtoms():
            raise DataError(f"{where} is a molecule without atoms. {REMEDY}")
        if molecule.GetNumAtoms() > LARGEST:  # RDKit would look for their order for minutes
            raise DataError(
                f"{where} has {molecule.GetNumAtoms():,} atoms, and a molecule may have {LARGEST:,}. {REMEDY}"
            )
        values = dict[str, str]()
        for line, name, value in _named_values(path, first + size, lines[size:]):
            if name in values:
                raise DataError(f"{path}:{line}: record {number} has two values of {short(name)}. Remove one of them.")
            values[name] = value
        yield Record(first, toolkit.MolToSmiles(molecule), " ".join(lines[0].split()), values)


def _named_values(path: Path | str, first: int, lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """The line, the name and the value of each named value. RDKit would drop what it does not expect in silence."""
    texts = enumerate(lines, start=first)
    for line, text in texts:
        if not text.strip():
            continue
        if (header := HEADER.match(text)) is None:
            raise DataError(
                f"{path}:{line}: {short(text)} stands where a line such as > <name> begins a value. A value is the "
                f"lines below its name as far as the next empty line, and a record ends with a line {END}."
            )
        value = list[str]()
        for place, part in texts:
            if not part.strip():
                break
            if HEADER.match(part):
                raise DataError(f"{path}:{place}: an empty line must end the value before {short(part)}. Insert it.")
            value.append(part)
        yield line, header[1].strip(), "\n".join(value)


def _parts(path: Path | str) -> Iterator[tuple[int, list[str]]]:
    """The first line of each record, and its lines. Empty lines at the end of a file are not a record."""
    first, lines = 1, list[str]()
    for line, text in enumerate(read_lines(path), start=1):
        if text.rstrip() == END:
            yield first, lines
            first, lines = line + 1, []
        else:
            lines.append(text)
    if any(text.strip() for text in lines):
        yield first, lines
