"""Neighbour sampling beside steps over the whole graph: time and memory of a step, accuracy after as many CPU seconds.

python benchmarks/neighbours.py # 3 minutes of a core

The graph is random, with planted classes: of 1,000,000 edges half join nodes of one of the 16 classes, the others any
two of 100,000 nodes, and the 64 features of a node are noise of deviation 1 around a vector of its class, so weak that
the features alone tell the class of little more than half of the nodes. Half of the nodes are for training, a tenth for
the test. The model is the GAT that `foveate train node` chooses for such a graph, with Adam; each case takes steps
until its seconds are spent, in a process of its own, and the test nodes are answered along all edges, outside of the
seconds.

Memory is what two steps add to the resident set at their peak, beyond graph, features and model.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import race
import torch

from foveate.config import build, override
from foveate.data.graph import Graph
from foveate.data.graph_archive import write_graph
from foveate.tasks.node.side import SIDE
from foveate.tasks.node.task import NodeTask
from foveate.tasks.run_plan import Allowance

NODES, EDGES, CLASSES, WIDTH = 100_000, 1_000_000, 16, 64
WITHIN = 0.5
"""The share of edges that are drawn within a class."""
SIGNAL = 0.25
"""The deviation of the vectors of classes."""
CASES: dict[str, tuple[str, ...]] = {
    "whole graph": (),
    "whole graph, four times the learning rate": ("train.learning_rate=0.02",),
    "512 nodes, fan-out 10 and 10": ("data.sampling.fan_out=[10, 10]",),
    "512 nodes, fan-out 5 and 5": ("data.sampling.fan_out=[5, 5]",),
    "without edges": ("model=node_mlp",),
}
"""Each case with its changes of what `foveate train node` chooses."""


def planted(seed: int = 0) -> Graph:
    generator = np.random.default_rng(seed)
    labels = np.sort(generator.integers(CLASSES, size=NODES))
    first = np.searchsorted(labels, np.arange(CLASSES + 1))
    drawn = EDGES * 11 // 10  # some are drawn twice, or from a node to itself
    one = generator.integers(NODES, size=drawn)
    alike = generator.integers(first[labels[one]], first[labels[one] + 1])
    other = np.where(generator.random(drawn) < WITHIN, alike, generator.integers(NODES, size=drawn))
    pairs = np.unique(np.sort(np.stack([one, other])[:, one != other], axis=0), axis=1)
    kept = np.sort(generator.choice(pairs.shape[1], EDGES, replace=False))
    means = SIGNAL * generator.standard_normal((CLASSES, WIDTH))
    order = generator.permutation(NODES)
    parts = np.split(order, [NODES // 2, NODES * 6 // 10, NODES * 7 // 10])
    return Graph(
        features=(means[labels] + generator.standard_normal((NODES, WIDTH))).astype(np.float32),
        edges=pairs[:, kept],
        labels=labels,
        classes=tuple(map(str, range(CLASSES))),
        splits={name: np.sort(nodes) for name, nodes in zip(("train", "valid", "test"), parts, strict=False)},
    )


def measured(graph: Graph, path: str, changes: tuple[str, ...], seconds: float, marks: int) -> dict[str, Any]:
    """The figures of a case; accuracy in per cent after each of as many equal parts of the seconds."""
    chosen = SIDE.suggest(build(SIDE.run_config, {"data": {"edges": path}}), Allowance(cores=1)).settings
    chosen = {**chosen, "data": {"scale": chosen["data"]["scale"], "edges": path}}  # sampling is what is compared
    config = build(SIDE.run_config, override(chosen, changes))
    task = NodeTask(config, graph, {})
    _ = task.whole
    task.batch(0)
    optimiser = torch.optim.Adam(task.model.parameters(), lr=config.train.learning_rate, fused=True)
    torch.manual_seed(0)

    def step(number: int) -> None:
        batch = task.batch(number)
        loss = task.loss(batch)
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        optimiser.step()

    before = race.forget_peak()
    step(0)
    step(1)
    memory = (race.resident("VmHWM") - before) / 2**20
    times = list[float]()
    accuracies = list[float]()
    for mark in range(1, marks + 1):
        while sum(times) < seconds * mark / marks:
            start = time.process_time()
            step(2 + len(times))
            times.append(time.process_time() - start)
        accuracies.append(accuracy(task))
    return {"ms": 1000 * statistics.median(times), "MiB": memory, "steps": len(times), "accuracy": accuracies}


@torch.no_grad()
def accuracy(task: NodeTask) -> float:
    """Right answers for the test nodes in per cent, along all edges."""
    task.model.eval()
    batch = task.nodes(task.graph.splits["test"])
    right = task.model(batch.graph)[batch.targets].argmax(1) == batch.labels
    task.model.train()
    return 100 * float(right.float().mean())


def apart(*arguments: Any) -> dict[str, Any]:
    """`measured` in a child of this process, so that no case finds memory that another has left."""
    with tempfile.TemporaryFile("w+") as answer:
        child = os.fork()
        if child == 0:
            json.dump(measured(*arguments), answer)
            answer.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("A case has failed. Its message is above.")
        answer.seek(0)
        return json.load(answer)


def row(name: str, line: Mapping[str, Any]) -> list[str]:
    marks = [f"{value:.1f}" for value in line["accuracy"]]
    return [name, f"{line['ms']:.0f}", f"{line['MiB']:.0f}", f"{line['steps']:,}", *marks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30, help="CPU seconds of steps in each case (30)")
    parser.add_argument("--marks", type=int, default=3, help="how often accuracy is measured (3)")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    graph = planted()
    print(graph, flush=True)
    lines = dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "planted.npz")
        write_graph(graph, Path(path))
        for name, changes in CASES.items():
            if arguments.only in name:
                lines[name] = apart(graph, path, changes, arguments.seconds, arguments.marks)
                print(" | ".join(row(name, lines[name])), flush=True)
    marks = [f"% after {arguments.seconds * mark / arguments.marks:.0f} s" for mark in range(1, arguments.marks + 1)]
    print(race.table(["case", "ms a step", "MiB", "steps", *marks], [row(*line) for line in lines.items()]))
    machine = race.machine(arguments.threads) | {"versions": {name: version(name) for name in ("torch", "numpy")}}
    print(race.save("neighbours", {"machine": machine, "settings": race.settings(arguments), "cases": lines}))


if __name__ == "__main__":
    main()
