"""Training steps of attention over graphs beside PyTorch Geometric: time, and the memory that a step adds.

python benchmarks/graphs.py --cora cora.npz                # 2 minutes of a core; pip install torch-geometric first

A step is everything from features to updated weights: dropout on features and on weights, two layers of attention
(8 heads of 8, then one head for the classes), cross-entropy on the training nodes, backwards, Adam. A layer has 8
heads of 8 over 64 features and gives the sum of its outputs to the backward pass. Both engines have the same edges,
with self-loops, float32, torch's fused Adam and the system's allocator, and take turns step by step in one process.

Graphs: Cora, given as a file, with the 5,278 undirected edges of its citations; `random`, 60,000 nodes and 300,000
edges whose sources follow a power law; `packages`, the dependencies between Debian's packages according to
`apt-cache dumpavail`. Cora's features are sparse for us and dense for the peer, as its own example has them; `cora
(dense)` gives both the dense ones.

Peer's layers: GATConv, GATv2Conv, and TransformerConv without its skip connection for scaled dot products. The first
two add self-loops in each step; giving them edges that contain the loops made them 5 % faster at most.

Memory is what two steps add to the resident set of a process of their own at their peak, beyond graph, features and
model. One thread is timed by the clock of the processor, several by that of the wall, which needs an idle machine.
"""

import argparse
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import race
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, elu

from foveate.attention import GatConfig, GatV2Config, ScaledDot
from foveate.data.graph import Graph
from foveate.data.graph_archive import read_graph
from foveate.data.graph_batch import GraphBatch
from foveate.models.graph_encoder import GraphAttentionConfig
from foveate.nn.graph_layer import GraphAttention
from foveate.nn.neighbourhood import Neighbourhood

HEADS, DIM, WIDTH = 8, 8, 64
SCORES = {"gat": GatConfig(), "gat_v2": GatV2Config(), "dot": ScaledDot()}
PEER = "torch_geometric"
ENGINES = ("foveate", PEER)
NODES, EDGES, CLASSES = 60_000, 300_000, 16


def random_graph() -> Graph:
    """Sources are drawn with probabilities ∝ rank^(−0.7), targets equally: most nodes are seen by few, some by many."""
    generator = np.random.default_rng(0)
    odds = np.arange(1, NODES + 1) ** -0.7
    source = generator.permutation(NODES)[generator.choice(NODES, 2 * EDGES, p=odds / odds.sum())]
    target = generator.integers(NODES, size=2 * EDGES)
    pairs = np.unique(np.stack([source, target])[:, source != target], axis=1)
    chosen = generator.choice(pairs.shape[1], EDGES, replace=False)
    return _labelled(NODES, pairs[:, np.sort(chosen)], generator.integers(CLASSES, size=NODES))


def packages() -> Graph:
    """Debian's packages: each sees those that it depends on. Classes are the sections of the archive."""
    listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    blocks = [dict(re.findall(r"^(Package|Section|Depends): (.*)$", block, re.M)) for block in listed.split("\n\n")]
    known = {block["Package"]: block for block in blocks if "Package" in block}
    number = {name: place for place, name in enumerate(sorted(known))}
    pairs = {
        (number[needed], number[name])
        for name, block in known.items()
        for needed in re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9.+-]*)", block.get("Depends", ""))
        if needed in number and needed != name
    }
    sections = sorted({block.get("Section", "") for block in known.values()})
    labels = np.array([sections.index(known[name].get("Section", "")) for name in sorted(known)])
    return _labelled(len(number), np.array(sorted(pairs)).T, labels)


def _labelled(nodes: int, edges: np.ndarray, labels: np.ndarray) -> Graph:
    features = np.random.default_rng(1).standard_normal((nodes, WIDTH), dtype=np.float32)
    splits, classes = {"train": np.arange(0, nodes, 2)}, tuple(map(str, range(labels.max() + 1)))
    return Graph(features=features, edges=edges, directed=True, labels=labels, classes=classes, splits=splits)


@cache
def graph_of(name: str, path: str) -> Graph:
    if name.startswith("cora"):
        return read_graph(path).normalised()
    return packages() if name == "packages" else random_graph()


Step = Callable[[], None]


class Peer(nn.Module):
    """Two layers as in PyTorch Geometric's own example of GAT."""

    def __init__(self, score: str, width: int, classes: int) -> None:
        super().__init__()
        self.first = peer_layer(score, width, DIM, HEADS, dropout=0.6)
        self.second = peer_layer(score, HEADS * DIM, classes, 1, dropout=0.6)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = elu(self.first(dropout(x, 0.6, self.training), edges))
        return self.second(dropout(x, 0.6, self.training), edges)


def peer_layer(score: str, width: int, dim: int, heads: int, *, dropout: float) -> nn.Module:
    from torch_geometric.nn import GATConv, GATv2Conv, TransformerConv

    settings: dict[str, Any] = {"heads": heads, "concat": heads > 1, "dropout": dropout}
    if score == "dot":
        return TransformerConv(width, dim, root_weight=False, **settings)
    if score == "gat":
        return GATConv(width, dim, **settings)
    return GATv2Conv(width, dim, share_weights=False, **settings)


def _own_layer(score: str) -> GraphAttention:
    return GraphAttention(input_dim=WIDTH, head_dim=DIM, num_heads=HEADS, score=SCORES[score], dropout=0.6)


def stepper(engine: str, case: dict[str, str]) -> Step:
    """What is timed: a training step, or a layer forwards and backwards."""
    torch.manual_seed(0)
    graph = graph_of(case["graph"], case["cora"])
    batch = GraphBatch.of([graph])
    ours = engine == "foveate"
    x = batch.features
    if not isinstance(x, Tensor) and not (ours and case["graph"] == "cora"):
        x = x.dense()
    if case["what"] == "layer":
        x = torch.randn(len(batch), WIDTH).requires_grad_()
    # The peer adds no self-loops to dot products.
    edges = _looped(batch.edges, len(batch)) if case["score"] == "dot" and not ours else batch.edges
    over: Any = Neighbourhood(edges, len(batch)) if ours else edges
    if case["what"] == "layer":
        layer = _own_layer(case["score"]) if ours else peer_layer(case["score"], WIDTH, DIM, HEADS, dropout=0.6)

        def passes() -> None:
            layer.zero_grad()
            layer(x, over).sum().backward()

        return passes
    assert batch.labels is not None
    chosen = torch.from_numpy(graph.splits["train"])
    labels, classes = batch.labels[chosen], int(batch.labels.max()) + 1
    model: nn.Module = (
        GraphAttentionConfig(score=SCORES[case["score"]]).build(graph.width, classes)
        if ours
        else Peer(case["score"], graph.width, classes)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4, fused=True)
    data = GraphBatch(x, edges, batch.graph) if ours else None

    def step() -> None:
        optimiser.zero_grad()
        logits = model(data) if ours else model(x, edges)
        cross_entropy(logits[chosen], labels).backward()
        optimiser.step()

    return step


def _looped(edges: Tensor, nodes: int) -> Tensor:
    own = torch.arange(nodes)
    return torch.cat([edges, torch.stack([own, own])], dim=1)


def _fill(parameter: Tensor, numbers: Tensor) -> None:
    parameter.copy_(numbers.view_as(parameter))


def difference(path: str) -> dict[str, float]:
    """|ours − the peer's|, of the outputs of layers with the same weights on Cora's edges, without dropout."""
    batch, found = GraphBatch.of([read_graph(path)]), {}
    torch.manual_seed(0)
    x = torch.randn(len(batch), WIDTH)
    over = Neighbourhood(batch.edges, len(batch))
    for score in SCORES:
        theirs = peer_layer(score, WIDTH, DIM, HEADS, dropout=0.0).eval()
        ours = _own_layer(score).eval()
        named = dict(theirs.named_parameters())
        with torch.no_grad():
            if score == "gat":
                ours.value.weight.copy_(named["lin.weight"])
                _fill(ours.attention.score.query_vector, named["att_dst"])
                _fill(ours.attention.score.key_vector, named["att_src"])
            elif score == "gat_v2":
                ours.value.load_state_dict({"weight": named["lin_l.weight"], "bias": named["lin_l.bias"]})
                ours.query.load_state_dict({"weight": named["lin_r.weight"], "bias": named["lin_r.bias"]})
                _fill(ours.attention.score.vector, named["att"])
            else:
                for name in ("query", "key", "value"):
                    getattr(ours, name).weight.copy_(named[f"lin_{name}.weight"])
                    named[f"lin_{name}.bias"].zero_()
            edges = _looped(batch.edges, len(batch)) if score == "dot" else batch.edges
            found[score] = float((ours(x, over) - theirs(x, edges)).abs().max())
    return found


def cases(path: str) -> list[dict[str, str]]:
    names = ["step, cora, gat", "step, cora (dense), gat", *(f"step, random, {score}" for score in SCORES)]
    names += ["step, packages, gat", "layer, cora, gat", *(f"layer, random, {score}" for score in SCORES)]
    return [dict(zip(("what", "graph", "score"), name.split(", "), strict=True)) | {"cora": path} for name in names]


def timed(case: dict[str, str], rounds: int, threads: int) -> dict[str, list[float]]:
    """Seconds of the engines' steps, in turns; the first two steps are not counted. The clock is that of the processor
    for one thread, and that of the wall for several, which save waiting and no work.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    steps = {engine: stepper(engine, case) for engine in ENGINES}
    seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for number in range(rounds + 2):
        for engine, step in steps.items():
            start = clock()
            step()
            if number >= 2:
                seconds[engine].append(clock() - start)
    return seconds


def memory(engine: str, case: dict[str, str], threads: int) -> float:
    """MiB of two steps, in a process of its own. A fork of this one would wait for ever for threads that it lacks; the
    server that forks has imported everything and run nothing.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["__main__", f"{PEER}.nn"])
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(_added, engine, case, threads).result()


def _added(engine: str, case: dict[str, str], threads: int) -> float:
    torch.set_num_threads(threads)
    difference(case["cora"])  # what the first use of a library takes is nobody's step
    step = stepper(engine, case)
    before = race.forget_peak()
    step()
    step()
    return (race.resident("VmHWM") - before) / 2**20


def compared(case: dict[str, str], rounds: int, threads: int) -> dict[str, Any]:
    mebibytes = {engine: memory(engine, case, threads) for engine in ENGINES}
    seconds = timed(case, rounds, threads)
    ratios = [theirs / ours for ours, theirs in zip(*seconds.values(), strict=True)]
    return {
        **{name: case[name] for name in ("what", "graph", "score")},
        "ms": {engine: 1000 * statistics.median(each) for engine, each in seconds.items()},
        "times as fast, quartiles": statistics.quantiles(ratios, n=4),
        "MiB": mebibytes,
    }


def row(line: dict[str, Any]) -> list[str]:
    low, middle, high = line["times as fast, quartiles"]
    return [
        f"{line['what']}, {line['graph']}, {line['score']}",
        *(f"{line['ms'][engine]:.1f}" for engine in ENGINES),
        f"{middle:.2f} ({low:.2f}–{high:.2f})",
        *(f"{line['MiB'][engine]:.0f}" for engine in ENGINES),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cora", default="cora.npz", help="the citations as an archive of arrays")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    arguments = parser.parse_args()
    if find_spec(PEER) is None:
        parser.error("PyTorch Geometric is not installed: pip install torch-geometric")
    if not Path(arguments.cora).exists():
        parser.error(f"--cora: {arguments.cora} does not exist")
    torch.set_num_threads(arguments.threads)
    same = difference(arguments.cora)
    print(f"largest difference of outputs: {same}", flush=True)
    lines = []
    for case in cases(arguments.cora):
        if arguments.only in f"{case['what']}, {case['graph']}, {case['score']}":
            lines.append(compared(case, arguments.rounds, arguments.threads))
            print(" | ".join(row(lines[-1])), flush=True)
    header = ["case", "ms: foveate", PEER, "times as fast (quartiles)", "MiB: foveate", PEER]
    print(race.table(header, [row(line) for line in lines]))
    packages_here = {name: version(name) for name in ("torch", "torch-geometric", "numpy")}
    machine = race.machine(arguments.threads) | {"versions": packages_here}
    settings = race.settings(arguments) | {"cora": Path(arguments.cora).name}
    print(race.save("graphs", {"machine": machine, "settings": settings, "difference": same, "cases": lines}))


if __name__ == "__main__":
    main()
