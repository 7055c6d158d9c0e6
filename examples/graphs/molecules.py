"""Trains models that predict how well molecules dissolve, on random and scaffold splits, beside random forests.

    python examples/graphs/molecules.py esol.csv runs/ --target "measured log solubility in mols per litre"
    python examples/graphs/molecules.py esol.csv runs/ --target … --forests --seeds 0,1,2      needs scikit-learn
    python examples/graphs/molecules.py esol.csv runs/ --target … --removal runs/graph-transformer-random-0

Each seed has its own random split, 80 % for training, 10 % for validation and 10 % for the test, and all models of a
seed share it; the scaffold split is one. Budgets are steps; the processor's seconds are measured. ESOL (Delaney 2004,
1,128 molecules) is part of MoleculeNet and of the repository deepchem/deepchem.

`--removal` measures which atoms decide: the mean weight of the read-out on atoms of a group, beside the change of the
answer where the group is replaced by hydrogen.
"""

import argparse
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foveate.attention import record
from foveate.config import build, override
from foveate.data.molecule_store import read_molecules
from foveate.metrics.property_error import mae, rmse
from foveate.storage.run import create_run
from foveate.tasks.molecule.side import SIDE
from foveate.tasks.molecule.task import PlacedMolecules, stored
from foveate.tasks.molecule.use import MoleculePredictor
from foveate.train import fit

sys.path.append(str(Path(__file__).parents[1]))
from figures import keep, show

RESULTS = Path(__file__).parent / "molecules.json"
STEPS = 3_000
SMALL = (
    "model.encoder.num_layers=3",
    "model.encoder.block.model_dim=64",
    "model.encoder.block.num_heads=4",
    "model.encoder.block.feedforward_dim=128",
    "model.hidden_dim=64",
)
MODELS: dict[str, tuple[str, ...]] = {
    "graph transformer": SMALL,
    "along bonds": (*SMALL, "model.encoder.reach=1"),
    "sum read-out": (*SMALL, "model.readout=sum"),
    "attention read-out": (*SMALL, "model.readout.total=false"),
    "GCN": ("model.encoder=graph_convolution", "model.encoder.hidden_dim=64", "model.hidden_dim=64"),
    "MLP": ("model.encoder=node_mlp", "model.encoder.hidden_dim=64", "model.hidden_dim=64"),
}
"""Each model with its settings."""
GROUPS = {
    "hydroxyl (alcohol, phenol, acid)": "[OX2H]",
    "amine": "[NX3;H2,H1;!$(NC=O);!$(N=*)]",
    "nitro": "[$([NX3](=O)=O),$([NX3+](=O)[O-])](=O)~O",
    "halogen": "[F,Cl,Br,I]",
    "methyl": "[CH3;$([CH3][#6])]",
}
"""Groups that one bond binds to the rest, by SMARTS: their first atom is the bound one."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="table of molecules")
    parser.add_argument("out", type=Path, help="folder for runs")
    parser.add_argument("--target", required=True, help="the column to predict")
    parser.add_argument("--model", choices=MODELS, action="append", help="train only this; may be repeated")
    parser.add_argument("--split", choices=("random", "scaffold"), default="random")
    parser.add_argument("--seeds", default="0", help="seeds of splits and of models, such as 0,1,2 (0)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of training ({STEPS})")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="change a setting of every model")
    parser.add_argument("--forests", action="store_true", help="random forests in place of our models")
    parser.add_argument("--removal", type=Path, metavar="RUN", help="which groups decide in a run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file that keeps the figures (molecules.json)")
    arguments = parser.parse_args(argv)
    if arguments.removal:
        table = f"groups, {arguments.removal.name}"
        for name, figures in removed(MoleculePredictor.load(arguments.removal), arguments.removal).items():
            keep(table, name, 0, figures, path=arguments.results)
        show(table, path=arguments.results)
        return 0
    table = f"{arguments.data.stem}, {arguments.split}"
    for seed in map(int, arguments.seeds.split(",")):
        for model in ["forests"] if arguments.forests else arguments.model or MODELS:
            place = arguments.out / f"{model.replace(' ', '-')}-{arguments.split}-{seed}"
            shutil.rmtree(place, ignore_errors=True)
            settings = (*MODELS.get(model, ()), *arguments.set)
            figures = measured(arguments, place, settings, seed)
            for name, values in figures.items():
                keep(table, name or model, seed, values, path=arguments.results)
            show(table, path=arguments.results)
    return 0


def measured(arguments: Any, place: Path, settings: Sequence[str], seed: int) -> dict[str, dict[str, float]]:
    """The test errors of a model, or of forests with the same molecules for training."""
    interval = max(arguments.steps // 20, 1)
    chosen = {
        "data": {"data": str(arguments.data.absolute()), "targets": [arguments.target], "split": arguments.split},
        "train": {
            "steps": arguments.steps,
            "learning_rate": 1e-3,
            "schedule": {"kind": "cosine", "warmup": 50},
            "validate_every": interval,
            "save_every": interval,
            "metric": "rmse",
            "average": 5,
            "average_of": "last",
        },
    }
    config = build(SIDE.run_config, override(chosen, [*settings, f"seed={seed}", f"train.seed={seed}"]))
    task = SIDE.prepare(config, place)
    table = read_molecules(stored(place, "test"))
    if arguments.forests:
        return forests(task, table, seed)
    create_run(place, SIDE.entry.name, override(chosen, [*settings, f"seed={seed}"]), task.digests)
    started = time.process_time()
    outcome = fit(task, config.train, place)
    seconds = time.process_time() - started
    predicted = MoleculePredictor.load(place).values(table.molecules)
    return {
        "": {
            **errors(predicted[:, 0], table.values[:, 0]),
            "validation": outcome.best["rmse"],
            "parameters": task.model.parameter_count(),
            "steps": outcome.step,
            "CPU seconds": seconds,
        }
    }


def errors(predicted: np.ndarray, right: np.ndarray) -> dict[str, float]:
    return {"RMSE": rmse(predicted, right), "MAE": mae(predicted, right)}


def forests(task: Any, table: Any, seed: int) -> dict[str, dict[str, float]]:
    """Random forests of 500 trees on RDKit's descriptors and on Morgan fingerprints; validation is not used."""
    from rdkit import Chem
    from rdkit.Chem import Descriptors, rdFingerprintGenerator
    from sklearn.ensemble import RandomForestRegressor

    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)

    def descriptors(molecule: Any) -> list[float]:
        return list(Descriptors.CalcMolDescriptors(molecule).values())

    results = {}
    for name, features in (("descriptors", descriptors), ("fingerprints", morgan.GetFingerprintAsNumPy)):
        started = time.process_time()
        inputs = [
            np.nan_to_num(np.array([features(Chem.MolFromSmiles(one.smiles)) for one in part.molecules], np.float64))
            for part in (task.training, table)
        ]
        inputs = [np.clip(part, -1e6, 1e6) for part in inputs]
        forest = RandomForestRegressor(500, random_state=seed).fit(inputs[0], task.training.values[:, 0])
        seconds = time.process_time() - started
        figures = errors(forest.predict(inputs[1]), table.values[:, 0])
        results[f"forest on {name}"] = {**figures, "CPU seconds": seconds}
    mean = np.full(len(table), task.training.values.mean())
    return {**results, "mean": errors(mean, table.values[:, 0])}


def removed(predictor: MoleculePredictor, run: Path) -> dict[str, dict[str, float]]:
    """For each group: its share of the read-out beside that of its share of the atoms, and the mean change of the
    answer where hydrogen takes its place.
    """
    from rdkit import Chem

    table = read_molecules(stored(run, "test"))
    patterns = {name: Chem.MolFromSmarts(smarts) for name, smarts in GROUPS.items()}
    changes, shares, fair = defaultdict(list), defaultdict(list), defaultdict(list)
    for smiles in (one.smiles for one in table.molecules):
        molecule = Chem.MolFromSmiles(smiles)
        whole, weights = answer(predictor, smiles)
        for name, pattern in patterns.items():
            for match in molecule.GetSubstructMatches(pattern):
                editable = Chem.RWMol(molecule)
                for atom in sorted(match, reverse=True):
                    editable.RemoveAtom(atom)
                rest = Chem.MolToSmiles(editable)
                if "." in rest or not rest or Chem.MolFromSmiles(rest) is None:
                    continue
                changes[name].append(whole - answer(predictor, rest)[0])
                shares[name].append(float(weights[list(match)].sum()))
                fair[name].append(len(match) / len(weights))
    return {
        name: {
            "count": len(changes[name]),
            "effect": statistics.mean(changes[name]),
            "spread": statistics.stdev(changes[name]),
            "share of the read-out": statistics.mean(shares[name]),
            "share of the atoms": statistics.mean(fair[name]),
        }
        for name in GROUPS
        if len(changes[name]) > 1
    }


def answer(predictor: MoleculePredictor, smiles: str) -> tuple[float, np.ndarray]:
    """The predicted number, and the weight of each atom in the read-out: the mean of the heads."""
    molecule = predictor.molecule(smiles)
    batch = PlacedMolecules([molecule], predictor.config.model.place).batch([0])
    with record(predictor.model.readout) as recording:
        value = float(predictor.targets.answers(predictor.model(batch).detach())[0, 0])
    return value, recording["attention"].weights()[0, :, 0].mean(0).numpy()


if __name__ == "__main__":
    raise SystemExit(main())
