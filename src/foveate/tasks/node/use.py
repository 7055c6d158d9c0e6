"""A trained model over nodes in use: the class of a node, and the weights of the edges that its answer depends on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.attention import AttentionRecord, record
from foveate.data.graph import UNLABELLED, Graph
from foveate.data.graph_batch import GraphBatch
from foveate.data.graph_file import Scale, matched, read_graph_file, scaled
from foveate.errors import DataError, UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.looking import Looking
from foveate.inspect.trace.conversion import describe
from foveate.inspect.trace.observation import given
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Pedigree
from foveate.nn.graph_layer import GraphAttention
from foveate.nn.neighbourhood import Neighbourhood
from foveate.suggestion import counted, names_like
from foveate.tasks.labelling import Predicted
from foveate.tasks.node.task import NodeConfig, NodeModel, stored_graph
from foveate.tasks.run_model import saved, trained

LARGEST = 300
"""The most nodes of a trace, whose weights are stored pair by pair, and which a drawing can show."""


@dataclass(frozen=True)
class ClassifiedNode:
    """The name of a node, and the probability of each class, the most probable first."""

    name: str
    probabilities: dict[str, float]

    @property
    def label(self) -> str:
        """The most probable class."""
        return next(iter(self.probabilities))


class NodeClassifier(Looking):
    """Classifies the nodes of a graph, along all of its edges, whatever was sampled in training."""

    def __init__(self, model: NodeModel, graph: Graph, *, scale: Scale = "none", like: Graph | None = None) -> None:
        """`graph` has the features of its files, `like` is the graph of training, by which they are scaled."""
        self.model, self.graph, self.scale, self.like = model.eval(), graph, scale, like or graph

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "NodeClassifier":
        """The trained model of a run folder with its graph; of an unfinished run, its best checkpoint.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        config, _ = saved(Path(run), "node", NodeConfig)
        graph, _ = stored_graph(Path(run))
        model = trained(Path(run), lambda: config.built(graph), note)
        return cls(model, graph, scale=config.data.scale)._of(Path(run))

    def over(
        self, graph: Graph, name: str = "The graph", *, note: Callable[[str], None] = lambda sentence: None
    ) -> "NodeClassifier":
        """The same model over another graph, with features as it was trained on; see `matched`."""
        fitting, sentences = matched(graph, self.like, name)
        for sentence in sentences:
            note(sentence)
        return NodeClassifier(self.model, fitting, scale=self.scale, like=self.like)._of(self.origin)

    def over_files(
        self, edges: str, nodes: str | None = None, *, directed: bool = False, note: Callable[[str], None]
    ) -> "NodeClassifier":
        """The same model over the graph of some files, which are read as `read_graph_file` does."""
        graph = read_graph_file(edges, nodes, directed=directed and nodes is not None)
        return self.over(graph, edges if nodes is None else f"{edges} with {nodes}", note=note)

    def named(self, numbers: Int[np.ndarray, " nodes"]) -> list[str]:
        """The names of nodes."""
        return [self.graph.name(number) for number in numbers.tolist()]

    def number(self, name: str) -> int:
        """The number of a node. Raises DataError for a name that the graph does not have."""
        if name not in self._numbers:
            raise DataError(f"The graph has no node {name!r}. {names_like(name, self._numbers)}")
        return self._numbers[name]

    def classify(self, names: Iterable[str] | None = None) -> list[ClassifiedNode]:
        """The classes of nodes by their names; by default of all nodes, in the order of the graph.

        Raises DataError for a name that the graph does not have.
        """
        if isinstance(names, str):
            raise TypeError(f"Names of nodes are a list, got the string {names!r}. Write [{names!r}].")
        numbers = np.arange(len(self.graph)) if names is None else np.array([self.number(one) for one in names], int)
        classes, answers = self.like.classes, list[ClassifiedNode]()
        for number, shares in zip(numbers.tolist(), self._probabilities()[numbers], strict=True):
            order = shares.argsort(descending=True, stable=True).tolist()
            answers.append(ClassifiedNode(self.graph.name(number), {classes[one]: float(shares[one]) for one in order}))
        return answers

    def predict(self, nodes: Int[np.ndarray, " nodes"]) -> Predicted:
        """Predicted classes of labelled nodes and the right ones, for scores."""
        assert self.graph.labels is not None
        names = self.like.classes
        predicted = self._probabilities()[torch.from_numpy(nodes)].argmax(1).tolist()
        gold = self.graph.labels[nodes].tolist()
        return Predicted(labels=[[names[one]] for one in predicted], gold=[[names[one]] for one in gold])

    def labelled(self, split: str = "test") -> Int[np.ndarray, " nodes"]:
        """The nodes of a split; of a graph without splits, all that have a label."""
        if self.graph.splits:
            return self.graph.splits.get(split, np.zeros(0, np.int64))
        labels = self.graph.labels
        return np.zeros(0, np.int64) if labels is None else np.flatnonzero(labels != UNLABELLED)

    @torch.inference_mode()
    def trace(self, text: str, *, hops: int | None = None) -> Trace:
        """The weights of the edges that the answer of a node depends on: its neighbours, theirs, and so on, as far as
        the model looks, or so many `hops`. `text` is the name of the node.

        The model runs on the whole graph, so that all weights are those of its answer; edges from nodes that are not
        drawn lack. Raises UsageError for a model without attention, for hops that it does not look, and for more than
        300 nodes.
        """
        layers = [(name, part) for name, part in self.model.named_modules() if isinstance(part, GraphAttention)]
        if not layers:
            raise UsageError(
                f"This {type(self.model.encoder).__name__} has no attention, so there is nothing to look at. "
                "`foveate train node` with --set model=graph_attention trains one that attends."
            )
        if hops is not None and not 1 <= hops <= len(layers):
            raise UsageError(
                f"An answer of this model depends on nodes up to {counted(len(layers), 'hop')} away, one for each "
                f"layer, so that hops cannot be {hops}. Give a number from 1 to {len(layers)}, or leave it out."
            )
        nodes = self._within(self.number(text), hops or len(layers))
        if len(nodes) > LARGEST:
            raise UsageError(
                f"{counted(len(nodes), 'node')} are within reach of {text!r}, and at most {LARGEST} are drawn. Ask for "
                "fewer hops, such as 1, or look at another node."
            )
        with record(self.model) as recording:
            self.model(self._batch)
        part = self._part(nodes)
        sites = tuple(
            _site(layer, recording[f"{name}.attention"], part, torch.from_numpy(nodes), number)
            for number, (name, layer) in enumerate(layers)
        )
        focus = Track.of_nodes(self.named(nodes), part.edges, notes=self._notes(nodes), focus=0)
        pedigree = Pedigree(model=type(self.model.encoder).__name__)
        return Trace(tracks={"nodes": focus.placed()}, sites=sites, pedigree=pedigree, opens=(sites[-1].name, None))

    def _within(self, node: int, hops: int) -> Int[np.ndarray, " nodes"]:
        """The nodes that a node reaches by looking so many times: itself first, then by the number of hops."""
        source, target = self._batch.edges.numpy()
        reached, rings = np.zeros(len(self.graph), np.bool_), [np.array([node])]
        reached[node] = True
        for _ in range(hops):
            ring = np.unique(source[np.isin(target, rings[-1])])
            rings.append(ring[~reached[ring]])
            reached[rings[-1]] = True
        return np.concatenate(rings)

    def _notes(self, nodes: Int[np.ndarray, " nodes"]) -> list[str]:
        """The predicted class of each node, and its label, if it has one."""
        labels, notes = self.graph.labels, list[str]()
        for number, answer in zip(nodes.tolist(), self.classify(self.named(nodes)), strict=True):
            known = UNLABELLED if labels is None else int(labels[number])
            right = "" if known == UNLABELLED else f", is {self.like.classes[known]}"
            notes.append(f"predicted {answer.label}{right}")
        return notes

    def _part(self, nodes: Int[np.ndarray, " nodes"]) -> Neighbourhood:
        """The edges between these nodes."""
        place = np.full(len(self.graph), -1)
        place[nodes] = np.arange(len(nodes))
        edges = place[self._batch.edges.numpy()]
        within = (edges >= 0).all(0)
        between = self._batch.edge_features
        return Neighbourhood(
            torch.from_numpy(edges[:, within]),
            len(nodes),
            None if between is None else between[torch.from_numpy(within)],
        )

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self.graph.name(number): number for number in range(len(self.graph))}

    @cached_property
    def _batch(self) -> GraphBatch:
        return GraphBatch.of([scaled(self.graph, self.scale, self.like)])

    def _probabilities(self) -> Float[Tensor, "nodes classes"]:
        with torch.inference_mode():
            shares: Tensor = self.model(self._batch).float().softmax(-1)
        return shares


def _site(
    layer: GraphAttention, whole: AttentionRecord, part: Neighbourhood, nodes: Int[Tensor, " nodes"], number: int
) -> Site:
    """The weights of a layer between some nodes, by the statistics of rows over all nodes."""
    formula = layer.attention.over(part.rule(self_loops=layer.self_loops), bias=layer.edge_bias(part))
    assert whole.statistic is not None
    here = replace(
        whole,
        formula=formula,
        at=part.at,
        query=whole.query[:, :, nodes],
        key=whole.key[:, :, nodes],
        statistic=whole.statistic[:, :, nodes],
        writes=None,
    )
    weights = here.weights()[0].float()
    visible = formula.visibility(part.at)[0].expand(weights.shape)
    return given(
        weights,
        visible,
        name=whole.name,
        kind="graph",
        layer=number,
        tracks=("nodes", "nodes"),
        formula=describe(whole.formula, whole.formula.normaliser, whole.query.shape[-1]),
    )
