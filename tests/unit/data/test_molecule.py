"""Molecules from SMILES and tables: features, refusals by line with RDKit's reason, splits, stores."""

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from foveate.data.graph_place import LaplacianConfig
from foveate.data.molecule import ATOM_WIDTH, BOND_WIDTH, ELEMENTS, drawing_places, read_molecule, scaffold
from foveate.data.molecule_split import split_molecules
from foveate.data.molecule_store import read_molecules, write_molecules
from foveate.data.molecule_table import read_molecule_table, read_smiles
from foveate.errors import DataError, SetupError

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "C1CC1", "[Na+].[Cl-]", "C", "Cc1ccccc1", "F/C=C/F", "O=C1CCCCC1", "C#N"]


def table(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_features_say_what_chemists_read_off_a_formula() -> None:
    benzoic = read_molecule("OC(=O)c1ccccc1").graph
    assert benzoic.features.shape == (9, ATOM_WIDTH)
    elements = np.asarray(benzoic.features)[:, : len(ELEMENTS)]
    assert [ELEMENTS[one] for one in elements.argmax(1)] == list("OCOCCCCCC")
    assert benzoic.names == tuple("OCOCCCCCC")
    assert benzoic.edge_features is not None
    assert benzoic.edge_features.shape == (9, BOND_WIDTH)
    kinds = np.asarray(benzoic.edge_features)[:, :4].argmax(1)  # single, double, triple, aromatic
    assert sorted(kinds.tolist()) == [0, 0, 1, 3, 3, 3, 3, 3, 3]
    assert len(np.unique(np.asarray(benzoic.features)[4:], axis=0)) == 1  # five CH of the ring
    one, other = (read_molecule(smiles).graph for smiles in ("F/C=C/F", "F/C=C\\F"))
    assert (one.edge_features != other.edge_features).any()


def test_two_ways_to_write_a_molecule_have_one_canonical_form() -> None:
    assert read_molecule("OCC").smiles == read_molecule(" C(C)O ").smiles == "CCO"


def test_two_ways_to_write_a_molecule_give_one_graph_with_the_same_eigenvectors() -> None:
    from rdkit import Chem

    for smiles in ("c1ccccc1C(=O)OC", "C1CCC2(CC1)CCCCC2", "F/C=C/[C@H](N)Cl", "[O-]c1ccccc1.[Na+]"):
        molecule = Chem.MolFromSmiles(smiles)
        random = {Chem.MolToSmiles(molecule, doRandom=True) for _ in range(8)}
        assert len(random) > 1
        one, *others = (read_molecule(written).graph for written in random)
        for other in others:
            assert (one.names, one.edges.tolist()) == (other.names, other.edges.tolist())
            assert np.array_equal(one.features, other.features)
            assert np.array_equal(one.edge_features, other.edge_features)
            assert np.array_equal(LaplacianConfig().vectors(one), LaplacianConfig().vectors(other))


def test_salts_and_single_atoms_are_molecules() -> None:
    salt, atom = read_molecule("[Na+].[Cl-]").graph, read_molecule("C").graph
    assert (salt.names, salt.edges.shape, salt.isolated.tolist()) == (("Cl−", "Na+"), (2, 0), [0, 1])
    assert (len(atom), atom.edge_width) == (1, BOND_WIDTH)


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("CCX", "syntax error while parsing"),
        ("C1CC", "unclosed ring"),
        ("C(C)(C)(C)(C)C", "Explicit valence for atom # 0 C, 5, is greater than permitted."),
        ("c1ccc1c", "non-ring atom 4 marked aromatic"),
        ("  ", "empty"),
    ],
)
def test_invalid_smiles_are_refused_with_the_reason_of_rdkit(
    smiles: str, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError) as refusal:
        read_molecule(smiles)
    assert reason in str(refusal.value)
    path = table(tmp_path, f'smiles,y\nCCO,1\n"{smiles}",2\n')
    with pytest.raises(DataError) as refusal:
        read_molecule_table(path)
    assert str(refusal.value).startswith(f"{path}:3: ")
    assert reason in str(refusal.value)
    assert capfd.readouterr() == ("", "")  # nothing but the error


def test_without_rdkit_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(SetupError, match=r"pip install 'foveate\[molecule\]'"):
        read_molecule("CCO")


def test_a_table_has_targets_by_name_and_unknown_values(tmp_path: Path) -> None:
    path = table(tmp_path, "id\tSMILES\ta\tb\nx\tCCO\t0.5\t\n\ny\tC\t\t2\n", "t.tsv")
    both = read_molecule_table(path, targets=["b", "a"])
    assert both.targets == ("b", "a")
    assert np.array_equal(both.values, [[np.nan, 0.5], [2, np.nan]], equal_nan=True)
    assert both.lines == [2, 4]
    assert read_smiles(path) == [(2, "CCO", ""), (4, "C", "")]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", "is empty"),
        ("smiles,y\n", "no molecules below its first line"),
        ("smiles,y,y\nC,1,2\n", "two columns have the name 'y'"),
        ("structure,y\nC,1\n", "0 columns with the name `smiles`"),
        ("smiles,a,b\nC,1,2\n", "2 columns beside SMILES: 'a', 'b'"),
        ("smiles,y\nC,1\nC\n", ":3: the line has 1 cells"),
        ("smiles,y\nC,high\n", ":2: y is 'high', and must be a number"),
        ("smiles,y\nC,inf\n", ":2: y is 'inf'"),
        ("smiles,y\nC,1e39\n", ":2: y is '1e39', and must be a number from -3.4e+38 to 3.4e+38, 0 or 1 for"),
        ("smiles,y\nCC O,1\n", ":2: 'CC' are followed by text after a space, 'O'"),
        ('smiles,y\n"C,1\n', "unexpected end of data"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(text: str, refusal: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_molecule_table(table(tmp_path, text))
    assert refusal in str(error.value)


def test_text_after_a_space_is_a_name_in_files_of_lines_only(tmp_path: Path) -> None:
    lines = table(tmp_path, "SMILES Name\nCCO ethanol\n\nC\nCC(=O)O\tacetic  acid\n", "m.smi")
    assert read_smiles(lines) == [(2, "CCO", "ethanol"), (4, "C", ""), (5, "CC(=O)O", "acetic acid")]
    for read in (read_molecule, scaffold, drawing_places):
        with pytest.raises(DataError, match="'CC' are followed by text after a space, 'O'"):
            read("CC O")


def test_a_wrong_name_of_a_target_is_told_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Did you mean 'solubility'"):
        read_molecule_table(table(tmp_path, "smiles,solubility,y\nC,1,2\n"), targets=["solubilty"])


def test_a_random_split_follows_from_the_seed_and_holds_every_molecule_once() -> None:
    splits = [split_molecules(SMILES, "random", shares=(0.2, 0.2), seed=seed) for seed in (0, 0, 1)]
    assert splits[0] == splits[1] != splits[2]
    for split in splits:
        assert sorted(number for part in split.values() for number in part) == list(range(len(SMILES)))
        assert [len(part) for part in split.values()] == [6, 2, 2]


def test_a_scaffold_split_keeps_scaffolds_together_and_the_frequent_ones_for_training() -> None:
    smiles = [*SMILES, "Cc1ccccc1C", "Oc1ccccc1", "CCCC"]
    split = split_molecules(smiles, "scaffold", shares=(0.2, 0.2), seed=0)
    assert split == split_molecules(smiles, "scaffold", shares=(0.2, 0.2), seed=7)
    assert sorted(number for part in split.values() for number in part) == list(range(len(smiles)))
    place = {scaffold(smiles[number]): part for part, numbers in split.items() for number in numbers}
    for part, numbers in split.items():
        assert {place[scaffold(smiles[number])] for number in numbers} <= {part}
    assert place[""] == "train"  # six molecules without rings
    assert scaffold("Cc1ccccc1") == scaffold("Oc1ccccc1") == "c1ccccc1"


def test_a_scaffold_with_more_molecules_than_are_for_training_is_refused() -> None:
    for smiles, named in ((["CCO"] * 9 + ["C1CC1"], "have no rings"), (["CC1CC1"] * 9 + ["C"], "the scaffold 'C1CC1'")):
        with pytest.raises(DataError, match=rf'9 of 10 molecules .*{named}.* 8 are for training. .* "random"'):
            split_molecules(smiles, "scaffold", shares=(0.1, 0.1), seed=0)
        assert len(split_molecules(smiles, "scaffold", shares=(0.1, 0.0), seed=0)["train"]) == 9


def test_a_store_gives_back_the_same_graphs_without_rdkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"{smiles},{number if number % 2 else ''}\n" for number, smiles in enumerate(SMILES))
    whole = read_molecule_table(table(tmp_path, f"smiles,y\n{lines}"))
    write_molecules(whole, tmp_path / "m.npz")
    write_molecules(whole.chosen([]), tmp_path / "none.npz")
    monkeypatch.setitem(sys.modules, "rdkit", None)
    again = read_molecules(tmp_path / "m.npz")
    assert (again.targets, again.lines) == (whole.targets, whole.lines)
    assert np.array_equal(again.values, whole.values, equal_nan=True)
    for one, other in zip(again.molecules, whole.molecules, strict=True):
        assert (one.smiles, one.graph.names) == (other.smiles, other.graph.names)
        for name in ("features", "edges", "edge_features"):
            assert np.array_equal(getattr(one.graph, name), getattr(other.graph, name))
    assert len(read_molecules(tmp_path / "none.npz")) == 0
    (tmp_path / "m.npz").write_bytes((tmp_path / "m.npz").read_bytes()[:-40])
    with pytest.raises(DataError, match="damaged"):
        read_molecules(tmp_path / "m.npz")


def test_a_drawing_puts_every_atom_at_a_place_of_its_own() -> None:
    places = drawing_places("c1ccccc1O")
    apart = np.linalg.norm(places[:, None] - places, axis=-1) + 9 * np.eye(7)
    assert places.shape == (7, 2)
    assert 1.0 < apart.min() < 2.0


def test_the_reason_of_rdkit_does_not_depend_on_the_logging_of_the_program() -> None:
    logging.disable(logging.CRITICAL)
    try:
        with pytest.raises(DataError, match="'CXC' is not valid SMILES: SMILES Parse Error: syntax error"):
            read_molecule("CXC")
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("smiles", ["C" * 20_000, "c" * 20_000, "[H]" * 6000, "C." * 9000 + "C"])
def test_a_chain_that_ends_the_process_of_rdkit_is_refused(smiles: str) -> None:
    with pytest.raises(DataError, match=r"and a molecule may have 5,000|not valid SMILES"):
        read_molecule(smiles)


def test_atoms_are_counted_before_anything_else() -> None:
    assert len(read_molecule("CCO", most=3)) == 3
    with pytest.raises(DataError, match="has 4 atoms, and the model was trained with at most 3"):
        read_molecule("CCCO", most=3)
    assert len(read_molecule("[H]C([H])([H])C", most=2)) == 2
