"""From tables of edges and nodes to the classes of nodes, the weights of edges, and refusals in words."""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foveate.config import build
from foveate.data.graph import Graph
from foveate.data.graph_archive import read_graph, write_graph
from foveate.data.graph_table import read_graph_tables
from foveate.errors import DataError
from foveate.inspect import read_trace
from foveate.tasks.node.side import SIDE
from foveate.tasks.node.task import GRAPH, NodeTask
from foveate.tasks.node.use import NodeClassifier

BRIEF = ("--no-tune", "--threads", "1", "--set", "model.num_heads=2", "--set", "model.head_dim=4")
WORDS = ("wave boat sand", "tree moss bird")
COUNT = 60


def tables(folder: Path, *, order: np.ndarray | None = None, isolated: bool = False) -> tuple[Path, Path]:
    """Two communities of 30 nodes with words of their own; every fifth node has none. The nodes may be in another
    order, with an isolated one at the end."""
    draw = np.random.default_rng(0)
    pairs = {
        tuple(sorted(draw.choice(np.arange(side, COUNT, 2), 2, replace=False).tolist()))
        for side in (0, 1)
        for _ in range(60)
    }
    rows = []
    for node in range(COUNT):
        words = "of" if node % 5 == 0 else " ".join(draw.choice(WORDS[node % 2].split(), 2))
        split = ("train", "valid", "test")[node // 2 % 3]
        rows.append(f"n{node}\t{('sea', 'land')[node % 2]}\t{split}\t{words}\n")
    rows = [rows[node] for node in (range(COUNT) if order is None else order)]
    rows += ["alone\t\t\twave of of\n"] if isolated else []
    folder.mkdir(exist_ok=True)
    (folder / "nodes.tsv").write_text("".join(["name\tlabel\tsplit\twords\n", *rows]))
    (folder / "edges.tsv").write_text("".join(f"n{one}\tn{other}\n" for one, other in sorted(pairs)))
    return folder / "edges.tsv", folder / "nodes.tsv"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tables(tmp_path_factory.mktemp("graph") / "data")


@pytest.fixture(scope="module")
def run(data: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, foveate: Any) -> Path:
    out = tmp_path_factory.mktemp("runs") / "places"
    said = foveate(
        "train", "node", "--edges", data[0], "--nodes", data[1], "--out", out, *BRIEF, "--set", "train.steps=80"
    )
    assert said.code == 0, said.err
    assert "60 nodes with 7 features" in said.err
    assert "two layers of attention along edges, 8 heads of 8" in said.err or "model: as set" in said.err
    return out


def test_predict_prints_classes_of_nodes_by_name_or_of_all(run: Path, foveate: Any) -> None:
    named = foveate("predict", run, "n5", "n10")
    lines = [line.split("\t") for line in named.out.splitlines()]
    assert [line[:2] for line in lines] == [["n5", "land"], ["n10", "sea"]]
    whole = foveate("predict", run).out.splitlines()
    assert (whole[0], len(whole)) == ("node\tclass\tprobability", 61)
    assert named.out.splitlines()[0] in whole
    header, *rows = (line.split("\t") for line in foveate("predict", run, "--probabilities").out.splitlines())
    assert header == ["node", "land", "sea"]
    assert all(abs(float(one) + float(other) - 1) < 2e-4 for _, one, other in rows)
    assert foveate("predict", run, "n5", "--probabilities").out.split("\t")[1].endswith(" land")


def test_an_unknown_node_does_not_end_the_answers_of_others(run: Path, foveate: Any) -> None:
    said = foveate("predict", run, "n5", "n500", "x", "n10")
    assert said.code == 3
    assert [line.partition("\t")[0] for line in said.out.splitlines()] == ["n5", "", "", "n10"]
    assert "no node 'n500'. Similar names are: n50, n5" in said.err
    assert "no node 'x'. Some names are: n0, n1, n2 and 57 more." in said.err
    assert "2 of 4 inputs could not be read" in said.err


def test_evaluation_is_of_the_test_nodes_and_of_other_graphs(
    run: Path, data: tuple[Path, Path], foveate: Any, tmp_path: Path
) -> None:
    own = foveate("evaluate", run, "--json", "--per-class", "--save", tmp_path / "test.tsv")
    values = json.loads(own.out)
    assert values["accuracy"]["value"] >= 90
    assert "F1 of sea" in values
    assert len((tmp_path / "test.tsv").read_text().splitlines()) == 20
    again = foveate("evaluate", run, "--edges", data[0], "--nodes", data[1], "--json", "--per-class")
    assert again.out == own.out
    assert foveate("evaluate", run, "--report", tmp_path / "test.html").code == 0
    assert "accuracy" in (tmp_path / "test.html").read_text()


def test_the_order_of_nodes_and_an_isolated_node_change_nothing(
    run: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    classifier = NodeClassifier.load(run)
    names = [f"n{node}" for node in range(COUNT)]
    expected = {one.name: one.probabilities for one in classifier.classify(names)}
    order = np.random.default_rng(1).permutation(COUNT)
    for folder, isolated in (("permuted", False), ("larger", True)):
        other = classifier.over_files(*map(str, tables(tmp_path / folder, order=order, isolated=isolated)), note=print)
        for one in other.classify(names):
            for name, share in one.probabilities.items():
                assert abs(share - expected[one.name][name]) < 1e-5


def test_training_on_permuted_nodes_gives_permuted_answers() -> None:
    draw = np.random.default_rng(0)
    graph = Graph(
        features=draw.random((30, 6)),
        edges=np.unique(np.sort(draw.integers(0, 30, (50, 2)), 1), axis=0).T,
        labels=np.arange(30) % 3,
        classes=("a", "b", "c"),
    ).shared(valid=0.2, test=0.2)
    order = draw.permutation(30)
    model = {"kind": "graph_attention", "dropout": 0.0, "attention_dropout": 0.0}
    config = build(SIDE.config, {"model": model, "l2": 1e-3})
    answers = []
    for one in (graph, graph.permuted(order)):
        task = NodeTask(config, one, {})
        optimiser = torch.optim.SGD(task.model.parameters(), lr=0.5)
        for step in range(8):
            loss = task.loss(task.batch(step))
            optimiser.zero_grad()
            (loss.total / loss.count).backward()
            optimiser.step()
        answers.append(task.model(task.whole).detach())
    torch.testing.assert_close(answers[1], answers[0][torch.from_numpy(order)], atol=1e-4, rtol=1e-4)
    assert float((answers[0][0] - answers[0][1]).abs().max()) > 1e-2


@torch.no_grad()
def test_smoothed_labels_are_trained_on_and_not_validated() -> None:
    graph = Graph(
        features=np.eye(6, dtype=np.float32),
        edges=np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]),
        labels=np.arange(6) % 3,
        classes=("a", "b", "c"),
    ).shared(valid=0.3, test=0.3)
    model = {"kind": "graph_attention", "dropout": 0.0, "attention_dropout": 0.0}
    plain, smoothed = (
        NodeTask(build(SIDE.config, {"model": model, "label_smoothing": share}), graph, {}) for share in (0.0, 0.3)
    )
    batch = plain.batch(0)
    logits = plain.model(batch.graph)[batch.targets]
    spread = -logits.log_softmax(-1).mean(-1).sum()
    expected = 0.7 * plain.loss(batch).total + 0.3 * spread
    torch.testing.assert_close(smoothed.loss(smoothed.batch(0)).total, expected)
    assert smoothed.validate() == plain.validate()


def test_a_resumed_run_ends_with_the_same_bits(data: tuple[Path, Path], foveate: Any, tmp_path: Path) -> None:
    start = ("train", "node", "--edges", data[0], "--nodes", data[1], *BRIEF, "--set", "train.save_every=3")
    for name, steps in (("whole", 12), ("parts", 7)):
        assert foveate(*start, "--out", tmp_path / name, "--set", f"train.steps={steps}").code == 0
    said = foveate("resume", tmp_path / "parts", "--set", "train.steps=12", "--no-tune", "--threads", "1")
    assert said.code == 0, said.err
    require_same_bits(tmp_path / "whole", tmp_path / "parts", 12)


def test_a_killed_run_on_samples_goes_on_to_the_same_bits(
    data: tuple[Path, Path], foveate: Any, tmp_path: Path
) -> None:
    sampling = ("--set", "data.sampling.fan_out=[2,2]", "--set", "data.sampling.batch_size=7")
    start = ("train", "node", "--edges", data[0], "--nodes", data[1], *BRIEF, *sampling, "--set", "train.save_every=3")
    words = [*start, "--out", tmp_path / "killed", "--set", "train.steps=100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "foveate", *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stderr=subprocess.DEVNULL,
    )
    checkpoints, until = tmp_path / "killed" / "checkpoints", time.monotonic() + 120
    while not (checkpoints / "step-00000003").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    steps = int(max(path.name for path in checkpoints.glob("step-*")).removeprefix("step-")) + 5
    assert foveate(*start, "--out", tmp_path / "whole", "--set", f"train.steps={steps}").code == 0
    said = foveate("resume", tmp_path / "killed", "--set", f"train.steps={steps}", "--no-tune", "--threads", "1")
    assert said.code == 0, said.err
    require_same_bits(tmp_path / "whole", tmp_path / "killed", steps)


def require_same_bits(one: Path, other: Path, step: int) -> None:
    files = [run / "checkpoints" / f"step-{step:08}" / "model.safetensors" for run in (one, other)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_trace_of_a_node_has_the_weights_of_its_edges_in_the_whole_graph(
    run: Path, foveate: Any, tmp_path: Path
) -> None:
    classifier = NodeClassifier.load(run)
    trace = classifier.trace("n5")
    track = trace.tracks["nodes"]
    assert (track.labels[0], track.focus, track.kind) == ("n5", 0, "nodes")
    assert track.notes is not None
    assert track.notes[0] == "predicted land, is land"
    near = classifier.trace("n5", hops=1)
    neighbours = {one for edge in classifier.graph.edges.T.tolist() if 5 in edge for one in edge}
    assert set(near.tracks["nodes"].labels) == {f"n{one}" for one in neighbours}
    for site, part in zip(trace.sites, near.sites, strict=True):
        for head in range(site.heads):
            rows, small = site.weights(head)[0], part.weights(head)[0]
            assert abs(float(rows[0].sum()) - 1) < 1e-5
            own = [track.labels.index(name) for name in near.tracks["nodes"].labels]
            torch.testing.assert_close(small, rows[own][:, own])
    assert foveate("look", run, "n5").code == 0
    assert foveate("look", run, "--node", "n5", "--hops", "1", "--trace", tmp_path / "node.trace").code == 0
    assert read_trace(tmp_path / "node.trace").tracks["nodes"].labels == near.tracks["nodes"].labels


def test_a_whole_graph_in_one_file_gets_splits_that_its_run_stores(
    data: tuple[Path, Path], foveate: Any, tmp_path: Path
) -> None:
    graph = replace(read_graph_tables(*data), splits={})
    write_graph(graph, tmp_path / "graph.npz")
    said = foveate(
        *(
            "train",
            "node",
            "--edges",
            tmp_path / "graph.npz",
            "--out",
            tmp_path / "run",
            *BRIEF,
            "--set",
            "train.steps=3",
        )
    )
    assert said.code == 0, said.err
    stored = read_graph(tmp_path / "run" / GRAPH)
    assert {name: len(nodes) for name, nodes in stored.splits.items()} == {"train": 36, "valid": 12, "test": 12}
    assert sorted(np.concatenate(list(stored.splits.values())).tolist()) == list(range(COUNT))
    (tmp_path / "run" / GRAPH).write_bytes(b"other")
    assert "is not the file that this model was trained with" in foveate("predict", tmp_path / "run").err


def test_classes_that_cannot_be_learnt_and_missing_edges_are_told_before_training(
    data: tuple[Path, Path], foveate: Any, tmp_path: Path
) -> None:
    (tmp_path / "edges.tsv").write_text("")
    for name, old, new in (("alp", "n2\tsea\tvalid", "n2\talp\tvalid"), ("sea", "land\ttrain", "land\ttest")):
        (tmp_path / f"{name}.tsv").write_text(data[1].read_text().replace(old, new))
    start = ("train", "node", "--edges", tmp_path / "edges.tsv", *BRIEF, "--set", "train.steps=1", "--nodes")
    said = foveate(*start, tmp_path / "alp.tsv", "--out", tmp_path / "run")
    assert said.code == 0, said.err
    assert f"Warning: {tmp_path / 'edges.tsv'} has no edges, so that every node looks at itself only." in said.err
    assert "so that their nodes count as errors: 'alp' (1 node)." in said.err
    refused = foveate(*start, tmp_path / "sea.tsv", "--out", tmp_path / "refused")
    assert refused.code == 3
    assert "all nodes for training have the class 'sea', so there is nothing to learn" in refused.err


def test_features_are_matched_by_name(run: Path, data: tuple[Path, Path], tmp_path: Path) -> None:
    lines = data[1].read_text().replace("wave", "wave storm").splitlines(True)
    (tmp_path / "nodes.tsv").write_text("".join(lines))
    notes = list[str]()
    classifier = NodeClassifier.load(run)
    other = classifier.over_files(str(data[0]), str(tmp_path / "nodes.tsv"), note=notes.append)
    assert notes == [
        f"{data[0]} with {tmp_path / 'nodes.tsv'}: the model does not know 1 word, which are left out: 'storm'."
    ]
    assert other.classify(["n5"])[0].probabilities == pytest.approx(classifier.classify(["n5"])[0].probabilities)
    with pytest.raises(DataError, match="has nodes with 3 features, and the model was trained on 7"):
        classifier.over(Graph(features=np.ones((2, 3)), edges=np.array([[0], [1]])))


def test_the_example_trains_models_and_keeps_their_figures(
    data: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(read_graph_tables(*data), tmp_path / "places.npz")
    program = runpy.run_path(str(Path(__file__).parents[2] / "examples/graphs/nodes.py"))
    words = ["--model", "GAT", "--model", "GCN", "--seeds", "0,1", "--set", "train.steps=5"]
    results = ["--results", str(tmp_path / "results.json")]
    for _ in range(2):  # a second time in the place of the first
        assert program["main"]([str(tmp_path / "places.npz"), str(tmp_path / "runs"), *words, *results]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())["places"]
    assert {name: list(seeds) for name, seeds in rows.items()} == {
        "GAT, train.steps=5": ["0", "1"],
        "GCN, train.steps=5": ["0", "1"],
    }
    assert "| GCN, train.steps=5 |" in capsys.readouterr().out.splitlines()[-1]
    assert len(NodeClassifier.load(tmp_path / "runs/places-GCN-1").classify(["n5"])) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("predict", "RUN", "n500"), "The graph has no node 'n500'. Similar names are: n50, n5"),
        (("predict", "RUN", "--nodes", "x.tsv"), "--nodes goes with --edges"),
        (("evaluate", "RUN", "--data", "x.tsv"), "is not scored with --data. Use --edges."),
        (("evaluate", "RUN", "--nodes", "x.tsv"), "--nodes goes with --edges"),
        (
            ("look", "RUN", "--node", "n5", "--hops", "3"),
            "up to 2 hops away, one for each layer, so that hops cannot be 3",
        ),
        (("look", "RUN", "--node", "n5", "--beam", "2"), "--beam goes with runs that translate"),
        (("export", "RUN", "OUT", "--to", "onnx"), "A model of nodes reads a whole graph"),
        (("train", "node", "--edges", "EDGES", "--out", "OUT"), "nodes need features. Give their table with --nodes"),
        (
            ("train", "node", "--edges", "EDGES", "--nodes", "NODES", "--out", "OUT", "--set", "data.scale=standard"),
            "Words are counted",
        ),
        (
            (
                "train",
                "node",
                "--edges",
                "EDGES",
                "--nodes",
                "NODES",
                "--out",
                "OUT",
                "--set",
                "data.sampling.fan_out=[3]",
            ),
            "fan_out needs a number for each layer of the model, which has 2",
        ),
        (("classify", "RUN", "x"), "is a run of the task node, but this command is for runs of classify"),
    ],
)
def test_refusals(
    run: Path, data: tuple[Path, Path], foveate: Any, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    names = {"RUN": run, "OUT": tmp_path / "out", "EDGES": data[0], "NODES": data[1]}
    said = foveate(*(names.get(word, word) for word in words))
    assert said.code in (2, 3), said
    assert says in said.err.replace("\n", " ")
