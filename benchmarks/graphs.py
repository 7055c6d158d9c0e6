"""Training steps of attention over graphs beside PyTorch Geometric: time, and the memory that a step adds.

python benchmarks/graphs.py --cora cora.npz                # 10 minutes; pip install torch-geometric for the peer

A step is everything from features to updated weights: dropout on features and on weights, two layers of attention
(8 heads of 8, then one head for the classes), cross-entropy on the training nodes, backwards, Adam. A layer has 8 heads
of 8 over 64 features and gives the sum of its outputs to the backward pass. Both engines have the same edges, self-loops
included, float32, torch's fused Adam and the system's allocator, and take turns step by step in one process.

Graphs: Cora, given as a file, with the 5,278 undirected edges of its citations; `random`, 60,000 nodes and 300,000 edges
whose sources follow a power law; `packages`, the dependencies between Debian's packages according to
`apt-cache dumpavail`. Cora's features are sparse for us and dense for the peer, as its own example has them; `cora
(dense)` gives both the dense ones.

Peer's layers: GATConv, GATv2Conv, and TransformerConv without its skip connection for scaled dot products; `loops
beforehand` gives it edges that contain the self-loops, which it otherwise adds in each layer and step.

Memory is what two steps add to the resident set of a fresh process at their peak, beyond graph, features and model.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
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
ENGINES = ("foveate", PEER, f"{PEER}, loops beforehand")
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


def graph_of(name: str, path: str) -> Graph:
    return (
        read_graph(path).normalised()
        if name.startswith("cora")
        else packages()
        if name == "packages"
        else random_graph()
    )


Step = Callable[[], None]


class Peer(nn.Module):
    """Two layers as in PyTorch Geometric's own example of GAT."""

    def __init__(self, score: str, width: int, classes: int, *, loops: bool) -> None:
        super().__init__()
        self.first = peer_layer(score, width, DIM, HEADS, dropout=0.6, loops=loops)
        self.second = peer_layer(score, HEADS * DIM, classes, 1, dropout=0.6, loops=loops)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = elu(self.first(dropout(x, 0.6, self.training), edges))
        return self.second(dropout(x, 0.6, self.training), edges)


def peer_layer(score: str, width: int, dim: int, heads: int, *, dropout: float, loops: bool) -> nn.Module:
    from torch_geometric.nn import GATConv, GATv2Conv, TransformerConv

    settings: dict[str, Any] = {"heads": heads, "concat": heads > 1, "dropout": dropout}
    if score == "dot":
        return TransformerConv(width, dim, root_weight=False, **settings)
    if score == "gat":
        return GATConv(width, dim, add_self_loops=loops, **settings)
    return GATv2Conv(width, dim, add_self_loops=loops, share_weights=False, **settings)


def _own_layer(score: str) -> GraphAttention:
    return GraphAttention(input_dim=WIDTH, head_dim=DIM, num_heads=HEADS, score=SCORES[score], dropout=0.6)


def stepper(engine: str, case: dict[str, str]) -> Step:
    """What is timed: a training step, or a layer forwards and backwards."""
    torch.manual_seed(0)
    graph = graph_of(case["graph"], case["cora"])
    batch = GraphBatch.of([graph])
    ours = engine == "foveate"
    features = batch.features
    if isinstance(features, Tensor) or (ours and case["graph"] == "cora"):
        x = features
    else:
        x = features.dense()
    if case["what"] == "layer":
        x = torch.randn(len(batch), WIDTH).requires_grad_()
    # The peer adds no self-loops to dot products, and where they are part of the edges.
    loops = case["score"] != "dot" and "beforehand" not in engine
    edges = batch.edges if ours or loops else _looped(batch.edges, len(batch))
    over: Any = Neighbourhood(edges, len(batch)) if ours else edges
    if case["what"] == "layer":
        layer = (
            _own_layer(case["score"])
            if ours
            else peer_layer(case["score"], WIDTH, DIM, HEADS, dropout=0.6, loops=loops)
        )

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
        else Peer(case["score"], graph.width, classes, loops=loops)
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
        theirs = peer_layer(score, WIDTH, DIM, HEADS, dropout=0.0, loops=True).eval()
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


def work(question: dict[str, Any]) -> None:
    """A worker's life: one case, or the memory of one engine in one case."""
    torch.set_num_threads(question["threads"])
    if question["policy"] == "tuned allocator":
        race.tuned_allocator()
    if "memory" in question:
        case = question["case"]
        stepper(question["memory"], case | {"what": "layer", "graph": "cora"})()  # imports and kernels
        step = stepper(question["memory"], case)
        before = race.forget_peak()
        step()
        step()
        print(json.dumps({"MiB": (race.resident("VmHWM") - before) / 2**20}))
        return

    def build(name: str) -> race.Engine:
        step = stepper(name, question["case"])

        def engine(times: int) -> dict[str, Any]:
            for _ in range(times):
                step()
            return {"units": times}

        return engine

    race.serve(build)


def timed(case: dict[str, str], threads: int, policy: str, rounds: int) -> dict[str, race.Reading]:
    worker = race.Worker(__file__, policy, {"threads": threads, "case": case})
    times = 5 if case["graph"] == "cora" else 1
    try:
        return race.race(
            {engine: (worker, engine) for engine in ENGINES}, [times] * rounds, warm_up=2, say=lambda sentence: None
        )
    finally:
        worker.close()


def memory(engine: str, case: dict[str, str], policy: str) -> float:
    question = json.dumps({"memory": engine, "case": case, "threads": 1, "policy": policy})
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--worker", question], capture_output=True, text=True, check=True
    )
    return float(json.loads(answer.stdout.splitlines()[-1])["MiB"])


def quartiles(ours: race.Reading, other: race.Reading, clock: str) -> list[float]:
    """Of the rounds' ratios: how many times as fast we are."""
    ratios = [theirs / own for own, theirs in zip(getattr(ours, clock), getattr(other, clock), strict=True)]
    return statistics.quantiles(ratios, n=4)


def compared(case: dict[str, str], arguments: argparse.Namespace, policy: str) -> dict[str, Any]:
    line: dict[str, Any] = {name: case[name] for name in ("what", "graph", "score")} | {"policy": policy}
    for threads in arguments.threads:
        clock = "cpu" if threads == 1 else "wall"
        readings = timed(case, threads, policy, arguments.rounds)
        line[f"ms, {threads} threads"] = {name: 1000 / one.rate(clock) for name, one in readings.items()}
        line[f"times as fast, {threads} threads"] = {
            name: quartiles(readings["foveate"], one, clock) for name, one in readings.items() if name != "foveate"
        }
    line["MiB"] = {engine: memory(engine, case, policy) for engine in ENGINES}
    return line


def row(line: dict[str, Any], threads: list[int]) -> list[str]:
    cells = [f"{line['what']}, {line['graph']}, {line['score']}"]
    for count in threads:
        times, ratios = line[f"ms, {count} threads"], line[f"times as fast, {count} threads"]
        cells.append(" / ".join(f"{times[engine]:.1f}" for engine in ENGINES if engine in times))
        cells.append(" / ".join(f"{middle:.2f} ({low:.2f}–{high:.2f})" for low, middle, high in ratios.values()))
    cells.append(" / ".join(f"{line['MiB'][engine]:.1f}" for engine in ENGINES))
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cora", default="cora.npz", help="the citations as an archive of arrays")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--policy", default="as it comes", choices=["as it comes", "tuned allocator"])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(json.loads(arguments.worker))
        return
    arguments.cora = str(Path(arguments.cora).resolve())
    lines = []
    same = difference(arguments.cora)
    print(f"largest difference of outputs: {same}", flush=True)
    header = ["case"]
    for count in arguments.threads:
        header += [f"ms, {count} threads: {' / '.join(ENGINES)}", "times as fast (quartiles)"]
    header.append("MiB")
    for case in cases(arguments.cora):
        if arguments.only in f"{case['what']}, {case['graph']}, {case['score']}":
            lines.append(compared(case, arguments, arguments.policy))
            print(" | ".join(row(lines[-1], arguments.threads)), flush=True)
    print(race.table(header, [row(line, arguments.threads) for line in lines]))
    machine = race.machine(max(arguments.threads))
    settings = race.settings(arguments) | {"cora": Path(arguments.cora).name}
    print(race.save("graphs", {"machine": machine, "settings": settings, "difference": same, "cases": lines}))


if __name__ == "__main__":
    main()
