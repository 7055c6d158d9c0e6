"""Every attention side by side on sequences that are long for it: accuracy, speed and memory at equal size.

python benchmarks/long_range.py --minutes 50                       # both tables, about an hour
python benchmarks/long_range.py --scale 2 --minutes 2000           # pictures as in the Long Range Arena
python benchmarks/long_range.py --variants transformer linear --tasks path --tables 1 --minutes 5

Four tasks, made by `foveate.data.synthetic`: list operations, byte-level opinions, pictures of shapes pixel by pixel,
and dashed curves. One classifier for all: embeddings with sinusoidal positions, encoder blocks, the mean over tokens,
two layers. Variants differ in `encoder_attention` alone; all see the same batches in the same order, and as many.

Table 1 is test accuracy. Table 2 is training steps in a second of CPU time on texts of one length, a quarter of the
batch (variants take turns, twice; the faster counts), and what a step adds to the peak memory of a fresh process
that has loaded and built everything. Everything runs under the switches that `foveate train` chooses. Tables
as in Tay et al. 2021 (Long Range Arena), tables 1 and 2.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import race
import torch
from torch import Tensor, nn

from foveate import machine
from foveate.attention import AnyMechanismConfig, AttentionConfig, Positions
from foveate.attention.efficient import (
    BigbirdConfig,
    LinearConfig,
    LinformerConfig,
    LocalBlockConfig,
    LongformerConfig,
    PerformerConfig,
    ReformerConfig,
    SinkhornConfig,
    SparseConfig,
    SynthesizerConfig,
)
from foveate.data.batch import Batch
from foveate.data.synthetic import LIST_TOKENS, Labelled, curves, list_operations, opinions, shapes
from foveate.nn import BlockConfig, EncoderBlock, RANConfig, RANEncoder, SinusoidalConfig
from foveate.nn.packing import Packing

TRAINING, TESTING = 0, 1_000_003
"""Seeds of the examples: what is tested on was never trained on."""


@dataclass(frozen=True)
class Size:
    """One size for all variants."""

    scale: float
    batch: int = 16
    heads: int = 4
    tested: int = 512

    @property
    def layers(self) -> int:
        return max(1, round(2 * self.scale))

    @property
    def model_dim(self) -> int:
        return max(32, 32 * round(2 * self.scale))

    @property
    def length(self) -> int:
        """Of pictures and texts: 256 at 1, 1,024 at 2."""
        return (round(16 * self.scale)) ** 2


@dataclass(frozen=True)
class Task:
    name: str
    vocab: int
    classes: int
    longest: int
    make: Callable[[int, int], Iterator[Labelled]]
    """count, seed → examples"""


def tasks(size: Size) -> dict[str, Task]:
    side, longest = math.isqrt(size.length), size.length

    def lists(count: int, seed: int) -> Iterator[Labelled]:
        depth = 4 if longest < 500 else 10
        return list_operations(count, seed=seed, shortest=longest // 4, longest=longest, depth=depth)

    made = [
        Task("ListOps", len(LIST_TOKENS) + 1, 10, longest, lists),
        Task("Text", 257, 2, longest, lambda count, seed: opinions(count, seed=seed, longest=longest)),
        Task("Image", 33, 10, longest, lambda count, seed: shapes(count, seed=seed, side=side, levels=32)),
        Task("Path", 4, 2, longest, lambda count, seed: curves(count, seed=seed, side=side, length=0.9)),
    ]
    return {task.name.lower(): task for task in made}


Variant = AnyMechanismConfig | RANConfig


def variants(longest: int) -> dict[str, Variant]:
    """Settings in proportion to the length, as the Long Range Arena's: blocks of 1/8, mixtures 1/8 of the length."""
    part = max(8, longest // 8)
    return {
        "transformer": AttentionConfig(),
        "local": LocalBlockConfig(block=part),
        "sparse": SparseConfig(block=part, summaries=max(1, part // 8)),
        "longformer": LongformerConfig(window=2 * (part // 2), tokens=1),
        "linformer": LinformerConfig(max_length=longest, projected_length=part),
        "reformer": ReformerConfig(buckets=8, rounds=1, chunk=part),
        "sinkhorn": SinkhornConfig(block=part),
        "synthesizer": SynthesizerConfig(form="factorised", max_length=longest),
        "bigbird": BigbirdConfig(block=max(4, part // 4), random=2),
        "linear": LinearConfig(),
        "performer": PerformerConfig(num_features=64),
        "ran": RANConfig(window=part, residual=True, dropout=0.0),
    }


class Classifier(nn.Module):
    """Embeddings + positions → encoder blocks, or a recurrent attention network → mean over tokens → two layers."""

    def __init__(self, task: Task, size: Size, attention: Variant) -> None:
        super().__init__()
        dim = size.model_dim
        self.embedding = nn.Embedding(task.vocab, dim)
        self.position = SinusoidalConfig().build(dim)
        self.blocks, self.network = nn.ModuleList(), None
        if isinstance(attention, RANConfig):
            sized = replace(attention, model_dim=dim, num_heads=size.heads, head_dim=dim // size.heads)
            self.network = RANEncoder(replace(sized, num_layers=size.layers))
        else:
            block = BlockConfig(
                model_dim=dim,
                num_heads=size.heads,
                feedforward_dim=2 * dim,
                norm="pre",
                dropout=0.0,
                encoder_attention=attention,
            )
            self.blocks.extend(EncoderBlock(block) for _ in range(size.layers))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, task.classes))

    def forward(self, batch: Batch) -> Tensor:
        packing = Packing(batch.lengths, batch.length)
        x = self.embedding(packing.pack(batch.ids)) + self.position(packing.place)
        at = replace(Positions.of(batch.length, batch.length, key_lengths=batch.lengths), zeroed=True)
        for block in self.blocks:
            x = block(x, at=at, packing=packing)
        x = x if self.network is None else self.network(x, packing=packing)
        return self.head(packing.unpack(x).sum(1) / batch.lengths[:, None])


class Trainer:
    """A classifier that learns, step by step, from examples nobody sees twice."""

    def __init__(self, task: Task, size: Size, attention: Variant) -> None:
        torch.manual_seed(0)
        self.model = Classifier(task, size, attention)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.01)
        self.done, self.warm_up = 0, 50

    def step(self, batch: Batch, labels: Tensor) -> float:
        self.done += 1
        for group in self.optimiser.param_groups:
            group["lr"] = 1e-3 * min(1.0, self.done / self.warm_up)
        self.optimiser.zero_grad()
        loss = nn.functional.cross_entropy(self.model(batch), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        return float(loss.detach())

    @torch.no_grad()
    def accuracy(self, examples: list[Labelled], size: int) -> float:
        right = 0
        for start in range(0, len(examples), size):
            batch, labels = collated(examples[start : start + size])
            right += int((self.model(batch).argmax(-1) == labels).sum())
        return 100 * right / len(examples)


def collated(examples: list[Labelled]) -> tuple[Batch, Tensor]:
    return Batch.of([example.ids for example in examples]), torch.tensor([example.label for example in examples])


def learn(task: Task, size: Size, names: list[str], minutes: float) -> dict[str, dict[str, float]]:
    """All variants on one task: they take turns, a step each, until the time is over; then they are tested."""
    known = variants(task.longest)
    trainers = {name: Trainer(task, size, known[name]) for name in names}
    spent = dict.fromkeys(names, 0.0)
    examples = task.make(10**9, TRAINING)
    started, steps = time.monotonic(), 0
    while time.monotonic() - started < 60 * minutes:
        batch, labels = collated(list(islice(examples, size.batch)))
        for name, trainer in trainers.items():
            begun = time.process_time()
            trainer.step(batch, labels)
            spent[name] += time.process_time() - begun
        steps += 1
    tests = list(task.make(size.tested, TESTING))
    common = max(sum(example.label == label for example in tests) for label in range(task.classes)) / len(tests)
    found = {}
    for name, trainer in trainers.items():
        found[name] = {
            "accuracy": trainer.accuracy(tests, size.batch),
            "steps": steps,
            "steps_per_second": steps / spent[name],
            "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
            "most_common_class": 100 * common,
        }
        print(f"{task.name:8} {name:12} {found[name]['accuracy']:5.1f} % after {steps} steps", flush=True)
    return found


def measure(name: str, size: Size, lengths: list[int], rounds: int) -> list[dict[str, float]]:
    """In a process of its own: seconds and added memory of a training step, shorter sequences first."""
    found = []
    for length in lengths:
        task = Task("Text", 257, 2, length, lambda count, seed: iter(()))
        trainer = Trainer(task, size, variants(length)[name])
        ids = torch.randint(1, 257, (size.batch, length))
        batch = Batch(ids, torch.full((size.batch,), length), ids.numel())
        labels = torch.randint(0, 2, (size.batch,))
        before, times = race.forget_peak(), []
        for _ in range(1 + rounds):
            begun = time.process_time()
            trainer.step(batch, labels)
            times.append(time.process_time() - begun)
        found.append({"seconds": min(times[1:]), "megabytes": (race.resident("VmHWM") - before) / 1e6})
    return found


def apart(name: str, size: Size, lengths: list[int], rounds: int) -> list[dict[str, float]]:
    """`measure` in a fresh process for every length: a peak never falls, so one length must not hide behind another."""
    found = []
    for length in lengths:
        asked = {"name": name, "scale": size.scale, "batch": size.batch, "length": length, "rounds": rounds}
        command = [sys.executable, __file__, "--worker", json.dumps(asked)]
        command += ["--threads", str(torch.get_num_threads())]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found.append(json.loads(answer.splitlines()[-1]))
    return found


def first_table(results: dict[str, dict[str, dict[str, float]]], names: list[str]) -> str:
    rows = []
    for name in names:
        accuracies = [results[task][name]["accuracy"] for task in results]
        rows.append([name, *(f"{value:.2f}" for value in (*accuracies, sum(accuracies) / len(accuracies)))])
    common = [next(iter(of_task.values()))["most_common_class"] for of_task in results.values()]
    rows.append(["(commonest class)", *(f"{value:.2f}" for value in (*common, sum(common) / len(common)))])
    return race.table(["model", *results, "Avg"], rows)


def second_table(costs: dict[str, list[dict[str, float]]], lengths: list[int]) -> str:
    base = next(iter(costs.values()))
    rows = []
    for name, of_lengths in costs.items():
        speeds = [
            f"{1 / cost['seconds']:.2f} ({other['seconds'] / cost['seconds']:.1f})"
            for cost, other in zip(of_lengths, base, strict=True)
        ]
        rows.append([name, *speeds, *(f"{cost['megabytes']:.0f}" for cost in of_lengths)])
    return race.table(["model", *(f"steps/s {n}" for n in lengths), *(f"MB {n}" for n in lengths)], rows)


def costs_of(names: list[str], size: Size, lengths: list[int], rounds: int) -> dict[str, list[dict[str, float]]]:
    """Two goes round all variants; the faster one counts."""
    best: dict[str, list[dict[str, float]]] = {}
    for _ in range(2):
        for name in names:
            new = apart(name, size, lengths, rounds)
            old = best.get(name, new)
            best[name] = [min(pair, key=lambda cost: cost["seconds"]) for pair in zip(old, new, strict=True)]
    return best


def main() -> None:
    arguments = parser().parse_args()
    torch.set_num_threads(arguments.threads)
    machine.tune()
    if arguments.worker:
        job = json.loads(arguments.worker)
        size = Size(job["scale"], batch=job["batch"])
        print(json.dumps(measure(job["name"], size, [job["length"]], job["rounds"])[0]))
        return
    size = Size(arguments.scale, batch=arguments.batch)
    known = tasks(size)
    asked = {"machine": race.machine(arguments.threads), "settings": race.settings(arguments)}
    if 1 in arguments.tables:
        share = arguments.minutes / len(arguments.tasks)
        learnt = {known[task].name: learn(known[task], size, arguments.variants, share) for task in arguments.tasks}
        print(f"\nTable 1: accuracy, %\n\n{first_table(learnt, arguments.variants)}\n")
        print(race.save("long-range-accuracy", {**asked, "learnt": learnt}), flush=True)
    if 2 in arguments.tables:
        lengths = [size.length * factor for factor in (1, 2, 3, 4)]
        costs = costs_of(arguments.variants, replace(size, batch=max(1, size.batch // 4)), lengths, 2)
        print(
            f"Table 2: training steps per CPU second (ratio to the first), and MB\n\n{second_table(costs, lengths)}\n"
        )
        print(race.save("long-range-cost", {**asked, "lengths": lengths, "costs": costs}))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--minutes", type=float, default=50.0, help="of training in table 1, for all tasks and variants")
    made.add_argument("--scale", type=float, default=1.0, help="lengths grow with its square, width and depth with it")
    made.add_argument("--batch", type=int, default=16)
    made.add_argument("--threads", type=int, default=torch.get_num_threads())
    made.add_argument("--tasks", nargs="+", default=list(tasks(Size(1.0))), choices=list(tasks(Size(1.0))))
    made.add_argument("--variants", nargs="+", default=list(variants(64)), choices=list(variants(64)))
    made.add_argument("--tables", nargs="+", type=int, default=[1, 2], choices=(1, 2))
    made.add_argument("--worker", help=argparse.SUPPRESS)
    return made


if __name__ == "__main__":
    main()
