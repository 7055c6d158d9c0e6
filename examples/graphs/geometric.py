"""Trains the GAT of PyTorch Geometric's example `gat.py`, with its settings, on the same graph, split and seeds.

    pip install torch-geometric
    python examples/graphs/geometric.py cora.npz --seeds 0,1,2

Two GATConv layers of 8 × 8 and 1 head, dropout 0.6, Adam with the rate 0.005 and the decay 5e-4, 200 steps; the test
accuracy is that of the step with the best validation accuracy, the first of them. `--steps 1000 --patience 100` trains
as `nodes.py` does.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout, elu
from torch_geometric.nn import GATConv  # type: ignore[import-not-found]

from foveate.data.graph_archive import read_graph
from foveate.data.graph_batch import GraphBatch
from foveate.nn.sparse_vector import SparseVectors

sys.path.append(str(Path(__file__).parents[1]))
from figures import keep, show

RESULTS = Path(__file__).parent / "nodes.json"


class GAT(torch.nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.first = GATConv(width, 8, heads=8, dropout=0.6)
        self.last = GATConv(64, classes, heads=1, concat=False, dropout=0.6)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        hidden = elu(self.first(dropout(x, 0.6, self.training), edges))
        output: Tensor = self.last(dropout(hidden, 0.6, self.training), edges)
        return output


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path, help="the graph, .npz")
    parser.add_argument("--seeds", default="0", help="random starts, such as 0,1,2 (0)")
    parser.add_argument("--steps", type=int, default=200, help="steps (200)")
    parser.add_argument("--patience", type=int, default=None, help="steps without a better validation that end it")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file that keeps the figures (nodes.json)")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    for seed in map(int, arguments.seeds.split(",")):
        figures = trained(arguments.graph, seed, arguments.steps, arguments.patience)
        name = "PyTorch Geometric" + (f", {arguments.steps} steps" if arguments.steps != 200 else "")
        keep(arguments.graph.stem, name, seed, figures, path=arguments.results)
        show(arguments.graph.stem, path=arguments.results)
    return 0


def trained(path: Path, seed: int, steps: int, patience: int | None) -> dict[str, float]:
    """The figures of a run, as `nodes.py` gives them."""
    graph = read_graph(path).normalised()
    batch = GraphBatch.of([graph])
    x = batch.features.dense() if isinstance(batch.features, SparseVectors) else batch.features
    assert batch.labels is not None
    labels, nodes = batch.labels, {name: torch.from_numpy(part) for name, part in graph.splits.items()}
    torch.manual_seed(seed)
    started = time.process_time()
    model = GAT(graph.width, len(graph.classes))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    best = (-1.0, -1.0, 0)
    for step in range(1, steps + 1):
        model.train()
        optimiser.zero_grad()
        cross_entropy(model(x, batch.edges)[nodes["train"]], labels[nodes["train"]]).backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            right = model(x, batch.edges).argmax(1) == labels
        valid, test = (100 * float(right[nodes[name]].float().mean()) for name in ("valid", "test"))
        if valid > best[0]:
            best = valid, test, step
        if patience is not None and step - best[2] >= patience:
            break
    return {
        "accuracy": best[1],
        "valid": best[0],
        "best step": best[2],
        "steps": step,
        "CPU seconds": time.process_time() - started,
    }


if __name__ == "__main__":
    raise SystemExit(main())
