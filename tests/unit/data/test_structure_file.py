"""SDF files: the molecules and values that RDKit wrote, and refusals by line and number of the record."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

from foveate.data.molecule import read_molecule
from foveate.data.molecule_table import read_molecule_table, read_smiles
from foveate.data.structure_file import read_records
from foveate.errors import DataError

MOLECULES = {"F/C=C/F": "1.5", "c1ccccc1O": "", "[Na+].[Cl-]": "-2", "N[C@@H](C)C(=O)O": "0"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with molecules, one of them without a value."""
    with Chem.SDWriter(str(tmp_path / "m.sdf")) as writer:
        for number, (smiles, value) in enumerate(MOLECULES.items()):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("_Name", f"molecule {number}")
            molecule.SetProp("smiles", "not read")
            if value:
                molecule.SetProp("log S", value)
            writer.write(molecule)
    return tmp_path / "m.sdf"


def test_molecules_are_those_that_are_drawn_with_their_values_and_names(path: Path) -> None:
    table = read_molecule_table(path, targets=["log S"])
    assert [one.smiles for one in table.molecules] == [read_molecule(smiles).smiles for smiles in MOLECULES]
    assert np.array_equal(table.values[:, 0], [1.5, np.nan, -2, 0], equal_nan=True)
    lines = path.read_text().splitlines()
    assert [lines[line - 1] for line in table.lines] == [f"molecule {number}" for number in range(len(MOLECULES))]
    assert [(one.smiles, one.name) for one in read_smiles(path)] == [
        (one.smiles, f"molecule {number}") for number, one in enumerate(table.molecules)
    ]


def test_packed_files_and_files_without_a_last_mark_have_the_same_records(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    (tmp_path / "packed.SDF.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "PACKED.SDF.GZ").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "open.sdf").write_text(text.removesuffix("$$$$\n"))
    (tmp_path / "more.sdf").write_text(text + "\n\n")
    for name in ("packed.SDF.gz", "PACKED.SDF.GZ", "open.sdf", "more.sdf"):
        assert read_smiles(tmp_path / name) == read_smiles(path)


def test_a_record_that_is_not_a_molecule_is_refused_with_its_number_and_reason(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    records = path.read_text().split("$$$$\n")
    broken = {
        "Explicit valence": records[1].replace("  6  7  1", "  6  7  3"),  # an aromatic carbon with a triple bond
        "not a molecule": "words\n",
        "no lines": "",
        "without atoms": "\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n",
    }
    for reason, record in broken.items():
        path.write_text("$$$$\n".join([records[0], record, *records[2:]]))
        line = records[0].count("\n") + 2
        with pytest.raises(DataError) as refusal:
            read_molecule_table(path, targets=["log S"])
        assert str(refusal.value).startswith(f"{path}:{line}: record 2 ")
        assert reason in str(refusal.value)
        assert str(refusal.value).endswith(("Correct it, or remove the record.", "Remove this line $$$$."))
    assert capfd.readouterr() == ("", "")


def test_a_chain_whose_order_rdkit_would_look_for_for_minutes_is_refused(tmp_path: Path) -> None:
    count = 20_000
    atoms = [f"{number} C {number} 0 0 0" for number in range(1, count + 1)]
    bonds = [f"{number} 1 {number} {number + 1}" for number in range(1, count)]
    blocks = ["BEGIN CTAB", f"COUNTS {count} {count - 1} 0 0 0", "BEGIN ATOM", *atoms, "END ATOM"]
    lines = [f"M  V30 {line}" for line in (*blocks, "BEGIN BOND", *bonds, "END BOND", "END CTAB")]
    head = ["chain", "", "", "  0  0  0     0  0            999 V3000"]
    (tmp_path / "chain.sdf").write_text("\n".join([*head, *lines, "M  END", "$$$$", ""]))
    with pytest.raises(DataError, match=r"chain\.sdf:1: record 1 has 20,000 atoms, and a molecule may have 5,000\."):
        read_smiles(tmp_path / "chain.sdf")


def test_a_file_without_records_and_a_wrong_name_of_a_value_are_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.sdf").write_text("\n")
    with pytest.raises(DataError, match="is empty"):
        read_molecule_table(tmp_path / "empty.sdf")
    with pytest.raises(DataError, match="no column 'log P' beside SMILES"):
        read_molecule_table(path, targets=["log P"])
    path.write_text(path.read_text().replace("\n-2\n", "\nlow\n"))
    with pytest.raises(DataError, match=r"m\.sdf:\d+: log S is 'low', and must be a number"):
        read_molecule_table(path, targets=["log S"])


def test_values_that_a_reader_could_drop_are_refused_with_their_line(path: Path) -> None:
    first, *rest = path.read_text().split("$$$$\n")
    line = first.count("\n")
    kinds = {
        ">  <note>\na\n\nb\n\n": (4, "stands where a line such as > <name>"),  # an empty line within a value
        ">  DT12\n3\n\n": (1, "stands where a line such as > <name>"),
        ">  <note>\na\n>  <y>\n3\n\n": (3, "an empty line must end the value before"),
        ">  <log S>\n2\n\n": (1, "record 1 has two values of 'log S'"),
        rest[0]: (1, "stands where a line such as > <name>"),  # a record without the line at its end
    }
    for addition, (place, reason) in kinds.items():
        path.write_text("$$$$\n".join([first + addition, *rest]))
        with pytest.raises(DataError) as refusal:
            read_smiles(path)
        assert str(refusal.value).startswith(f"{path}:{line + place}: ")
        assert reason in str(refusal.value)


def test_values_of_several_lines_private_names_and_titles_with_tabs_are_read(path: Path) -> None:
    first, *rest = path.read_text().replace("molecule 0", "\tmolecule\t0 ").split("$$$$\n")
    values = ">  <note>\na > b\n>5\n\n> 7 <_y> (A-1)\n3\n\n>  <none>\n\n\n><last>\n4\n"
    path.write_text("$$$$\n".join([first + values, *rest]).replace("\n", "\r\n"), newline="")
    record = next(read_records(path))
    assert record.name == "molecule 0"
    assert record.values == {
        "smiles": "not read", "log S": "1.5", "note": "a > b\n>5", "_y": "3", "none": "", "last": "4"
    }  # fmt: skip
