"""Trains AttentiveFP of PyTorch Geometric's example `attentive_fp.py`, with its settings, on the same molecules.

    pip install torch-geometric
    python examples/graphs/attentive.py esol.csv --target "measured log solubility in mols per litre"

Hidden vectors of 200, two layers, two steps of the read-out, dropout 0.2, Adam with the rate 10^−2.5 and the decay
1e-5, batches of 200. Atoms and bonds have the features of this package. The test error is that of the epoch with the
best validation error, and training ends with the processor's seconds that are given. Splits are those of
`molecules.py`.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn.models import AttentiveFP  # type: ignore[import-not-found]

from foveate.config import build
from foveate.data.graph_batch import GraphBatch
from foveate.data.molecule import ATOM_WIDTH, BOND_WIDTH
from foveate.data.molecule_table import MoleculeTable
from foveate.metrics.property_error import mae, rmse
from foveate.tasks.molecule.property_target import Targets
from foveate.tasks.molecule.task import MoleculeConfig, prepared_tables

sys.path.append(str(Path(__file__).parents[1]))
from figures import keep, show

RESULTS = Path(__file__).parent / "molecules.json"
BATCH = 200


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="table of molecules")
    parser.add_argument("--target", required=True, help="the column to predict")
    parser.add_argument("--test", type=Path, help="molecules for the test; none: some of the table")
    parser.add_argument("--split", choices=("random", "scaffold"), default="random")
    parser.add_argument("--seeds", default="0", help="seeds of splits and of models, such as 0,1,2 (0)")
    parser.add_argument("--seconds", type=float, default=60, help="the processor's seconds (60)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file that keeps the figures (molecules.json)")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    table = f"{arguments.data.stem}, {'its test' if arguments.test else arguments.split}"
    for seed in map(int, arguments.seeds.split(",")):
        config = build(
            MoleculeConfig,
            {
                "data": {
                    "data": str(arguments.data),
                    "targets": [arguments.target],
                    "split": arguments.split,
                    "test_share": 0.0 if arguments.test else 0.1,
                },
                "seed": seed,
            },
        )
        tables, _ = prepared_tables(config)
        if arguments.test:
            tables["test"] = config.read(str(arguments.test))
        figures = trained(tables, seed, arguments.seconds)
        keep(table, "PyTorch Geometric, AttentiveFP", seed, figures, path=arguments.results)
        show(table, path=arguments.results)
    return 0


def trained(tables: dict[str, MoleculeTable], seed: int, budget: float) -> dict[str, float]:
    """The figures of a run, as `molecules.py` gives them."""
    targets = Targets.of(tables["train"], "numbers")
    right = targets.standardised(tables["train"].values)
    torch.manual_seed(seed)
    started = time.process_time()
    model = AttentiveFP(ATOM_WIDTH, 200, 1, edge_dim=BOND_WIDTH, num_layers=2, num_timesteps=2, dropout=0.2)
    optimiser = torch.optim.Adam(model.parameters(), lr=10**-2.5, weight_decay=10**-5)
    best: tuple[float, Any] = (float("inf"), None)
    steps = 0
    while time.process_time() - started < budget:
        model.train()
        for numbers in torch.randperm(len(right)).split(BATCH):
            loss = (run(model, tables["train"].chosen(numbers.tolist())) - right[numbers]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            steps += 1
        answers = {part: answered(model, tables[part], targets) for part in ("valid", "test")}
        error = rmse(answers["valid"], tables["valid"].values[:, 0])
        if error < best[0]:
            best = error, answers["test"]
    true = tables["test"].values[:, 0]
    return {
        "RMSE": rmse(best[1], true),
        "MAE": mae(best[1], true),
        "validation": best[0],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "steps": steps,
        "CPU seconds": time.process_time() - started,
    }


def run(model: Any, table: MoleculeTable) -> Tensor:
    batch = GraphBatch.of([molecule.graph for molecule in table.molecules])
    outputs: Tensor = model(batch.features, batch.edges, batch.edge_features, batch.graph)
    return outputs


@torch.no_grad()
def answered(model: Any, table: MoleculeTable, targets: Targets) -> np.ndarray:
    return targets.answers(run(model.eval(), table))[:, 0]


if __name__ == "__main__":
    raise SystemExit(main())
