"""The interface between commands and the properties of molecules."""

import argparse
import csv
import io
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foveate.data.descriptor import Ranks, described, descriptor_names
from foveate.data.graph import Graph
from foveate.data.molecule import ATOM_WIDTH, BOND_WIDTH, Molecule
from foveate.data.molecule_store import read_molecules
from foveate.data.molecule_table import SMILES, MoleculeTable, read_smiles
from foveate.errors import DataError, UsageError
from foveate.metrics.property_error import property_scores
from foveate.storage.draft import disk_errors, require_writable, write_lines
from foveate.suggestion import counted
from foveate.tasks.exported import Exported, Note
from foveate.tasks.intake import Intake
from foveate.tasks.molecule import TASK
from foveate.tasks.molecule.property_target import Targets, require_classes, require_scored, unscored
from foveate.tasks.molecule.served_predictor import ServedPredictor
from foveate.tasks.molecule.task import (
    VALIDATED,
    MoleculeConfig,
    MoleculeTask,
    prepared_tables,
    stored,
)
from foveate.tasks.molecule.use import MoleculePredictor
from foveate.tasks.option import chunks, is_piped, require_used
from foveate.tasks.report_page import Sample, write_report
from foveate.tasks.run_plan import Allowance, Probe, Reason, Suggestion, training_table, with_others
from foveate.tasks.side import NOT_DATA, Asked, Scored, Side, written
from foveate.tasks.sight import Sight
from foveate.voice import say, shown

PACE, EPOCHS = 0.03, 200
"""Seconds of one core for a step of 512 atoms; passes over the molecules."""
TOGETHER = 256
"""Molecules whose properties are predicted at a time."""
SAMPLES = 8
Test = tuple[str, MoleculeTable]
"""The name of test data, and their molecules."""
TABLES = (".csv", ".tsv", ".smi", ".sdf", ".txt", ".gz", ".xz")
"""Endings of inputs that are files."""


@dataclass(frozen=True)
class Line:
    """SMILES, and their place in a file and the name that stands there; both empty for an argument."""

    smiles: str
    where: str = ""
    name: str = ""

    def __str__(self) -> str:
        return self.smiles


class MoleculeSide(Side):
    """`foveate train molecule`, `foveate predict`."""

    entry, config, task = TASK, MoleculeConfig, MoleculeTask
    validated = VALIDATED
    lower = frozenset({"loss", "rmse", "mae"})
    per_token = frozenset()
    not_data = NOT_DATA | {"huber"}
    compared_data = Side.compared_data | {"data.descriptors"}
    usual_lengths = (20,)
    engines = ()

    # Before training.

    def suggest(self, config: MoleculeConfig, allowance: Allowance) -> Suggestion:
        """Steps for the molecules. Raises DataError for a table that cannot be read."""
        table = config.read(config.data.data)
        atoms = sum(map(len, table.molecules))
        targets = Targets.of(table, config.predicts)
        metric = "rmse" if targets.predicts == "numbers" else "loss"

        def suggested(allowance: Allowance) -> Suggestion:
            epoch = max(atoms / config.data.max_tokens, 1)
            steps = allowance.steps(max(int(EPOCHS * epoch), 1_000), pace=PACE)
            return Suggestion(
                {"train": training_table(steps, rate=1e-3, metric=metric, log_every=50)},
                f"{counted(len(table), 'molecule')} of {atoms / len(table):.1f} atoms, to predict {targets.predicts}: "
                f"{', '.join(targets.names)}.",
                (
                    Reason("model", "a Transformer over atoms, with bonds and distances as a bias"),
                    Reason("train", f"up to {EPOCHS} passes over the molecules, {allowance}"),
                ),
                lengths=(max(round(atoms / len(table)), 1),),
            )

        return with_others(suggested, allowance)

    def probe(self, config: MoleculeConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Rings of so many atoms, as many as the budget of a batch allows."""
        (length,) = lengths
        if length > config.data.max_atoms:
            raise UsageError(f"data.max_atoms is {config.data.max_atoms}. Raise it, or plan for fewer with --length.")
        count, outputs = max(config.data.max_tokens // length, 1), max(len(config.data.targets), 1)
        names = descriptor_names() if config.data.descriptors else ()
        ring = _ring(length, descriptors=len(names))
        ranks = Ranks.of(names, described([ring], names)) if names else None
        table = MoleculeTable(
            [ring] * count,
            tuple(map(str, range(outputs))),
            np.ones((count, outputs), np.float32),
            list(range(count)),
        )
        targets = Targets(
            names=table.targets,
            predicts=config.predicts or "numbers",
            mean=(0.0,) * outputs,
            deviation=(1.0,) * outputs,
        )
        task = MoleculeTask(config, targets, table, table, {}, ranks)
        batch = task.batch(0)
        return Probe(
            model=task.model,
            loss=lambda: task.loss(batch).total,
            vocabulary=(
                f"{ATOM_WIDTH} features of atoms, {BOND_WIDTH} of bonds, "
                f"{f'{len(names)} descriptors, ' if names else ''}{counted(outputs, 'target')}"
            ),
            batch=f"{counted(count, 'molecule')} of {counted(length, 'atom')}",
            tokens=count * length,
            unit="atoms",
        )

    def size(self, task: MoleculeTask) -> str:
        targets = task.targets
        return (
            f"{len(task.training):,} training molecules, {counted(len(targets.names), 'target')} ({targets.predicts})"
        )

    # A trained model.

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> MoleculePredictor:
        return MoleculePredictor.load(run, note=note)

    def offered(self, model: MoleculePredictor, folder: Path) -> ServedPredictor:
        return ServedPredictor(model)

    def in_use(self, task: MoleculeTask) -> MoleculePredictor:
        return MoleculePredictor(task.model, task.targets, task.config, task.ranks)

    def use(self, arguments: argparse.Namespace) -> None:
        require_used(arguments, dict.fromkeys(("edges", "nodes", "probabilities"), "nodes"), (), "for molecules")
        predictor = self.load(arguments.run)
        piped = is_piped(arguments.inputs)
        names = (name for chunk in chunks(arguments.inputs) for name in chunk if not piped or name.strip())
        column = predictor.config.data.smiles
        named = any(_has_names(name, column) for name in arguments.inputs)
        intake = Intake(arguments.command, names, lambda name: _lines(name, column, named=named))
        if piped or any(map(_is_file, arguments.inputs)):
            print(shown("\t".join(("smiles", *(["name"] if named else []), *predictor.targets.names))))
        for line, answer in intake.answers(lambda lines: _predicted(predictor, lines), together=TOGETHER):
            if answer is None:
                print(flush=True)
                continue
            cells = (line.smiles, *([line.name] if named else []), *(f"{value:.4f}" for value in answer))
            print(shown("\t".join(cells)), flush=True)

    def vocabulary(self, model: MoleculePredictor) -> MoleculePredictor:
        return model

    def evaluate(self, arguments: argparse.Namespace) -> dict[str, float]:
        unused = dict.fromkeys(("precision", "beam", "set", "metrics"), "runs that write texts")
        unused |= {"columns": "tables of texts", "per_class": "runs on labels"}
        require_used(arguments, unused, (), "for molecules")
        folder = Path(arguments.run)
        config = self.saved_config(folder)
        require_writable(arguments.save, arguments.report)
        predictor = self.load(folder)
        name, table = self._test(folder, config, arguments.data, predictor.targets)
        predicted = predictor.values(table.molecules)
        if arguments.save:
            write_lines(arguments.save, _table_lines(table, predicted))
        if arguments.report:
            self.write_report(predictor, config, folder, Path(arguments.report), (name, table))
            say(f"The report is in {arguments.report}.")
        say(f"{counted(len(table), 'molecule')} of {name}.")
        require_scored(table, predictor.targets, name)
        for target, reason in unscored(table, predictor.targets.predicts).items():
            say(f"{target!r} has no score, because {reason}.")
        return _figures(predicted, table, predictor.targets)

    def _test(self, folder: Path, config: MoleculeConfig, path: str | None, targets: Targets) -> Test:
        """The molecules of a file, or those that the run keeps for the test."""
        if path is not None:
            return Path(path).name, _read_test(config, path, targets)
        if not stored(folder, "test").exists():
            raise UsageError(
                f"{folder} keeps no molecules for a test, because it has a file for validation. Give --data FILE."
            )
        table = read_molecules(stored(folder, "test"))
        if not len(table):
            raise UsageError(f"{folder} keeps no molecules for a test: data.test_share was 0. Give --data FILE.")
        return "the test split of the run", table

    def export(self, run: Path | str, note: Note) -> Exported:
        raise UsageError(
            "A model of molecules reads their bonds and distances, which RDKit and this package make, so it is not "
            f"exported. `foveate predict {shlex.quote(str(run))} FILE` and `MoleculePredictor.predict` run it."
        )

    def sight(self, arguments: argparse.Namespace, text: str) -> Sight:
        require_used(arguments, {"precision": "runs on texts", "words": "runs on texts"}, (), "for molecules")
        return super().sight(arguments, text.strip())

    # Reports.

    def write_report(
        self,
        model: MoleculePredictor,
        config: Any,
        folder: Path,
        path: Path,
        test: tuple[str, MoleculeTable] | None = None,
    ) -> None:
        name, table = test or ("validation", read_molecules(stored(folder, "valid")))
        predicted = model.values(table.molecules)
        try:
            figures = _figures(predicted, table, model.targets)
        except DataError:  # few molecules, all of one class: there is no score, but a report
            figures = {}
        about = f"{name}, {counted(len(table), 'molecule')}"
        split = "a file for validation" if config.data.valid_data else f"split {config.data.split}"
        write_report(
            model.model,
            folder,
            path,
            kind=f"{type(model.model.encoder).__name__} with {type(model.model.readout).__name__}",
            scores=[
                {
                    "metric": metric,
                    "value": f"{value:.4g}",
                    "better": "higher" if metric.startswith("roc_auc") else "lower",
                    "data": about,
                }
                for metric, value in figures.items()
            ],
            samples=_samples(table, predicted),
            card={
                "targets": ", ".join(model.targets.names),
                "data": f"{Path(config.data.data).name}, {split}",
                "limits": "Only molecules like those it was trained on; a scaffold split tells how it does on others.",
            },
            commands=[self.command(model, folder), f"foveate evaluate {written(folder)}"],
            names=("molecule", "properties"),
        )

    def trial(self, model: MoleculePredictor) -> str:
        return "CCO"

    # Comparisons.

    def metrics(self) -> tuple[str, ...]:
        return ("rmse", "mae", "roc_auc", "loss")

    def usual_metrics(self, task: MoleculeTask) -> tuple[str, ...]:
        return ("rmse", "mae") if task.targets.predicts == "numbers" else ("roc_auc",)

    def hold_out(self, config: MoleculeConfig, folder: Path) -> dict[str, Any]:
        """train.tsv and valid.tsv, split by the seed of the base configuration."""
        if config.data.valid_data is not None:
            return {}
        tables, _ = prepared_tables(config)
        settings: dict[str, Any] = {}  # the columns have the names of the configuration, or are the only ones
        for part, name in (("train", "data"), ("valid", "valid_data")):
            path = folder / f"{part}.tsv"
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_lines(path, _table_lines(tables[part], tables[part].values, config.data.smiles))
            settings[name] = path.name
        return settings

    def count(self, batch: Any) -> int:
        return int((~batch.targets.isnan()).sum())

    def require_given(self, task: MoleculeTask, request: Asked) -> None:
        super().require_given(task, request)
        if request.test:
            require_scored(
                _read_test(task.config, request.test["data"], task.targets), task.targets, request.test["data"]
            )

    def score(self, task: MoleculeTask, config: MoleculeConfig, folder: Path, request: Asked) -> Scored:
        if not request.test:
            return Scored(values=self.pick(task.validate(), request.metrics))
        table = _read_test(config, request.test["data"], task.targets)
        predicted = self.in_use(task).values(table.molecules)
        return Scored(
            values=self.pick(property_scores(predicted, table.values, task.targets.predicts), request.metrics)
        )


def _read_test(config: MoleculeConfig, path: str, targets: Targets) -> MoleculeTable:
    """The molecules of a file to score a model on."""
    table = config.read(path, targets.names)
    if targets.predicts == "classes":
        require_classes(table, "the model predicts classes 0 and 1")
    return table


def _is_file(name: str) -> bool:
    return name.lower().endswith(TABLES) or os.path.isfile(name)  # which answers for names of any length


def _lines(name: str, column: str | None, *, named: bool) -> Iterator[Line]:
    """An argument as SMILES, or the SMILES of the file that it names, with names of molecules only where `named`."""
    if not _is_file(name):
        return iter([Line(name.strip())])
    lines = [Line(one.smiles.strip(), f"{name}:{one.line}: ", one.name) for one in read_smiles(name, smiles=column)]
    if not named and (first := next((line for line in lines if line.name), None)) is not None:
        raise DataError(f"{first.where}the molecule has a name after its SMILES. Give this file as an argument.")
    return iter(lines)


def _has_names(name: str, column: str | None) -> bool:
    """Whether an argument is a file with names of molecules; a file that cannot be read is told when it is its turn."""
    try:
        return _is_file(name) and any(one.name for one in read_smiles(name, smiles=column))
    except DataError:
        return False


def _predicted(predictor: MoleculePredictor, lines: Sequence[Line]) -> list[list[float]]:
    molecules = list[Molecule]()
    for line in lines:
        try:
            molecules.append(predictor.molecule(line.smiles))
        except DataError as error:
            raise DataError(f"{line.where}{error}") from None
    return predictor.values(molecules).tolist()


def _figures(predicted: np.ndarray, table: MoleculeTable, targets: Targets) -> dict[str, float]:
    """The means over targets; of several targets also those of each that has them."""
    figures = property_scores(predicted, table.values, targets.predicts)
    if len(targets.names) == 1:
        return figures
    for column, name in enumerate(targets.names):
        part = slice(column, column + 1)
        try:
            own = property_scores(predicted[:, part], table.values[:, part], targets.predicts)
        except DataError:  # no value, or only one class: the mean leaves it out, too
            continue
        figures |= {f"{metric} of {name}": value for metric, value in own.items()}
    return figures


def _table_lines(table: MoleculeTable, values: np.ndarray, smiles: str | None = None) -> list[str]:
    """Lines of a table with tabs: SMILES and a number, or nothing, for each target."""
    content = io.StringIO()
    writer = csv.writer(content, delimiter="\t", lineterminator="\n")
    writer.writerow((smiles or SMILES, *table.targets))
    for molecule, row in zip(table.molecules, values, strict=True):
        writer.writerow((molecule.smiles, *("" if np.isnan(value) else repr(float(value)) for value in row)))
    return content.getvalue().splitlines()


def _samples(table: MoleculeTable, predicted: np.ndarray) -> list[Sample]:
    def told(row: np.ndarray) -> str:
        return ", ".join("unknown" if np.isnan(value) else f"{value:.3g}" for value in row)

    rows = zip(table.molecules[:SAMPLES], table.values, predicted, strict=False)
    return [(molecule.smiles, told(right), told(answer), None) for molecule, right, answer in rows]


def _ring(atoms: int, *, descriptors: int = 0) -> Molecule:
    """A ring of so many made-up atoms, with so many descriptors."""
    place = np.arange(atoms)
    pairs = {
        (min(i, j), max(i, j)) for i, j in zip(place.tolist(), ((place + 1) % atoms).tolist(), strict=True) if i != j
    }
    graph = Graph(
        features=np.ones((atoms, ATOM_WIDTH), np.float32),
        edges=np.array(sorted(pairs), np.int64).reshape(-1, 2).T,
        edge_features=np.ones((len(pairs), BOND_WIDTH), np.float32),
        names=("C",) * atoms,
    )
    return Molecule("", graph, np.zeros(descriptors, np.float32))


SIDE = MoleculeSide()
