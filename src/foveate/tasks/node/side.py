"""The interface between commands and the classification of nodes."""

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from foveate.data.graph import UNLABELLED, Graph
from foveate.data.graph_file import read_graph_file
from foveate.data.sparse_row import SparseRows
from foveate.errors import DataError, UsageError
from foveate.metrics import Score
from foveate.storage.draft import require_writable, write_lines
from foveate.suggestion import counted
from foveate.tasks.exported import Exported, Note
from foveate.tasks.intake import Intake
from foveate.tasks.labelling import KEYS
from foveate.tasks.labelling_side import class_rows
from foveate.tasks.node import TASK
from foveate.tasks.node.served_node_classifier import ServedNodeClassifier
from foveate.tasks.node.task import VALIDATED, NodeConfig, NodeTask
from foveate.tasks.node.use import ClassifiedNode, NodeClassifier
from foveate.tasks.option import require_used
from foveate.tasks.report_page import Sample, write_report
from foveate.tasks.run_plan import Allowance, Probe, Reason, Suggestion, with_others
from foveate.tasks.side import NOT_DATA, Asked, Scored, Side, written
from foveate.tasks.sight import Sight
from foveate.voice import say, shown

SAMPLES = 8
WORK = 2e-8
"""Seconds of one core for each number of a layer's products: features and edges, times the width."""
LARGE = 2_000_000
"""The number of edges, both directions counted, from which on neighbours are sampled."""
MADE_UP = (2_000, 500, 4)
"""Nodes, features and edges of a node, where there are no data."""
Test = tuple[str, NodeClassifier, Int[np.ndarray, " nodes"]]
"""The name of test data, the model over their graph, and the nodes to score."""


class NodeSide(Side):
    """`foveate train node`, `foveate predict`."""

    entry, config, task = TASK, NodeConfig, NodeTask
    lower = frozenset({"loss"})
    per_token = frozenset()
    validated = VALIDATED
    not_data = NOT_DATA | {"l2"}
    engines = ("onnx", "ctranslate2")  # each of which is refused with a reason

    # Before training.

    def suggest(self, config: NodeConfig, allowance: Allowance) -> Suggestion:
        """The model and the steps of Veličković et al. 2018, section 3.3, with as many steps as there is time for."""
        data = config.data
        graph = read_graph_file(data.edges, data.nodes, directed=data.directed)
        return with_others(lambda allowance: _suggested(graph, config, allowance), allowance)

    def probe(self, config: NodeConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """A step on the graph of the data, or on a random one."""
        data = config.data
        if data.edges:
            graph = read_graph_file(data.edges, data.nodes, directed=data.directed)
            graph = graph if graph.splits else graph.shared(valid=data.valid_share, test=data.test_share)
        else:
            graph = _made_up()
        task = NodeTask(config, graph, {})
        batch = task.batch(0)
        edges = f"{batch.graph.edges.shape[1]:,} edges, both directions counted"
        return Probe(
            model=task.model,
            loss=lambda: task.loss(batch).total,
            vocabulary=f"{counted(graph.width, 'feature')} and {counted(len(graph.classes), 'class')}",
            batch=f"{counted(len(batch.graph), 'node')} with {edges}",
            tokens=len(batch.graph),
            unit="nodes",
        )

    def size(self, task: NodeTask) -> str:
        parts = ", ".join(f"{len(nodes):,} {name}" for name, nodes in task.graph.splits.items())
        edges = f"{counted(len(task.graph), 'node')} and {counted(task.graph.edges.shape[1], 'edge')}"
        return f"{edges}, nodes with a class by split: {parts}"

    # A trained model.

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> NodeClassifier:
        return NodeClassifier.load(run, note=note)

    def offered(self, model: NodeClassifier, folder: Path) -> ServedNodeClassifier:
        return ServedNodeClassifier(model)

    def in_use(self, task: NodeTask) -> NodeClassifier:
        return NodeClassifier(task.model, task.graph, scale=task.config.data.scale)

    def use(self, arguments: argparse.Namespace) -> None:
        if arguments.nodes is not None and arguments.edges is None:
            raise UsageError("--nodes goes with --edges, the edges of the same graph. Give both, or neither.")
        classifier = self._classifier(arguments)
        classes, whole = classifier.like.classes, not arguments.inputs
        if whole:
            header = ("node", *classes) if arguments.probabilities else ("node", "class", "probability")
            print(shown("\t".join(header)))
        for one in classifier.classify() if whole else _named(classifier, arguments):
            line = "" if one is None else _line(one, classes, whole=whole, probabilities=arguments.probabilities)
            print(shown(line), flush=not whole)

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        unused = dict.fromkeys(("precision", "beam", "set", "metrics"), "runs that write texts")
        require_used(arguments, {**unused, "columns": "tables of texts"}, (), "for classes of nodes")
        classifier, folder = self._classifier(arguments), Path(arguments.run)
        name = arguments.edges or "the run's graph"
        nodes = _test_nodes(classifier, name)
        require_writable(arguments.save, arguments.report)
        if arguments.save:
            answers = classifier.classify(classifier.named(nodes))
            write_lines(arguments.save, (_line(one, classifier.like.classes, whole=True) for one in answers))
        if arguments.report:
            test = Path(name).name, classifier, nodes
            self.write_report(classifier, self.saved_config(folder), folder, Path(arguments.report), test)
            say(f"The report is in {arguments.report}.")
        predicted = classifier.predict(nodes)
        return predicted.scores() + (class_rows(predicted) if arguments.per_class else [])

    def export(self, run: Path | str, note: Note) -> Exported:
        raise UsageError(
            "A model of nodes reads a whole graph, whose edges an exported file would have to contain, so it is not "
            f"exported. `foveate predict {shlex.quote(str(run))} > classes.tsv` writes its answers."
        )

    def sight(self, arguments: argparse.Namespace, text: str) -> Sight:
        """The weights of the edges that a node's answer depends on."""
        classifier, hops = self.reader(arguments, text), arguments.hops
        return Sight(lambda: classifier.trace(text, hops=hops))

    def reader(self, arguments: argparse.Namespace, text: str) -> NodeClassifier:
        """The model of a run for `look`. Raises UsageError for options of runs on texts."""
        where = f"of the task {self.entry.name}"
        unused = dict.fromkeys(("target", "beam", "set", "when"), "runs that translate")
        require_used(arguments, {**unused, "precision": "runs on texts", "words": "runs on texts"}, (), where)
        return self.load(arguments.run)

    def _classifier(self, arguments: argparse.Namespace) -> NodeClassifier:
        """The model of a run, over the graph that the arguments name, or over its own."""
        classifier = self.load(arguments.run)
        if arguments.edges is None:
            return classifier
        directed = self.saved_config(Path(arguments.run)).data.directed
        return classifier.over_files(arguments.edges, arguments.nodes, directed=directed, note=say)

    # Reports.

    def write_report(
        self, model: NodeClassifier, config: NodeConfig, folder: Path, path: Path, test: Test | None = None
    ) -> None:
        name, classifier, nodes = test or ("validation", model, model.labelled("valid"))
        predicted = classifier.predict(nodes)
        about = f"{name}, {counted(len(nodes), 'node')}"
        kind = type(model.model.encoder).__name__
        write_report(
            model.model,
            folder,
            path,
            kind=kind,
            scores=[
                {"metric": score.name, "value": f"{score.value:.2f}", "data": about, "signature": score.signature or ""}
                for score in (*predicted.scores(), *class_rows(predicted))
            ],
            samples=_samples(classifier, nodes[:SAMPLES]),
            card={"graph": repr(model.graph).strip("<>"), "limits": "Only graphs of the same kind and their classes."},
            commands=[self.command(model, folder), f"foveate evaluate {written(folder)} --per-class"],
            names=("node", "class"),
        )

    def trial(self, model: NodeClassifier) -> str:
        test = model.labelled()
        return shlex.quote(model.graph.name(int(test[0]) if len(test) else 0))

    # Comparisons.

    def metrics(self) -> tuple[str, ...]:
        return ("accuracy", "macro_f1", "loss")

    def usual_metrics(self, task: NodeTask) -> tuple[str, ...]:
        return ("accuracy", "macro_f1")

    def hold_out(self, config: NodeConfig, folder: Path) -> dict[str, Any]:
        """None: the graph has splits, or they are drawn by the seed of the base configuration."""
        return {}

    def count(self, batch: Any) -> int:
        return len(batch.labels)

    def require_given(self, task: NodeTask, request: Asked) -> None:
        super().require_given(task, request)
        if request.test:
            _test_nodes(self._tested(task, request.test), request.test["edges"])

    def _tested(self, task: NodeTask, test: Mapping[str, str]) -> NodeClassifier:
        """The model of a task over the graph of some files."""
        directed = task.config.data.directed
        return self.in_use(task).over_files(test["edges"], test.get("nodes"), directed=directed, note=lambda text: None)

    def score(self, task: NodeTask, config: NodeConfig, folder: Path, request: Asked) -> Scored:
        """Validation nodes, or the test nodes of another graph, which may be the same file."""
        classifier = self.in_use(task) if not request.test else self._tested(task, request.test)
        predicted = classifier.predict(classifier.labelled("test" if request.test else "valid"))
        values = {KEYS[score.name]: score.value for score in predicted.scores()}
        return Scored(
            values=self.pick({**values, **({} if request.test else {"loss": task.validate()["loss"]})}, request.metrics)
        )

    def data_settings(self, settings: Any) -> dict[str, Any]:
        """Without what is done with a graph after it is stored."""
        chosen = super().data_settings(settings)
        chosen["data"] = {name: part for name, part in chosen["data"].items() if name not in ("sampling", "scale")}
        return chosen


def _named(classifier: NodeClassifier, arguments: argparse.Namespace) -> Iterator[ClassifiedNode | None]:
    """The classes of the nodes that the arguments name; None for a name that the graph does not have."""

    def read(name: str) -> Iterator[str]:
        classifier.number(name)  # here, so that one pass over the graph answers all the others
        return iter([name])

    intake = Intake(arguments.command, arguments.inputs, read)
    return (answer for _, answer in intake.answers(classifier.classify, together=len(arguments.inputs)))


def _test_nodes(classifier: NodeClassifier, name: str) -> Int[np.ndarray, " nodes"]:
    """The nodes of a graph to score. Raises DataError, with the `name` of the graph, where there are none."""
    nodes = classifier.labelled()
    if not len(nodes):
        raise DataError(f"{name} has no test nodes with a class that the model knows. Give another graph.")
    return nodes


def _line(one: ClassifiedNode, classes: Sequence[str], *, whole: bool, probabilities: bool = False) -> str:
    """A line of output: of a whole graph with the classes in columns, of named nodes with each beside its share."""
    if not probabilities:
        return f"{one.name}\t{one.label}\t{one.probabilities[one.label]:.4f}"
    if whole:
        return "\t".join((one.name, *(f"{one.probabilities[name]:.4f}" for name in classes)))
    return "\t".join((one.name, *(f"{share:.4f} {label}" for label, share in one.probabilities.items())))


def _samples(classifier: NodeClassifier, nodes: Int[np.ndarray, " nodes"]) -> list[Sample]:
    predicted = classifier.predict(nodes)
    names = classifier.named(nodes)
    labels = zip(names, predicted.flat[1], predicted.flat[0], strict=True)
    return [(name, right, answer, None) for name, right, answer in labels]


def _suggested(graph: Graph, config: NodeConfig, allowance: Allowance) -> Suggestion:
    edges = graph.messages().shape[1]
    words = isinstance(graph.features, SparseRows)
    numbers = len(graph.features.values) if isinstance(graph.features, SparseRows) else graph.features.size
    sampled = edges > LARGE
    pace = max(WORK * 64 * (numbers + 4 * edges), 0.005)
    steps = allowance.steps(1000, pace=pace)
    negative = not isinstance(graph.features, SparseRows) and graph.features.size and graph.features.min() < 0
    scale = "sum" if words and not negative else "standard"
    settings: dict[str, Any] = {
        "data": {"scale": scale, **({"sampling": {"fan_out": [10, 10], "batch_size": 512}} if sampled else {})},
        "model": {"kind": "graph_attention"},
        "l2": 5e-4,
        "train": {
            "steps": steps,
            "learning_rate": 0.005,
            "schedule": {"kind": "constant"},
            "weight_decay": 0.0,
            "betas": [0.9, 0.999],
            "clip_norm": None,
            "validate_every": 1 if not sampled else 100,  # as the papers do, whose runs have some hundred steps
            "save_every": 100,
            "log_every": 10,
            "metric": "accuracy",
            "better": "higher",
            "patience": 200 if not sampled else 10,
        },
    }
    labelled = 0 if graph.labels is None else int((graph.labels != UNLABELLED).sum())
    why = "words, divided by their sum in each node" if scale == "sum" else "columns of numbers, of deviation 1"
    return Suggestion(
        settings,
        f"{counted(len(graph), 'node')} with {counted(graph.width, 'feature')}, "
        f"{counted(graph.edges.shape[1], 'edge')}, {labelled:,} labels of {counted(len(graph.classes), 'class')}.",
        (
            Reason("features", why, ("data.scale",)),
            Reason(
                "model", f"two layers of attention along edges, 8 heads of 8, as published for citations, {allowance}"
            ),
        ),
    )


def _made_up() -> Graph:
    """A random graph, the same every time."""
    generator = np.random.default_rng(0)
    nodes, width, degree = MADE_UP
    pairs = np.unique(np.sort(generator.integers(0, nodes, (nodes * degree, 2)), axis=1), axis=0)
    graph = Graph(
        features=generator.random((nodes, width), dtype=np.float32),
        edges=pairs.T,
        labels=generator.integers(0, 7, nodes),
        classes=tuple("abcdefg"),
    )
    return graph.shared(valid=0.2, test=0.2)


SIDE = NodeSide()
