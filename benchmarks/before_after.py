"""Two source trees side by side: CPU seconds of attention, training, decoding, files and start, and how they changed.

    python benchmarks/before_after.py --before ../before --rounds 8          # against this tree
    python benchmarks/before_after.py --before ../before --only start decode

Processes of both trees take turns, each round in the other order, so that what else runs on the machine meets both.
The number of a case is the median over rounds of after ÷ before, with its quartiles. Only names that users have are
called, so that any two versions can be compared; what a version lacks stops the run.
"""

import argparse
import gc
import json
import lzma
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
VERSES = ROOT / "examples/data/verses.tsv.xz"
Times = dict[str, float]
"""CPU seconds by case."""
SENTENCE = "A man is riding a bicycle ."
STARTS = {
    "import foveate": ("-c", "import foveate"),
    "import foveate.attention": ("-c", "import foveate.attention"),
    "foveate --help": ("-m", "foveate", "--help"),
    "foveate translate en-fr": ("-m", "foveate", "translate", "en-fr", SENTENCE),
}
FEW, MANY = 64, 320
"""The verses of two files. Both are too long to be answered without torch, so that their difference has no start."""
SHAPES = {"8 × 4 × 24 × 32": (8, 4, 24, 32), "1 × 4 × 512 × 64": (1, 4, 512, 64), "1 × 2 × 2048 × 64": (1, 2, 2048, 64)}
"""Batch, heads, length and width of a head."""
WARM, STEPS = 3, 12
SHORT = 2e-3
"""Seconds that are measured at a time, at least."""


def fastest(call: Callable[[], object], *, seconds: float = 0.4) -> float:
    """The least CPU time of a call, over as many as fit into some seconds and at least three; of calls in the
    microseconds, the mean of some at a time.
    """
    call()
    start = time.process_time()
    call()
    often = max(1, int(SHORT / max(time.process_time() - start, 1e-6)))
    times: list[float] = []
    while len(times) < 3 or sum(times) * often < seconds:
        start = time.process_time()
        for _ in range(often):
            call()
        times.append((time.process_time() - start) / often)
    return min(times)


def start() -> Times:
    """Whole processes, from nothing."""
    return {name: _process(words) for name, words in STARTS.items()}


def file() -> Times:
    """`foveate translate` of a file of verses, from nothing, and what its last verses take."""
    words = ("-m", "foveate", "translate", "en-fr", "--threads", "1")
    few, many = (_process(words, "\n".join(_verses(count))) for count in (FEW, MANY))
    return {f"foveate translate, {MANY} verses": many, f"of these, the last {MANY - FEW}": many - few}


def _process(words: Sequence[str], text: str = "") -> float:
    """CPU seconds of a whole process that reads a text."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], input=text, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def attention() -> Times:
    """Attentions that are there already, forwards and with gradients."""
    import torch

    from foveate.attention import Additive, Attention, Positions, ScaledDot, causal, padding, window

    torch.set_num_threads(1)
    times = {}
    for shape, (batch, heads, length, width) in SHAPES.items():
        lengths = torch.arange(length - batch + 1, length + 1)
        at = Positions.of(length, length, key_lengths=lengths)
        sites = {
            "causal": Attention(ScaledDot(), visibility=causal()),
            "padded": Attention(ScaledDot(), visibility=padding()),
            "window": Attention(ScaledDot(), visibility=window(left=16, right=0)),
        }
        if length <= 512:
            sites["additive"] = Attention(Additive(query_dim=width, key_dim=width, hidden_dim=width))
        inputs = [torch.randn(batch, heads, length, width) for _ in range(3)]
        learnt = [each.clone().requires_grad_() for each in inputs]
        for name, site in sites.items():
            with torch.no_grad():
                times[f"{name} {shape}, run"] = fastest(partial(site.run, *inputs, at=at))
            times[f"{name} {shape}, run and backward"] = fastest(partial(_trained, site, learnt, at))
    times["a new shape"] = _new_shapes(Attention(ScaledDot(), visibility=causal()))
    return times


def _trained(site: Any, inputs: list[Any], at: Any) -> None:
    site.run(*inputs, at=at).sum().backward()


def _new_shapes(site: Any) -> float:
    """The mean of calls that each have a shape which was never seen: mostly the choice of a path."""
    import torch

    inputs = [torch.randn(1, 1, length, 16) for length in range(20, 120)]
    gc.collect()  # or a collection of what the other cases left would fall into one tree's calls and not the other's
    start = time.process_time()
    with torch.no_grad():
        for x in inputs:
            site.run(x, x, x)
    return (time.process_time() - start) / len(inputs)


def train() -> Times:
    """Training steps on verses: a Transformer and Bahdanau's model."""
    import torch

    from foveate import BahdanauConfig, TransformerConfig, TranslateConfig, TranslateTask
    from foveate.config import build

    torch.set_num_threads(1)
    times = {}
    with tempfile.TemporaryDirectory() as folder, lzma.open(VERSES, "rt", encoding="utf-8") as verses:
        data = Path(folder, "verses.tsv")
        data.write_text("".join(verses.readlines()[1:1501]), encoding="utf-8")
        for name, model in {"Transformer": TransformerConfig(), "Bahdanau": BahdanauConfig()}.items():
            config = build(TranslateConfig, {"data": {"source": str(data), "columns": [0, 1], "max_tokens": 1024}})
            config = replace(config, model=model)
            torch.manual_seed(0)
            task, _ = TranslateTask.prepare(config, Path(folder, name))
            times[f"step of {name}"] = _steps(task)
    return times


def _steps(task: Any) -> float:
    """CPU seconds of the same steps, each forwards and backwards."""
    task.model.train()
    start = 0.0
    for step in range(WARM + STEPS):
        if step == WARM:
            start = time.process_time()
        loss = task.loss(task.batch(step))
        loss.total.div(loss.count).backward()
    return (time.process_time() - start) / STEPS


def decode() -> Times:
    """The translator that comes with the package: one sentence, several, and a file of verses."""
    import torch

    from foveate import Translator
    from foveate.decode import BeamConfig, GreedyConfig

    torch.set_num_threads(1)
    translator = Translator.load("en-fr")
    many = [f"{SENTENCE[:-1]}with a {thing} ." for thing in ("dog", "child", "red hat", "small blue bag")] * 4
    times = {}
    for name, config in {"greedy": GreedyConfig(), "beam": BeamConfig(beam=4)}.items():
        for count, texts in {"one sentence": [SENTENCE], "16 sentences": many, "64 verses": _verses(64)}.items():
            times[f"{name}, {count}"] = fastest(partial(translator.translate, texts, config=config), seconds=1.0)
    return times


def _verses(count: int) -> list[str]:
    """The first verses in modern English."""
    with lzma.open(VERSES, "rt", encoding="utf-8") as verses:
        return [next(verses).split("\t")[2] for _ in range(count)]


GROUPS: dict[str, Callable[[], Times]] = {
    "start": start,
    "attention": attention,
    "train": train,
    "decode": decode,
    "file": file,
}


def measure(tree: Path, group: str) -> Times:
    """A group of cases in a process that imports a tree."""
    variables = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(HERE), "--child", group], env=variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{tree}: {group} failed.\n{done.stderr}")
    times: Times = json.loads(done.stdout)
    return times


def compare(trees: tuple[Path, Path], groups: list[str], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Before and after of each case, round by round."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for turn in range(rounds):
        for group in groups:
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            taken = {which: measure(trees[which], group) for which in order}
            for name, before in taken[0].items():
                pairs.setdefault(f"{group}: {name}", []).append((before, taken[1][name]))
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
    return pairs


def table(pairs: dict[str, list[tuple[float, float]]]) -> str:
    """A line a case: milliseconds before and after, and the ratio with its quartiles."""
    lines = ["| case | before, ms | after, ms | after ÷ before | quartiles |", "|---|---|---|---|---|"]
    for name, times in pairs.items():
        ratios = sorted(after / before for before, after in times)
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        before, after = (statistics.median(side) * 1e3 for side in zip(*times, strict=True))
        mark = " slower" if low > 1.03 else " faster" if high < 0.97 else ""
        lines.append(f"| {name} | {before:.2f} | {after:.2f} | {middle:.3f}{mark} | {low:.3f}–{high:.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the root of the tree to compare with")
    parser.add_argument("--after", type=Path, default=ROOT, help="the root of the other; by default this one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--child", choices=GROUPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(GROUPS[arguments.child]()))
        return
    if arguments.before is None:
        parser.error("--before is needed: the root of the tree to compare with")
    trees = (arguments.before.resolve(), arguments.after.resolve())
    print(table(compare(trees, arguments.only, arguments.rounds)))


if __name__ == "__main__":
    main()
