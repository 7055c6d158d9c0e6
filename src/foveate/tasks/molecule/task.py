"""Molecule: properties of whole molecules, numbers or classes, by a model that looks at their atoms and bonds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, huber_loss

from foveate.config import require_choices, setting
from foveate.data.batching import BatchPlan
from foveate.data.descriptor import Ranks, described, descriptor_names, with_descriptors
from foveate.data.graph_place import GraphPlaceConfig
from foveate.data.molecule import ATOM_WIDTH, BOND_WIDTH, Molecule
from foveate.data.molecule_split import SplitKind, repeated, split_molecules
from foveate.data.molecule_store import read_molecules, write_molecules
from foveate.data.molecule_table import MoleculeTable, read_molecule_table
from foveate.data.pair_report import LeftOut
from foveate.data.whole_graph import PlacedGraph, WholeGraphBatch
from foveate.errors import DataError
from foveate.metrics.property_error import property_scores
from foveate.models.graph_predictor import GraphPredictor, GraphPredictorConfig
from foveate.nn.loss import Loss
from foveate.nn.measurement import Each, SharedValidation, in_turn
from foveate.nn.transfer import beside
from foveate.storage.draft import disk_errors, remove_stale
from foveate.storage.manifest import file_digest
from foveate.storage.run import read_run
from foveate.suggestion import counted, listing
from foveate.tasks.molecule.property_target import (
    TARGETS,
    Predicts,
    Targets,
    require_classes,
    single_values,
    unscored,
)
from foveate.tasks.run_digest import require_digests
from foveate.tasks.run_model import require_seed, seeded, within_run

PARTS = ("train", "valid", "test")
DESCRIPTORS = "data/descriptors.npz"
"""The file of a run with the ranks of descriptors."""
TOGETHER = 64
"""Molecules of a batch without training."""
VALIDATED = ("loss", "rmse", "mae", "roc_auc")
"""The figures of `validate`, by which the best checkpoint can be chosen."""


@dataclass(frozen=True, kw_only=True)
class MoleculeDataConfig:
    """The files of molecules, and the settings that make batches of them."""

    data: str = setting("", "table of molecules, .csv or .tsv, whose first line names the columns; or .sdf")
    valid_data: str | None = setting(
        None, "validation molecules; none: molecules for validation and test are split off by data.split"
    )
    smiles: str | None = setting(None, "name of the column of SMILES; none: `smiles`, in large or small letters")
    targets: tuple[str, ...] = setting((), "names of the columns to predict; none: the only one beside SMILES")
    split: SplitKind = setting(
        "random", "random: by the seed; scaffold: frequent scaffolds for training, rare ones for the test"
    )
    valid_share: float = setting(0.1, "share of the molecules for validation")
    test_share: float = setting(0.1, "share of the molecules for the test")
    max_atoms: int = setting(200, "atoms of the largest molecule; larger ones are left out and reported")
    max_tokens: int = setting(512, "atoms per batch, padding counted")
    descriptors: bool = setting(
        False, "whether RDKit's descriptors of the whole molecule stand beside what the read-out gives"
    )

    def __post_init__(self) -> None:
        require_choices(self)
        for name in ("max_atoms", "max_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_atoms > self.max_tokens:
            raise ValueError(f"max_tokens must be at least max_atoms, {self.max_atoms}, got {self.max_tokens}")
        for name in ("valid_share", "test_share"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, got {getattr(self, name)}")
        if not self.valid_share or self.valid_share + self.test_share >= 1:
            raise ValueError(
                "valid_share must be more than 0, and leave something to train on together with test_share, got "
                f"{self.valid_share} and {self.test_share}"
            )
        if len(set(self.targets)) < len(self.targets):
            raise ValueError(f"targets names a column twice: {list(self.targets)}")


@dataclass(frozen=True, kw_only=True)
class MoleculeConfig:
    """Everything that defines a run on molecules, except how it is trained."""

    data: MoleculeDataConfig = MoleculeDataConfig()
    model: GraphPredictorConfig = setting(GraphPredictorConfig(), "the architecture")
    predicts: Predicts | None = setting(
        None, "numbers, standardised by the training data, or classes 0 and 1; none: classes if nothing else occurs"
    )
    huber: float | None = setting(
        None,
        "error, in deviations of a target, from which on the loss of numbers grows linearly; none: squared error",
    )
    seed: int = setting(0, "seed of initial weights, of the random split and of the order of batches")
    what: ClassVar[str] = "molecules"

    def __post_init__(self) -> None:
        require_choices(self)
        require_seed(self.seed)
        if self.huber is not None and not self.huber > 0:
            raise ValueError(f"huber must be more than 0, got {self.huber}")

    def built(self, targets: "Targets", ranks: Ranks | None = None) -> GraphPredictor:
        """The configured model with its initial weights, a function of the seed. It reads descriptors by `ranks`."""
        graph_dim = 0 if ranks is None else len(ranks.names)
        return seeded(
            lambda: self.model.build(ATOM_WIDTH, len(targets.names), edge_dim=BOND_WIDTH, graph_dim=graph_dim),
            self.seed,
        )

    def read(self, path: str, targets: Sequence[str] | None = None) -> MoleculeTable:
        """The molecules of a table, with these targets, by default the configured ones."""
        names = self.data.targets if targets is None else targets
        return read_molecule_table(path, smiles=self.data.smiles, targets=names)


@dataclass(frozen=True, kw_only=True)
class MoleculeReport:
    """The numbers of used and omitted molecules, and how they were split.

    >>> sizes = {"training": 7, "validation": 1}
    >>> print(MoleculeReport(total=9, max_atoms=50, too_large=LeftOut(1, (4,)), sizes=sizes, how="at random"))
    8 of 9 molecules are used: 7 for training, 1 for validation, at random. More than 50 atoms: line 4.
    """

    total: int
    max_atoms: int
    sizes: Mapping[str, int]
    how: str
    too_large: LeftOut = LeftOut()
    empty: LeftOut = LeftOut()
    repeated: int = 0
    """Molecules for validation and test that are for training, too."""

    def __str__(self) -> str:
        used = self.total - self.too_large.count - self.empty.count
        parts = ", ".join(f"{size:,} for {name}" for name, size in self.sizes.items())
        share = f"All {self.total:,}" if used == self.total else f"{used:,} of {self.total:,}"
        sentences = [f"{share} molecules are used: {parts}, {self.how}."]
        if self.too_large.count:
            sentences.append(f"More than {self.max_atoms:,} atoms: {self.too_large}.")
        if self.empty.count:
            sentences.append(f"Without any target: {self.empty}.")
        if self.repeated:
            verb = "is" if self.repeated == 1 else "are"
            sentences.append(
                f"{counted(self.repeated, 'molecule')} of validation and test {verb} among those for training, too "
                "(the same canonical SMILES)."
            )
        return " ".join(sentences)


@dataclass(frozen=True, eq=False)
class MoleculeBatch:
    """Molecules with their standardised targets, NaN where they are unknown."""

    graphs: WholeGraphBatch
    targets: Float[Tensor, "molecules targets"]
    examples: tuple[int, ...]


class PlacedMolecules:
    """Molecules with what a model reads about the places of their atoms and about the whole molecule, which is computed
    once.
    """

    def __init__(
        self, molecules: Sequence[Molecule], place: GraphPlaceConfig | None, ranks: Ranks | None = None
    ) -> None:
        features = [None] * len(molecules) if ranks is None else ranks(described(molecules, ranks.names))
        self.graphs = [
            PlacedGraph(molecule.graph, place, row) for molecule, row in zip(molecules, features, strict=True)
        ]

    def batch(self, numbers: Sequence[int], generator: np.random.Generator | None = None) -> WholeGraphBatch:
        return WholeGraphBatch.of_placed([self.graphs[number] for number in numbers], generator=generator)


class MoleculeTask(SharedValidation):
    """A model over molecules with its data: what training fits."""

    def __init__(
        self,
        config: MoleculeConfig,
        targets: Targets,
        training: MoleculeTable,
        validation: MoleculeTable,
        digests: Mapping[str, str],
        ranks: Ranks | None = None,
    ) -> None:
        self.config, self.targets, self.ranks, self.digests = config, targets, ranks, dict(digests)
        self.training, self.validation = training, validation
        self.model = config.built(targets, ranks)
        self._standardised = targets.standardised(training.values)
        self._placed = PlacedMolecules(training.molecules, config.model.place, ranks)
        self._validated = PlacedMolecules(validation.molecules, config.model.place, ranks)
        self._plan = plan_of(training, config)

    @classmethod
    def prepare(cls, config: MoleculeConfig, run: Path) -> tuple["MoleculeTask", dict[str, MoleculeReport | str]]:
        """Read the molecules, split them, and store all in the run folder. Returns reports on each file, and a warning
        on targets with one value.

        Raises DataError for tables that cannot be read, and if nothing is left to train on or to validate with.
        """
        tables, reports = prepared_tables(config)
        targets = Targets.of(tables["train"], config.predicts)
        if targets.predicts == "classes":
            for table in tables.values():
                require_classes(table, "the training data have classes 0 and 1")
        with disk_errors(run):
            (run / "data").mkdir(parents=True, exist_ok=True)
            remove_stale(run / "data")
        targets.save(run)
        ranks = None
        if config.data.descriptors:
            names = descriptor_names()
            tables = {
                part: replace(table, molecules=[with_descriptors(one, names) for one in table.molecules])
                for part, table in tables.items()
            }
            ranks = Ranks.of(names, described(tables["train"].molecules, names))
            ranks.save(run / DESCRIPTORS)
        for part, table in tables.items():
            write_molecules(table, stored(run, part))
        warning = _warning(tables["train"], tables["valid"], targets)
        remarks: dict[str, MoleculeReport | str] = {**reports, **({"targets": warning} if warning else {})}
        return cls(config, targets, tables["train"], tables["valid"], _digests(run), ranks), remarks

    @classmethod
    def open(cls, config: MoleculeConfig, run: Path) -> "MoleculeTask":
        """The task of a run folder that `prepare` has filled."""
        digests = _digests(run)
        require_digests(run, digests, read_run(run).tokenisers)
        training, validation = (read_molecules(stored(run, part)) for part in ("train", "valid"))
        with within_run(run):
            return cls(config, Targets.open(run), training, validation, digests, stored_ranks(config, run))

    @property
    def unmeasured(self) -> dict[str, str]:
        """The metrics that `validate` does not give with these data, each with the reason."""
        if self.targets.predicts == "numbers":
            return {"roc_auc": "the targets are numbers, not classes"}
        unmeasured = dict.fromkeys(("rmse", "mae"), "the targets are classes, not numbers")
        if len(unscored(self.validation, "classes")) == len(self.targets.names):
            unmeasured["roc_auc"] = "no target has both classes among the molecules for validation"
        return unmeasured

    @property
    def steps_per_epoch(self) -> int:
        return self._plan.steps_per_epoch

    @property
    def validation_batches(self) -> int:
        """Batches that a validation reads."""
        return plan_of(self.validation, self.config).steps_per_epoch

    def batch(self, step: int) -> MoleculeBatch:
        """Batch number `step`, with signs of eigenvectors drawn: a pure function of the seed and the step."""
        numbers = self._plan.examples(step).tolist()
        generator = np.random.default_rng([self.config.seed, step])
        return MoleculeBatch(self._placed.batch(numbers, generator), self._standardised[numbers], tuple(numbers))

    def loss(self, batch: MoleculeBatch) -> Loss:
        """Squared (or Huber's) error of standardised numbers, or cross-entropy of classes, over known targets."""
        return self._loss(self.model(batch.graphs).float(), batch.targets)

    def _loss(self, outputs: Tensor, targets: Tensor) -> Loss:
        known = ~targets.isnan()
        outputs, targets = outputs[known], targets[known]
        if self.targets.predicts == "classes":
            total = binary_cross_entropy_with_logits(outputs, targets, reduction="sum")
        elif self.config.huber is None:
            total = (outputs - targets).square().sum()
        else:
            total = 2 * huber_loss(outputs, targets, delta=self.config.huber, reduction="sum")
        return Loss(total, int(known.sum()))

    @torch.no_grad()
    def measured(self, each: Each) -> dict[str, float]:
        """The loss per known target, and the scores in the units of the data: means over the targets."""
        outputs = run_model(self.model, self._validated, each)
        loss = self._loss(outputs, self.targets.standardised(self.validation.values))
        figures = {"loss": float(loss.total) / loss.count}
        if len(self.unmeasured) == len(VALIDATED) - 1:
            return figures
        answers = self.targets.answers(outputs)
        return {**figures, **property_scores(answers, self.validation.values, self.targets.predicts)}

    def describe(self, batch: MoleculeBatch) -> str:
        """The lines of the table that a batch is made of."""
        return f"the molecules of lines {listing((self.training.lines[number] for number in batch.examples), 8)}"


def run_model(
    model: GraphPredictor, placed: PlacedMolecules, each: Each = in_turn
) -> Float[Tensor, "molecules targets"]:
    """The outputs of a model, which depend neither on the order of the molecules nor on each other."""
    order = np.argsort([len(graph) for graph in placed.graphs], kind="stable").tolist()

    def outputs_of(number: int) -> list[Any]:
        numbers = order[number * TOGETHER : (number + 1) * TOGETHER]
        return model(beside(model, placed.batch(numbers))).float().tolist()

    parts = each(outputs_of, -(-len(order) // TOGETHER))
    outputs = torch.tensor(list(chain.from_iterable(parts)), dtype=torch.float32)
    back = torch.empty_like(outputs)
    back[order] = outputs
    return back


def plan_of(table: MoleculeTable, config: MoleculeConfig) -> BatchPlan:
    lengths = np.array([len(molecule) for molecule in table.molecules])
    lines = np.array(table.lines)
    budget = config.data.max_tokens
    return BatchPlan(lengths, np.zeros_like(lengths), max_tokens=budget, seed=config.seed, lines=lines)


def stored(run: Path, part: str) -> Path:
    """The file of a run with the molecules of a split."""
    return run / "data" / f"{part}.npz"


def stored_ranks(config: MoleculeConfig, run: Path) -> Ranks | None:
    """The ranks of descriptors that a run has stored, if its model reads them."""
    return Ranks.open(run / DESCRIPTORS) if config.data.descriptors else None


def _digests(run: Path) -> dict[str, str]:
    files = [
        TARGETS,
        *([DESCRIPTORS] if (run / DESCRIPTORS).exists() else []),
        *(f"data/{part}.npz" for part in PARTS if stored(run, part).exists()),
    ]
    if not (run / TARGETS).exists():
        raise DataError(f"{run / TARGETS} is missing. Restore it, or train again.")
    return {name: file_digest(run / name) for name in files}


def _warning(training: MoleculeTable, validation: MoleculeTable, targets: Targets) -> str:
    """Sentences on targets that cannot be learnt or validated; empty where all can."""
    unit = "class" if targets.predicts == "classes" else "value"
    sentences = [
        f"all molecules for training have the {unit} {value:g} of {name!r}, which cannot be learnt from them."
        for name, value in single_values(training).items()
    ]
    reasons = unscored(validation, targets.predicts)
    sentences += [f"{name!r} is not validated, because {reason}." for name, reason in reasons.items()]
    return " ".join(f"Warning: {sentence}" for sentence in sentences)


def prepared_tables(config: MoleculeConfig) -> tuple[dict[str, MoleculeTable], dict[str, MoleculeReport]]:
    """The molecules of each part, and reports on them."""
    data = config.data
    table = config.read(data.data)
    if data.valid_data is not None:
        valid = config.read(data.valid_data, table.targets)
        tables, reports = {}, {}
        for part, whole, path in (("train", table, data.data), ("valid", valid, data.valid_data)):
            tables[part], left_out = _usable(whole, data.max_atoms)
            name = "training" if part == "train" else "validation"
            reports[part] = MoleculeReport(
                total=len(whole),
                max_atoms=data.max_atoms,
                sizes={name: len(tables[part])},
                how=f"from {Path(path).name}",
                **left_out,
            )
    else:
        usable, left_out = _usable(table, data.max_atoms)
        smiles = [molecule.smiles for molecule in usable.molecules]
        split = split_molecules(smiles, data.split, shares=(data.valid_share, data.test_share), seed=config.seed)
        tables = {part: usable.chosen(numbers) for part, numbers in split.items()}
        how = f"at random by the seed {config.seed}" if data.split == "random" else "by their scaffolds"
        report = MoleculeReport(
            total=len(table),
            max_atoms=data.max_atoms,
            sizes=dict(zip(("training", "validation", "the test"), map(len, split.values()), strict=True)),
            how=how,
            repeated=repeated(smiles, split),
            **left_out,
        )
        reports = {"data": report}
    scaffolds = data.valid_data is None and data.split == "scaffold"
    otherwise = 'data.split = "random", ' if scaffolds else ""
    for part, name in (("train", "training"), ("valid", "validation")):
        if not len(tables[part]):
            raise DataError(
                f"No molecule is left for {name}. {' '.join(map(str, reports.values()))} Give more molecules, other "
                f"shares, {otherwise}or a validation file with --valid-data (data.valid_data)."
            )
    return tables, reports


def _usable(table: MoleculeTable, max_atoms: int) -> tuple[MoleculeTable, dict[str, Any]]:
    """The molecules with a target and not too many atoms, and those that are left out."""
    kinds: dict[str, list[int]] = {"too_large": [], "empty": []}
    chosen = list[int]()
    for number, molecule in enumerate(table.molecules):
        if len(molecule) > max_atoms:
            kinds["too_large"].append(table.lines[number])
        elif np.isnan(table.values[number]).all():
            kinds["empty"].append(table.lines[number])
        else:
            chosen.append(number)
    return table.chosen(chosen), {name: LeftOut(len(lines), tuple(lines[:10])) for name, lines in kinds.items()}
