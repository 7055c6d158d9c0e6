"""Node: a class for each node of a graph by a model that looks along edges."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention.check import require_positive
from foveate.config import require_choices, setting
from foveate.data.graph import Graph
from foveate.data.graph_archive import read_graph, write_graph
from foveate.data.graph_batch import GraphBatch
from foveate.data.graph_file import Scale, read_graph_file, scaled
from foveate.data.neighbour_sample import NeighbourSampler, NodeBatch
from foveate.errors import DataError
from foveate.metrics import accuracy, macro_f1
from foveate.models.graph_encoder import GraphAttentionConfig, GraphEncoderConfig
from foveate.nn.loss import Loss, cross_entropy
from foveate.nn.transfer import beside, device_of, moved
from foveate.storage.draft import disk_errors, remove_stale
from foveate.storage.manifest import file_digest
from foveate.storage.run import read_run
from foveate.suggestion import counted, listing
from foveate.tasks.run_digest import require_digests
from foveate.tasks.run_model import require_seed, require_smoothing, seeded, within_run

GRAPH = "data/graph.npz"
"""The file of a run with its graph and its splits."""
VALIDATED = ("loss", "accuracy", "macro_f1")
"""The figures of `validate`, by which the best checkpoint can be chosen."""


@dataclass(frozen=True, kw_only=True)
class NeighbourConfig:
    """Batches of some nodes with some of their neighbours, for graphs that are too large to be read in each step."""

    fan_out: tuple[int, ...] = setting(
        (10, 10), "most edges of a target that are drawn, then of the nodes that these lead to: a number for each layer"
    )
    batch_size: int = setting(512, "nodes for training in a batch")

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size)
        if not self.fan_out or min(self.fan_out) < 1:
            raise ValueError(f"fan_out needs numbers of at least 1, one for each layer, got {list(self.fan_out)}")


@dataclass(frozen=True, kw_only=True)
class NodeDataConfig:
    """The files of a graph, and how it is read."""

    edges: str = setting("", "table of edges, or a whole graph in one file, .npz or .graphml")
    nodes: str | None = setting(None, "table of nodes, beside a table of edges")
    directed: bool = setting(False, "whether nodes look only against the direction of a table's edges, at the source")
    scale: Scale = setting(
        "sum",
        "what becomes of features: sum divides those of a node by their sum, for counted words; standard gives columns "
        "the mean 0 and the deviation 1 over all nodes of the graph; none keeps them",
    )
    valid_share: float = setting(0.2, "share of each class for validation, where the graph has no splits")
    test_share: float = setting(0.2, "share of each class for the test, where the graph has no splits")
    sampling: NeighbourConfig | None = setting(
        None, "neighbour sampling, such as data.sampling.fan_out = [10, 10]; none: each step reads the whole graph"
    )

    def __post_init__(self) -> None:
        require_choices(self)
        for name in ("valid_share", "test_share"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, got {getattr(self, name)}")
        if not self.valid_share or self.valid_share + self.test_share >= 1:
            raise ValueError(
                f"valid_share must be more than 0, and leave something to train on together with test_share, got "
                f"{self.valid_share} and {self.test_share}"
            )


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """Everything that defines a run on the nodes of a graph, except how it is trained."""

    data: NodeDataConfig = NodeDataConfig()
    model: GraphEncoderConfig = setting(
        GraphAttentionConfig(), "the architecture: graph_attention, graph_convolution or node_mlp"
    )
    l2: float = setting(
        0.0, "half of the sum of all squared weights, without biases, times this is added to the mean loss"
    )
    label_smoothing: float = setting(0.0, "share of the target probability that is spread over all classes")
    seed: int = setting(0, "seed of initial weights, of splits that are drawn, and of neighbour sampling")

    def __post_init__(self) -> None:
        if not 0 <= self.l2 < float("inf"):
            raise ValueError(f"l2 must be at least 0, got {self.l2}")
        require_seed(self.seed)
        require_smoothing(self.label_smoothing)
        sampling = self.data.sampling
        if sampling is not None and len(sampling.fan_out) != self.model.num_layers:
            raise ValueError(
                f"data.sampling.fan_out needs a number for each layer of the model, which has {self.model.num_layers}, "
                f"got {list(sampling.fan_out)}"
            )

    def built(self, graph: Graph) -> "NodeModel":
        """The configured model with its initial weights, a function of the seed."""
        return seeded(
            lambda: NodeModel(self.model.build(graph.width, len(graph.classes), edge_dim=graph.edge_width)), self.seed
        )


class NodeModel(nn.Module):
    """logits of the classes for every node of a graph"""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, graph: GraphBatch) -> Float[Tensor, "nodes classes"]:
        logits: Tensor = self.encoder(graph)
        return logits

    def parameter_count(self) -> int:
        """The number of trainable parameters."""
        return sum(weight.numel() for weight in self.parameters() if weight.requires_grad)

    def squared_weights(self) -> Float[Tensor, ""]:
        """½ Σ w² over all weights but biases: the L2 regularisation of Veličković et al. 2018, section 3.3."""
        return sum((weight.square().sum() for weight in self.parameters() if weight.ndim > 1), torch.zeros(())) / 2


class NodeTask:
    """A model over the nodes of a graph, with the graph: what training fits."""

    def __init__(self, config: NodeConfig, graph: Graph, digests: Mapping[str, str]) -> None:
        self.config, self.graph, self.digests = config, graph, dict(digests)
        self.model = config.built(graph)
        self._scaled = scaled(graph, config.data.scale, graph)
        self._whole: GraphBatch | None = None

    @classmethod
    def prepare(cls, config: NodeConfig, run: Path) -> tuple["NodeTask", dict[str, str]]:
        """Read the graph, divide its nodes where it has no splits, and store it in the run folder. Returns
        warnings on a graph without edges, and on classes that no node for training has.

        Raises DataError for a graph without labels, with some of the splits only, or with one class for training.
        """
        data = config.data
        graph = _divided(read_graph_file(data.edges, data.nodes, directed=data.directed), config)
        with disk_errors(run):
            (run / "data").mkdir(parents=True, exist_ok=True)
            remove_stale(run / "data")
        write_graph(graph, run / GRAPH)
        return cls(config, graph, {GRAPH: file_digest(run / GRAPH)}), _warnings(graph, data.edges)

    @classmethod
    def open(cls, config: NodeConfig, run: Path) -> "NodeTask":
        """The task of a run folder that `prepare` has filled."""
        graph, digests = stored_graph(run)
        with within_run(run):
            return cls(config, graph, digests)

    @property
    def whole(self) -> GraphBatch:
        """The whole graph, with scaled features, on the model's device. It keeps what layers work out about edges."""
        device = device_of(self.model)
        if self._whole is None or self._whole.edges.device != device:
            self._whole = moved(GraphBatch.of([self._scaled]), device)
        return self._whole

    @property
    def steps_per_epoch(self) -> int:
        sampling = self.config.data.sampling
        return 1 if sampling is None else -(-len(self.graph.splits["train"]) // sampling.batch_size)

    @property
    def validation_batches(self) -> int:
        """Batches that a validation reads."""
        return self.steps_per_epoch

    def batch(self, step: int) -> NodeBatch:
        """Batch number `step`, a pure function of the seed and the step: the whole graph, or a sample of it."""
        sampling, nodes = self.config.data.sampling, self.graph.splits["train"]
        if sampling is None:
            return self.nodes(nodes)
        epoch, place = divmod(step, self.steps_per_epoch)
        order = np.random.default_rng([self.config.seed, 0, epoch]).permutation(nodes)
        targets = order[place * sampling.batch_size : (place + 1) * sampling.batch_size]
        return self._sampler.sample(targets, np.random.default_rng([self.config.seed, 1, step]))

    def nodes(self, numbers: Int[np.ndarray, " targets"]) -> NodeBatch:
        """The whole graph, with these nodes as targets."""
        targets = beside(self.model, torch.from_numpy(numbers))
        assert self.whole.labels is not None
        return NodeBatch(self.whole, targets, self.whole.labels[targets], numbers)

    def loss(self, batch: NodeBatch) -> Loss:
        """The cross-entropy of the targets, with smoothed labels, and for each of them the L2 term."""
        logits, count = self.model(batch.graph)[batch.targets], len(batch.labels)
        total = cross_entropy(logits, batch.labels, label_smoothing=self.config.label_smoothing)
        if self.config.l2:
            total = total + self.config.l2 * count * self.model.squared_weights()
        return Loss(total, count)

    def validate(self) -> dict[str, float]:
        """Cross-entropy in nats per node without the L2 term, accuracy and mean F1 of the classes, from 0 to 1."""
        batch = self.nodes(self.graph.splits["valid"])
        logits = self.model(batch.graph)[batch.targets]
        predicted, labels = (
            [self.graph.classes[one] for one in part.tolist()] for part in (logits.argmax(1), batch.labels)
        )
        return {
            "loss": float(cross_entropy(logits, batch.labels)) / len(labels),
            "accuracy": accuracy(predicted, labels).value / 100,
            "macro_f1": macro_f1(predicted, labels).value / 100,
        }

    def describe(self, batch: NodeBatch) -> str:
        return f"the nodes {listing(map(self.graph.name, batch.nodes.tolist()), 8)}"

    @cached_property
    def _sampler(self) -> NeighbourSampler:
        assert self.config.data.sampling is not None
        return NeighbourSampler(self._scaled, self.config.data.sampling.fan_out)


def stored_graph(run: Path) -> tuple[Graph, dict[str, str]]:
    """The graph of a run, and its digest. Raises DataError when it is damaged or another run's."""
    digests = {GRAPH: file_digest(run / GRAPH)} if (run / GRAPH).exists() else {}
    if not digests:
        raise DataError(f"{run / GRAPH} is missing. Restore it from a copy of the run.")
    require_digests(run, digests, read_run(run).tokenisers)
    return read_graph(run / GRAPH), digests


def _warnings(graph: Graph, name: str) -> dict[str, str]:
    """Warnings on a graph without edges, and on classes that no node for training has.

    Raises DataError where nodes for training have fewer than two classes.
    """
    assert graph.labels is not None
    learnt = np.unique(graph.labels[graph.splits["train"]])
    if len(learnt) < 2:
        raise DataError(
            f"{name}: all nodes for training have the class {graph.classes[learnt[0]]!r}, so there is nothing to "
            "learn. Name nodes of other classes for training, or leave all splits out, and they are drawn."
        )
    warnings = dict[str, str]()
    if not graph.edges.size:
        warnings["edges"] = f"Warning: {name} has no edges, so that every node looks at itself only."
    others = np.concatenate([nodes for part, nodes in graph.splits.items() if part != "train"])
    counts = np.bincount(graph.labels[others], minlength=len(graph.classes))
    lacking = [
        f"{graph.classes[number]!r} ({counted(int(counts[number]), 'node')})"
        for number in np.setdiff1d(np.flatnonzero(counts), learnt).tolist()
    ]
    if lacking:
        warnings["splits"] = (
            "Warning: no node for training has these classes of validation and test, so that their nodes count as "
            f"errors: {listing(lacking, 10)}."
        )
    return warnings


def _divided(graph: Graph, config: NodeConfig) -> Graph:
    """The graph with splits: its own, or drawn ones."""
    name, data = config.data.edges, config.data
    if graph.labels is None or len(graph.classes) < 2:
        what = "no labels" if graph.labels is None else f"labels of {len(graph.classes)} class"
        raise DataError(f"{name}: the nodes have {what}, and at least two classes are needed. Add a column `label`.")
    missing = [part for part in ("train", "valid") if not len(graph.splits.get(part, ()))]
    if graph.splits and missing:
        raise DataError(
            f"{name} names nodes for {' and '.join(graph.splits)}, and none for {' and '.join(missing)}. Name some, or "
            "leave all splits out, and they are drawn."
        )
    if graph.splits:
        return graph
    divided = graph.shared(valid=data.valid_share, test=data.test_share, seed=config.seed)
    if not len(divided.splits["valid"]):
        raise DataError(f"{name} has too few labelled nodes to set some aside for validation. Label more of them.")
    return divided
