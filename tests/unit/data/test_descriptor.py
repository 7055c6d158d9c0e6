"""Descriptors of molecules: one value however a molecule is written, ranks as laws, and their file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foveate.data.descriptor import Ranks, described, descriptor_names, with_descriptors
from foveate.data.molecule import read_molecule
from foveate.data.molecule_store import read_molecules, write_molecules
from foveate.data.molecule_table import read_molecule_table
from foveate.errors import DataError

COLUMN = arrays(np.float32, st.integers(2, 400), elements=st.floats(-1e6, 1e6, width=32))


def ranks_of(column: np.ndarray) -> Ranks:
    return Ranks.of(("one",), column[:, None])


@settings(max_examples=50, deadline=None)
@given(column=COLUMN)
def test_ranks_rise_with_the_value_and_are_balanced_over_the_molecules_they_were_made_of(column: np.ndarray) -> None:
    ranks = ranks_of(column)(column[:, None])[:, 0]
    assert (np.abs(ranks) <= 1).all()
    assert (np.diff(ranks[np.argsort(column, kind="stable")]) >= 0).all()
    if len(np.unique(column)) > 1:
        assert ranks_of(column)(np.array([[-np.inf], [np.inf]], np.float32)).ravel().tolist() == [-1, 1]
        assert len(column) < 50 or abs(ranks.mean()) < 0.1


def test_values_of_equal_frequency_are_equally_far_apart_whatever_their_size() -> None:
    column = np.repeat(np.array([0, 1, 1e6], np.float32), 100)
    assert ranks_of(column)(np.array([[0], [1], [1e6]], np.float32)).ravel() == pytest.approx(
        [-2 / 3, 0, 2 / 3], abs=0.01
    )


def test_unknown_values_and_descriptors_with_one_value_have_the_rank_zero() -> None:
    ranks = Ranks.of(("a", "b", "c"), np.array([[1, 5, np.nan], [2, 5, np.nan], [3, 5, np.nan]], np.float32))
    assert ranks(np.array([[np.nan, 4, 1], [9, 6, 1]], np.float32)).tolist() == [[0, 0, 0], [1, 0, 0]]


def test_two_ways_to_write_a_molecule_have_the_same_descriptors_to_the_bit() -> None:
    names = descriptor_names()
    one, other = (with_descriptors(read_molecule(smiles), names) for smiles in ("OC(=O)c1ccccc1N", "Nc1ccccc1C(O)=O"))
    assert one.descriptors is not None
    assert other.descriptors is not None
    assert one.descriptors.tobytes() == other.descriptors.tobytes()
    assert np.isfinite(one.descriptors).all()
    sodium = with_descriptors(read_molecule("[Na+].[Cl-]"), ["MolWt", "MaxPartialCharge"]).descriptors
    assert sodium is not None
    assert sodium[0] == pytest.approx(58.44, abs=0.01)


def test_a_descriptor_that_rdkit_does_not_compute_is_refused() -> None:
    with pytest.raises(DataError, match=r"does not compute: LogOfAnotherVersion\. Install"):
        with_descriptors(read_molecule("C"), ["MolWt", "LogOfAnotherVersion"])


def test_a_run_keeps_descriptors_and_their_ranks(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("smiles,y\nCCO,1\n[Na+].[Cl-],2\nc1ccccc1,3\n")
    table, names = read_molecule_table(tmp_path / "t.csv"), ("MolWt", "MaxPartialCharge", "TPSA")
    table.molecules[:] = [with_descriptors(one, names) for one in table.molecules]
    write_molecules(table, tmp_path / "m.npz")
    values = described(table.molecules, names)
    again = read_molecules(tmp_path / "m.npz").molecules
    assert described(again, ("none", "of", "these")).tobytes() == values.tobytes()  # stored, and not computed again
    ranks = Ranks.of(names, values)
    ranks.save(tmp_path / "ranks.npz")
    opened = Ranks.open(tmp_path / "ranks.npz")
    assert opened.names == names
    assert opened(values).tobytes() == ranks(values).tobytes()
    np.savez(tmp_path / "ranks.npz", names=np.array(["MolWt"]), quantiles=ranks.quantiles)
    with pytest.raises(DataError, match="does not hold the ranks"):
        Ranks.open(tmp_path / "ranks.npz")
