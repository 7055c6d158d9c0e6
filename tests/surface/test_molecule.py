"""Molecules by commands: trained, resumed to the same bits, predicted, scored, looked at; refusals name their lines."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate.data.molecule import Molecule
from foveate.data.molecule_store import read_molecules
from foveate.tasks.molecule.use import MoleculePredictor

CHAINS = ["C" * count + end for count in range(1, 11) for end in ("", "O", "N", "Cl", "c1ccccc1")]
SMALL = (
    "model.encoder.num_layers=1", "model.encoder.block.model_dim=16", "model.encoder.block.num_heads=2",
    "model.encoder.block.feedforward_dim=16", "model.hidden_dim=16", "data.max_tokens=200",
)  # fmt: skip


def words(*settings: str) -> list[str]:
    return [word for one in settings for word in ("--set", one)]


def solubility(smiles: str) -> float:
    return 2.0 * ("O" in smiles) - 0.5 * smiles.count("C") - 0.5 * smiles.count("c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, foveate: Any) -> Path:
    """A folder with a table, and with a run that learnt it a little."""
    folder = tmp_path_factory.mktemp("molecules")
    lines = [f"{number},{smiles},{solubility(smiles)},{int('O' in smiles)},{'' if number % 3 else number % 2}\n"
             for number, smiles in enumerate(CHAINS)]  # fmt: skip
    (folder / "table.csv").write_text("id,smiles,solubility,alcohol,rare\n" + "".join(lines))
    said = train(foveate, folder, "run", 'data.targets=["solubility"]', "train.steps=60", "train.learning_rate=0.02")
    assert said.code == 0, said.err
    assert "All 50 molecules are used: 40 for training, 5 for validation, 5 for the test, at random by the seed 0." in (
        said.err
    )
    return folder


def train(foveate: Any, folder: Path, name: str, *settings: str) -> Any:
    changes = words(*SMALL, "train.validate_every=20", "train.save_every=20", *settings)
    command = ("train", "molecule", "--data", folder / "table.csv", "--out", folder / name)
    return foveate(*command, "--no-tune", "--threads", "1", *changes)


def test_a_run_learns_and_predicts_from_arguments_files_and_standard_input(
    foveate: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = json.loads(foveate("evaluate", folder / "run", "--json").out)
    test = read_molecules(folder / "run" / "data" / "test.npz")
    assert scores["rmse"] < 0.6 * np.std([solubility(smiles) for smiles in CHAINS])
    predictor = MoleculePredictor.load(folder / "run")
    predicted = predictor.values(test.molecules)
    assert scores["rmse"] == pytest.approx(float(np.sqrt(np.mean((predicted - test.values) ** 2))), rel=1e-5)
    said = foveate("predict", folder / "run", "CCO", "OCC")
    one, other = (float(line.split("\t")[1]) for line in said.out.splitlines())
    assert one == other == round(predictor.predict(["CCO"])[0].values["solubility"], 4)
    (folder / "new.tsv").write_text("name\tSMILES\nethanol\tCCO\nnone\tCXC\nsalt\t[Na+].[Cl-]\n")
    said = foveate("predict", folder / "run", folder / "new.tsv")
    assert said.code == 3
    rows = said.out.split("\n")
    assert rows[0] == "smiles\tsolubility"
    assert rows[1] == f"CCO\t{one:.4f}"
    assert rows[2] == ""
    assert rows[3].startswith("[Na+].[Cl-]\t")
    assert f"{folder / 'new.tsv'}:3: 'CXC' is not valid SMILES: SMILES Parse Error: syntax error" in said.err
    assert "1 of 3 inputs could not be read" in said.err


def test_a_resumed_run_ends_with_the_same_bits(foveate: Any, folder: Path) -> None:
    settings = (
        'data.targets=["solubility"]',
        "model.encoder.place=laplacian",
        "train.steps=10",
        "train.validate_every=5",
        "train.save_every=5",
    )
    assert train(foveate, folder, "whole", *settings).code == 0
    assert train(foveate, folder, "half", *settings, "train.max_minutes=0.000001").code == 0
    assert "step-00000010" not in {path.name for path in (folder / "half" / "checkpoints").iterdir()}
    said = foveate("resume", folder / "half", "--set", "train.max_minutes=none", "--no-tune", "--threads", "1")
    assert said.code == 0, said.err
    weights = [(folder / name / "model.safetensors").read_bytes() for name in ("whole", "half")]
    assert weights[0] == weights[1]


def test_descriptors_are_kept_with_the_run_and_matter_in_training_and_in_use(
    foveate: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ('data.targets=["solubility"]', "data.descriptors=true", "train.steps=10", "train.validate_every=5")
    assert train(foveate, folder, "described", *settings, "train.save_every=5").code == 0
    assert train(foveate, folder, "stopped", *settings, "train.save_every=5", "train.max_minutes=0.000001").code == 0
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "rdkit", None)  # what the molecules are is stored
        said = foveate("resume", folder / "stopped", "--set", "train.max_minutes=none", "--no-tune", "--threads", "1")
        assert "step-00000010" in {path.name for path in (folder / "stopped" / "checkpoints").iterdir()}, said.err
    weights = [(folder / name / "model.safetensors").read_bytes() for name in ("described", "stopped")]
    assert weights[0] == weights[1]
    predictor = MoleculePredictor.load(folder / "described")
    test = read_molecules(folder / "described" / "data" / "test.npz")
    computed = [predictor.molecule(one.smiles) for one in test.molecules]
    assert np.array_equal(predictor.values(computed), predictor.values(test.molecules))
    others = [Molecule(one.smiles, one.graph, -one.descriptors) for one in test.molecules]
    assert (predictor.values(others) != predictor.values(test.molecules)).all()
    plan = foveate("plan", "molecule", "--no-tune", "--length", "9", *words(*SMALL, "data.descriptors=true"))
    assert f"{len(predictor.ranks.names)} descriptors" in plan.out, plan.err


def test_classes_are_predicted_with_unknown_values_left_out(foveate: Any, folder: Path) -> None:
    said = train(
        foveate, folder, "classes", 'data.targets=["alcohol","rare"]', "train.steps=80", "train.learning_rate=0.01",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "2 targets (classes)" in said.err
    scores = json.loads(foveate("evaluate", folder / "classes", "--data", folder / "table.csv", "--json").out)
    assert scores["roc_auc of alcohol"] > 0.9
    assert scores["roc_auc"] == pytest.approx((scores["roc_auc of alcohol"] + scores["roc_auc of rare"]) / 2)
    header, *rows = (folder / "table.csv").read_text().splitlines()
    (folder / "some.csv").write_text("\n".join([header, rows[1], rows[2]]) + "\n")
    some = foveate("evaluate", folder / "classes", "--data", folder / "some.csv", "--json")
    assert "'rare' has no score, because no molecule has a value of it." in some.err
    assert json.loads(some.out) == {"roc_auc": 1.0, "roc_auc of alcohol": 1.0}
    (folder / "one.csv").write_text("\n".join([header, rows[1]]) + "\n")
    refused = foveate("evaluate", folder / "classes", "--data", folder / "one.csv")
    assert refused.code == 3
    assert "one.csv gives no score: of 'alcohol', all its known values are of class 1, and ROC-AUC" in refused.err
    values = foveate("predict", folder / "classes", "CCO").out.split("\t")[1:]
    assert all(0 <= float(value) <= 1 for value in values)
    assert len(values) == 2


def test_only_training_data_need_a_value_of_each_target(foveate: Any, folder: Path, tmp_path: Path) -> None:
    lines = (folder / "table.csv").read_text().splitlines()
    header, known, unknown = lines[0], lines[1:31:3], [lines[2], lines[3], lines[5]]
    (tmp_path / "train.csv").write_text("\n".join([header, *known]) + "\n")
    (tmp_path / "valid.csv").write_text("\n".join([header, *unknown]) + "\n")
    said = foveate(
        "compare", "molecule", "--data", tmp_path / "train.csv", "--valid-data", tmp_path / "valid.csv", "--seeds", "1",
        "--vary", "model.readout=sum,mean", "--budget", "steps=2", "--out", tmp_path / "out", "--quiet",
        *words('data.targets=["solubility","rare"]', "predicts=numbers", *SMALL),
    )  # fmt: skip
    assert said.code == 0, said.err
    (tmp_path / "none.csv").write_text("smiles,solubility\nCC,\n")
    refused = foveate("evaluate", folder / "run", "--data", tmp_path / "none.csv")
    assert refused.code == 3
    assert "none.csv gives no score: of 'solubility', no molecule has a value of it" in refused.err


@pytest.mark.parametrize("column", ["", "1"])
def test_targets_that_cannot_be_learnt_are_told_before_training(foveate: Any, tmp_path: Path, column: str) -> None:
    lines = [f"{smiles},{column},{int('O' in smiles)}\n" for smiles in CHAINS]
    (tmp_path / "table.csv").write_text("smiles,odd,alcohol\n" + "".join(lines))
    alone = train(foveate, tmp_path, "alone", 'data.targets=["odd"]', "train.steps=1", "predicts=classes")
    both = train(foveate, tmp_path, "both", 'data.targets=["odd","alcohol"]', "train.steps=1", "predicts=classes")
    assert alone.code == 3
    if column:
        assert "have the same class, 1 of 'odd', so there is nothing to learn" in alone.err
        assert both.code == 0, both.err
        assert "Warning: all molecules for training have the class 1 of 'odd', which cannot be learnt" in both.err
        assert "Warning: 'odd' is not validated, because all its known values are of class 1" in both.err
    else:
        assert both.code == 3
        for said in (alone, both):
            assert "No molecule for training has a value of 'odd'. Give values, or leave it out" in said.err


def test_names_of_molecules_in_files_of_lines_have_a_column(foveate: Any, folder: Path) -> None:
    (folder / "named.smi").write_text("CCO ethanol\nCC\n")
    (folder / "plain.smi").write_text("CCO\n")
    header, *rows = (
        line.split("\t") for line in foveate("predict", folder / "run", folder / "named.smi").out.splitlines()
    )
    assert header == ["smiles", "name", "solubility"]
    assert [row[:2] for row in rows] == [["CCO", "ethanol"], ["CC", ""]]
    both = foveate("predict", folder / "run", folder / "plain.smi", folder / "named.smi").out.splitlines()
    assert [line.count("\t") for line in both] == [2, 2, 2, 2]
    plain = foveate("predict", folder / "run", folder / "plain.smi").out.splitlines()
    assert plain == ["smiles\tsolubility", f"CCO\t{rows[0][2]}"]
    for empty in ("", " "):
        beside = foveate("predict", folder / "run", empty, "CCO")
        assert (beside.code, beside.out) == (3, f"\nCCO\t{rows[0][2]}\n")
        assert "The SMILES are empty, and a molecule needs an atom" in beside.err
        assert "1 of 2 inputs could not be read" in beside.err
    refused = foveate("predict", folder / "run", "CC O")
    assert (refused.code, refused.out) == (3, "")
    assert "'CC' are followed by text after a space, 'O'" in refused.err


def test_look_draws_atoms_and_what_the_read_out_looked_at(foveate: Any, folder: Path) -> None:
    trace = MoleculePredictor.load(folder / "run").trace("Oc1ccccc1")
    atoms = trace.tracks["atoms"]
    assert atoms.labels == tuple("OCCCCCC")
    assert atoms.bonds is not None
    assert sorted(set(atoms.bonds)) == ["aromatic", "single"]
    assert atoms.places is not None
    assert len(set(atoms.places)) == 7
    names = {site.name: site for site in trace.sites}
    assert set(names) == {"encoder.blocks.0.attention.attention", "readout.attention"}
    weights, *_ = names["readout.attention"].weights(0)
    assert weights.shape == (1, 7)
    assert float(weights.sum()) == pytest.approx(1, abs=1e-5)
    said = foveate("look", folder / "run", "Oc1ccccc1", "--out", folder / "phenol.svg")
    assert said.code == 0, said.err
    assert (folder / "phenol.svg").read_text().startswith("<svg")


def test_molecules_without_a_known_target_and_large_ones_are_left_out_by_line(foveate: Any, folder: Path) -> None:
    said = train(foveate, folder, "left-out", 'data.targets=["rare"]', "data.max_atoms=8", "train.steps=1")
    assert said.code == 0, said.err
    assert "More than 8 atoms: lines 16, 21, 26" in said.err
    assert "Without any target: lines 3, 4, 6" in said.err
    refused = foveate("predict", folder / "left-out", "CCCCCCCCCC")
    assert refused.code == 3
    assert "has 10 atoms, and the model was trained with at most 8" in refused.err


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ((), "has 4 columns beside SMILES: 'id', 'solubility', 'alcohol', 'rare'. Name those to predict"),
        (('data.targets=["solubillity"]',), "Did you mean 'solubility'?"),
        (('data.targets=["solubility"]', "predicts=classes"), "Line 2: solubility is -0.5, but predicts = "),
        (('data.targets=["alcohol"]', "train.metric=roc_auc", "data.valid_share=0.02"), "no target has both classes"),
        (('data.targets=["alcohol"]', "train.metric=rmse"), "train.metric cannot be rmse: the targets are classes"),
        (('data.targets=["solubility"]', "data.valid_share=0.9", "data.test_share=0.2"), "leave something to train on"),
        (('data.targets=["solubility"]', "model.encoder.reach=254"), "reach must be less than 254"),
        (('data.targets=["solubility"]', "data.split=scaffold"), 'data.split = "random", or a validation'),
        (('data.targets=["solubility"]', "data.split=scaffold", "data.test_share=0.2"), "40 of 50 molecules have no"),
        (('data.targets=["rare"]', "model.encoder.block.encoder_attention=linear"), "must be of the kind attention"),
    ],
)  # fmt: skip
def test_a_run_that_cannot_be_is_refused_in_words(
    settings: tuple[str, ...], refusal: str, foveate: Any, folder: Path
) -> None:
    said = train(foveate, folder, "refused", *settings, "train.steps=1")
    assert said.code in (2, 3)
    assert refusal in said.err


def test_options_of_other_tasks_are_refused(foveate: Any, folder: Path) -> None:
    for command in (("predict", folder / "run", "CCO", "--probabilities"), ("export", folder / "run", folder / "x")):
        assert foveate(*command).code == 2
    assert "would change nothing" in foveate("evaluate", folder / "run", "--beam", "3").err
    for engine in ("onnx", "ctranslate2"):
        assert "RDKit" in foveate("export", folder / "run", folder / "x", "--to", engine).err


def test_models_are_compared_on_molecules_that_are_held_out_once(foveate: Any, folder: Path, tmp_path: Path) -> None:
    lines = (folder / "table.csv").read_text().replace("smiles", "formula")
    (tmp_path / "table.csv").write_text(lines)
    said = foveate(
        "compare", "molecule", "--data", tmp_path / "table.csv", "--vary", "data.descriptors=false,true",
        "--seeds", "1", "--budget", "steps=2", "--out", tmp_path / "out", "--quiet",
        *words("data.smiles=formula", 'data.targets=["solubility"]', *SMALL),
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "rmse" in (tmp_path / "out" / "cells.csv").read_text()
