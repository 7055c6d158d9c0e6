"""CPU time of training in one process in two source trees, side by side: what a change of the loop costs.

    python benchmarks/fit_cost.py --before ../before --rounds 8

Processes of both trees take turns, each round in the other order. Each trains a small translator of verses by `fit`
(one thread, one batch of at most 1,024 tokens an update) and reports the CPU seconds of its updates; the number is the
median over rounds of after ÷ before, with its quartiles.
"""

import argparse
import json
import lzma
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WARM, STEPS = 5, 40


class Clock:
    """The progress of `fit`, which takes the CPU time after the first updates and after the last one."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def advance(self, step: int, loss: float) -> None:
        if step in (WARM, WARM + STEPS):
            self.times.append(time.process_time())

    def begin(self, step: int, steps: int, seconds: float | None) -> None: ...
    def row(self, row: object) -> None: ...
    def note(self, sentence: str) -> None: ...
    def tell(self, sentence: str) -> None: ...
    def end(self) -> None: ...


def seconds() -> float:
    """CPU seconds of the updates in the tree that PYTHONPATH names."""
    import torch

    from foveate import TranslateConfig, TranslateTask
    from foveate.config import build
    from foveate.train import TrainConfig, fit

    torch.set_num_threads(1)
    clock, last = Clock(), WARM + STEPS
    with tempfile.TemporaryDirectory() as folder, lzma.open(ROOT / "examples/data/verses.tsv.xz", "rt") as verses:
        data = Path(folder, "verses.tsv")
        data.write_text("".join(verses.readlines()[1:1501]), encoding="utf-8")
        model = {"kind": "transformer", "encoder_layers": 2, "decoder_layers": 2, "block": {"model_dim": 64}}
        settings = {"data": {"source": str(data), "columns": [0, 1], "max_tokens": 1024}, "model": model}
        task, _ = TranslateTask.prepare(build(TranslateConfig, settings), Path(folder, "run"))
        train = TrainConfig(steps=last, validate_every=last, save_every=last, log_every=10)
        fit(task, train, Path(folder, "run"), progress=clock)
    return clock.times[1] - clock.times[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the other tree")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--out", type=Path, metavar="JSON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(seconds())
        return
    if arguments.before is None:
        parser.error("--before names the tree to compare with")
    trees, ratios = [arguments.before, ROOT], []
    for number in range(arguments.rounds):
        times = {}
        for tree in trees if number % 2 else reversed(trees):
            variables = {**os.environ, "PYTHONPATH": str(Path(tree).resolve() / "src"), "OMP_NUM_THREADS": "1"}
            command = [sys.executable, str(Path(__file__).resolve()), "--child"]
            done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
            times[tree] = float(done.stdout)
        ratios.append(times[ROOT] / times[arguments.before])
    low, middle, high = statistics.quantiles(ratios, n=4)
    if arguments.out:
        arguments.out.write_text(json.dumps({"after ÷ before": ratios, "rounds": arguments.rounds}) + "\n")
    print(f"{STEPS} updates by fit, after ÷ before: {middle:.3f} ({low:.3f}–{high:.3f}, {arguments.rounds} rounds)")


if __name__ == "__main__":
    main()
