"""CPU time of training in one process in two source trees, side by side: what a change of the loop costs.

    python benchmarks/fit_cost.py --before ../before --chunks 100
    python benchmarks/fit_cost.py --before ../before --chunks 12 --width 384 --tokens 4096 --precision bfloat16

A process of each tree trains a small translator of verses by `fit` (one thread, one batch of at most `--tokens` an
update), and the two take turns after every few updates, the first one changing, so that both meet the machine in the
same state. The number is the median over the turns of after ÷ before, in CPU seconds, with the 95 % interval of the
median.
"""

import argparse
import json
import lzma
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import race

ROOT = Path(__file__).resolve().parents[1]
WARM, CHUNK = 5, 4
"""Updates before the first turn, and of a turn."""


class Turns:
    """The progress of `fit`, which waits for its turn after every few updates, and reports their CPU seconds."""

    def __init__(self) -> None:
        self.began = 0.0

    def advance(self, step: int, loss: float) -> None:
        if step < WARM or (step - WARM) % CHUNK:
            return
        print(time.process_time() - self.began, flush=True)
        sys.stdin.readline()
        self.began = time.process_time()

    def begin(self, step: int, steps: int, seconds: float | None) -> None: ...
    def row(self, row: object) -> None: ...
    def note(self, sentence: str) -> None: ...
    def tell(self, sentence: str) -> None: ...
    def end(self) -> None: ...


def train(chunks: int, width: int, tokens: int, precision: Any) -> None:
    """Trains in the tree that PYTHONPATH names."""
    import torch

    from foveate import TranslateConfig, TranslateTask
    from foveate.config import build
    from foveate.train import TrainConfig, fit

    torch.set_num_threads(1)
    last = WARM + CHUNK * chunks
    with tempfile.TemporaryDirectory() as folder, lzma.open(ROOT / "examples/data/verses.tsv.xz", "rt") as verses:
        data = Path(folder, "verses.tsv")
        data.write_text("".join(verses.readlines()[1:1501]), encoding="utf-8")
        model = {"kind": "transformer", "encoder_layers": 2, "decoder_layers": 2, "block": {"model_dim": width}}
        settings = {"data": {"source": str(data), "columns": [0, 1], "max_tokens": tokens}, "model": model}
        task, _ = TranslateTask.prepare(build(TranslateConfig, settings), Path(folder, "run"))
        recipe = TrainConfig(
            steps=last + 1, validate_every=last + 1, save_every=last + 1, log_every=10, precision=precision
        )
        fit(task, recipe, Path(folder, "run"), progress=Turns())


def start(tree: Path, options: list[str]) -> subprocess.Popen[str]:
    variables = {**os.environ, "PYTHONPATH": str(tree.resolve() / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", *options]
    return subprocess.Popen(
        command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def turn(process: subprocess.Popen[str]) -> float:
    """CPU seconds of the next updates."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the other tree")
    parser.add_argument("--chunks", type=int, default=100, help=f"turns of {CHUNK} updates for each tree")
    parser.add_argument("--width", type=int, default=64, help="of the model (64)")
    parser.add_argument("--tokens", type=int, default=1024, help="the most of a batch (1,024)")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help="(float32)")
    parser.add_argument("--out", type=Path, metavar="JSON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        train(arguments.chunks, arguments.width, arguments.tokens, arguments.precision)
        return
    if arguments.before is None:
        parser.error("--before names the tree to compare with")
    options = [f"--{name}={getattr(arguments, name)}" for name in ("chunks", "width", "tokens", "precision")]
    before, after = (start(tree, options) for tree in (arguments.before, ROOT))
    for process in (before, after):
        assert process.stdout
        process.stdout.readline()
    ratios = []
    for number in range(arguments.chunks):
        pair = (before, after) if number % 2 else (after, before)
        times = {process: turn(process) for process in pair}
        ratios.append(times[after] / times[before])
    for process in (before, after):
        process.kill()  # in its turn it would wait for the next one
        process.wait()
    low, high = interval(ratios)
    middle = statistics.median(ratios)
    result = {"machine": race.machine(1), "after ÷ before": ratios, "median": middle, "95 %": [low, high]}
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{len(ratios)} turns of {CHUNK} updates, after ÷ before: {middle:.4f} ({low:.4f} to {high:.4f})")


def interval(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median, from order statistics."""
    ordered, reach = sorted(values), 0.98 * math.sqrt(len(values))
    first = max(math.floor(len(values) / 2 - reach), 0)
    return ordered[first], ordered[-1 - first]


if __name__ == "__main__":
    main()
