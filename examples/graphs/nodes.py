"""Trains models over the nodes of a citation graph, from several random starts: GAT, GATv2, another score, GCN, MLP.

    python examples/graphs/nodes.py cora.npz runs/ --seeds 0,1,2

A node is a paper with its words, an edge a citation, a class the paper's subject. Of Cora (2,708 papers) and Citeseer
(3,327) the subjects of 20 papers a class are known, 500 validate, and 1,000 test (Yang et al. 2016). Each model has the
settings of its paper: attention those of Veličković et al. 2018, section 3.3, convolutions and the perceptron those of
Kipf and Welling 2017, section 5.2. Training ends when 200 steps have not brought a better validation, or after
1,000.

The files of these graphs, which are not bundled, are those of the repository kimiyoung/planetoid; save a graph with
`foveate.data.graph_archive.write_graph`. Any other graph that `foveate train node` reads will do, such as those that
`references.py` makes.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from foveate.config import build, override
from foveate.storage.run import create_run
from foveate.tasks.node.side import SIDE
from foveate.tasks.node.use import NodeClassifier
from foveate.tasks.run_plan import Allowance
from foveate.train import fit

sys.path.append(str(Path(__file__).parents[1]))
from figures import keep, show

RESULTS = Path(__file__).parent / "nodes.json"
BASELINE = ("train.learning_rate=0.01",)
MODELS: dict[str, tuple[str, ...]] = {
    "GAT": (),
    "GATv2": ("model.score=gat_v2",),
    "scaled dot": ("model.score=scaled_dot",),
    "GCN": ("model=graph_convolution", *BASELINE),
    "MLP": ("model=node_mlp", *BASELINE),
}
"""Each model with its changes of what `foveate train node` chooses."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path, help="the graph, .npz or .graphml")
    parser.add_argument("out", type=Path, help="folder for runs")
    parser.add_argument("--model", choices=MODELS, action="append", help="train only this; may be repeated")
    parser.add_argument("--seeds", default="0", help="random starts, such as 0,1,2 (0)")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="change a setting of every model")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file that keeps the figures (nodes.json)")
    arguments = parser.parse_args(argv)
    changed = ", ".join(arguments.set)
    for model in arguments.model or MODELS:
        for seed in map(int, arguments.seeds.split(",")):
            place = arguments.out / f"{arguments.graph.stem}-{model.replace(' ', '-')}-{seed}"
            shutil.rmtree(place, ignore_errors=True)
            figures = trained(arguments.graph, place, (*MODELS[model], *arguments.set), seed)
            name = f"{model}, {changed}" if changed else model
            keep(arguments.graph.stem, name, seed, figures, path=arguments.results)
            show(arguments.graph.stem, path=arguments.results)
    return 0


def trained(graph: Path, place: Path, settings: Sequence[str], seed: int) -> dict[str, float]:
    """The figures of a run: accuracy and mean F1 on the test nodes in per cent, steps, and the processor's seconds."""
    files = {"data": {"edges": str(graph.absolute())}}
    suggestion = SIDE.suggest(build(SIDE.run_config, files), Allowance(cores=1))
    suggested = {**suggestion.settings, "data": {**suggestion.settings["data"], **files["data"]}}
    chosen = override(suggested, [*settings, f"seed={seed}", f"train.seed={seed}"])
    config = build(SIDE.run_config, chosen)
    started = time.process_time()
    task = SIDE.prepare(config, place)
    create_run(place, SIDE.entry.name, chosen, task.digests)
    outcome = fit(task, config.train, place)
    seconds = time.process_time() - started
    classifier: NodeClassifier = SIDE.in_use(task)
    accuracy, f1, *_ = classifier.predict(classifier.labelled()).scores()
    return {
        "accuracy": accuracy.value,
        "f1": f1.value,
        "valid": 100 * outcome.best["accuracy"],
        "best step": outcome.best_step,
        "steps": outcome.step,
        "CPU seconds": seconds,
    }


if __name__ == "__main__":
    raise SystemExit(main())
