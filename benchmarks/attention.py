"""Every way to execute an attention beside the usual ones, on the same work: time, peak memory, growth with the length.

python benchmarks/attention.py --threads 1                                # an hour or more
python benchmarks/attention.py --work additive window --sizes 256 1024 --dtypes float32
python benchmarks/attention.py --device cuda

Each row of a work computes the same numbers (checked first). Variants take turns in one process; the fastest of the
rounds counts. Memory is what one call adds to the peak of a fresh process, or of what is allocated on the GPU. On a GPU
a last table says what part of a limit Foveate reaches: for additive scores the instructions that a tanh takes at least,
for dot products the faster of SDPA and FlexAttention.
"""

import argparse
import math
import os
import statistics
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import race
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from foveate import machine
from foveate.attention import Additive, Alibi, Attention, Positions, causal, padding, window
from foveate.attention.visibility import Visibility

Run = Callable[[], Tensor]
LONGEST, LARGEST = 20.0, 8e9
"""Seconds and bytes beyond which a variant is not tried at the next size."""
ENOUGH = 2.0
"""Seconds after which a variant takes no further turns."""
FORWARD, BACKWARD = 32, 17
"""tanh(a + b) a multiprocessor can do in a cycle when two share a reciprocal (16 of those, 128 multiply-adds a cycle),
and with both gradients from one pass."""
CLOCK = 1.8e9
"""Cycles a second, where the driver does not tell."""


@dataclass(frozen=True)
class Shape:
    batch: int
    heads: int
    dim: int


@dataclass(frozen=True)
class Work:
    """One attention at every length, and who computes it."""

    shape: Shape
    """At length 256; the batch shrinks as the length grows, so that a step stays small."""
    variants: Callable[[Shape, int, torch.dtype, bool, str], Mapping[str, Run]]
    about: str

    def at(self, length: int) -> Shape:
        return Shape(max(1, self.shape.batch * 256 // length), self.shape.heads, self.shape.dim)


def inputs(shape: Shape, length: int, dtype: torch.dtype, training: bool, device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)
    size = (shape.batch, shape.heads, length, shape.dim)
    return [torch.randn(size, generator=generator).to(device, dtype).requires_grad_(training) for _ in range(3)]


def dots(rule: Visibility | None, bias: Any = None) -> Callable[..., dict[str, Run]]:
    """Softmax attention under a rule: ours by every accepting path, and the others."""

    def variants(shape: Shape, length: int, dtype: torch.dtype, training: bool, device: str) -> dict[str, Run]:
        query, key, value = inputs(shape, length, dtype, training, device)
        attention = Attention(visibility=rule, bias=bias)
        at = Positions.of(length, length, device=device)
        visible = None if rule is None else rule(at)
        whole = shape.heads * length**2 * torch.finfo(dtype).bits // 8
        triangle = rule == causal() and bias is None
        added = None if bias is None or 3 * whole > LARGEST else bias(at).to(dtype)

        def mask() -> Tensor | None:
            if added is None:
                return visible
            return added if visible is None else torch.where(visible, added, -torch.inf)

        def naive() -> Tensor:
            scores = query @ key.mT * shape.dim**-0.5
            if added is not None:
                scores = scores + added
            if visible is not None:
                scores = scores.masked_fill(~visible, -torch.inf)
            return scores.softmax(-1) @ value

        found = {
            "naive": naive,
            "SDPA, mask": lambda: scaled_dot_product_attention(query, key, value, attn_mask=mask()),
        }
        if bias is not None and added is None:
            found.clear()  # the bias of all pairs alone would take gigabytes
        elif visible is None and added is None:
            found["SDPA"] = found.pop("SDPA, mask")
        if triangle:
            found["SDPA, is_causal"] = lambda: scaled_dot_product_attention(query, key, value, is_causal=True)
        if not training or device != "cpu":
            found |= flex(rule, bias, query, key, value)
        found |= x_transformers(rule, bias, query, key, value)
        return found | ours(attention, query, key, value, at)

    return variants


def ours(attention: Attention, query: Tensor, key: Tensor, value: Tensor, at: Positions) -> dict[str, Run]:
    """The path that is chosen, and every path by itself."""
    found: dict[str, Run] = {"foveate": lambda: attention.run(query, key, value, at=at)}
    for path in attention.paths:
        if not path.refuses(attention, query, key, at) and path.cost(attention, query, key, at).bytes < LARGEST:
            found[f"foveate · {path.name}"] = lambda path=path: path.run(
                attention, query, key, value, at=at, key_features=None, dropout=0.0
            )
    return found


def additive(shape: Shape, length: int, dtype: torch.dtype, training: bool, device: str) -> dict[str, Run]:
    """Bahdanau's score with `dim` hidden units, textbook and ours."""
    query, key, value = inputs(shape, length, dtype, training, device)
    score = Additive(query_dim=shape.dim, key_dim=shape.dim, hidden_dim=shape.dim)
    score = score.to(device, dtype).requires_grad_(training)
    attention = Attention(score, visibility=padding())
    wide = shape.batch * shape.heads * length * length * shape.dim * query.element_size()

    def naive() -> Tensor:
        q, k = query @ score.query_weight[0], key @ score.key_weight[0]
        return (torch.tanh(q[..., :, None, :] + k[..., None, :, :]) @ score.vector[0]).softmax(-1) @ value

    found: dict[str, Run] = {"naive": naive} if 3 * wide < LARGEST else {}
    if length <= 1024:
        compiled = torch.compile(naive, dynamic=False)
        found |= {"torch.compile(naive)": compiled} if not training or 3 * wide < LARGEST else {}
    return found | ours(attention, query, key, value, Positions.of(length, length, device=device))


def flex(rule: Visibility | None, bias: Any, query: Tensor, key: Tensor, value: Tensor) -> dict[str, Run]:
    """torch's FlexAttention, compiled; on CPUs it has no backward."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if bias is not None or rule == padding() or query.shape[2] > 4096:
        return {}
    left, device = getattr(rule, "left", math.inf), query.device.type

    def sees(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i - j <= left) if math.isfinite(left) else j <= i

    blocks = None if rule is None else create_block_mask(sees, None, None, query.shape[2], key.shape[2], device=device)
    compiled = torch.compile(flex_attention, dynamic=False)
    return {"FlexAttention": lambda: compiled(query, key, value, block_mask=blocks)}


def x_transformers(rule: Visibility | None, bias: Any, query: Tensor, key: Tensor, value: Tensor) -> dict[str, Run]:
    try:
        from x_transformers.attend import Attend
    except ImportError:
        return {}
    if bias is not None or rule not in (None, causal()):
        return {}
    plain, flash = (Attend(causal=rule is not None, flash=flash) for flash in (False, True))
    return {
        "x-transformers": lambda: plain(query, key, value)[0],
        "x-transformers, flash": lambda: flash(query, key, value)[0],
    }


WORKS = {
    "full": Work(Shape(8, 8, 64), dots(None), "softmax, all pairs"),
    "causal": Work(Shape(8, 8, 64), dots(causal()), "softmax, causal"),
    "window": Work(Shape(8, 8, 64), dots(causal() & window(left=256, right=0)), "softmax, causal window of 256"),
    "alibi": Work(Shape(8, 8, 64), dots(causal(), Alibi(8)), "softmax, causal, a bias"),
    "short": Work(Shape(80 * 26 // 256, 8, 32), dots(padding()), "softmax, short sentences"),
    "additive": Work(Shape(8, 1, 256), additive, "Bahdanau's score, 256 hidden units"),
}


def call(name: str, run: Run, training: bool) -> Callable[[], None]:
    """One call; the others run under torch's own switches: those that Foveate chose would slow some of them down."""
    switches = nullcontext if name.startswith("foveate") else machine.small_products

    def job() -> None:
        with switches(), torch.set_grad_enabled(training):
            context = run()
            if training:
                context.sum().backward()

    return job


def peak(job: Callable[[], None], device: str) -> float | None:
    """Bytes that one call adds to the peak of a fresh process, or of a GPU; None where the system does not tell."""
    if device == "cuda":
        settle(device)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        job()
        settle(device)
        return float(torch.cuda.max_memory_allocated() - before)
    if not os.path.exists("/proc/self/clear_refs"):
        return None
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        job()  # threads, scratch memory and what else a process makes once
        before = race.forget_peak()
        job()
        os.write(writer, struct.pack("d", float(race.resident("VmHWM") - before)))
        os._exit(0)
    os.close(writer)
    told = os.read(reader, 8)
    os.close(reader)
    os.waitpid(child, 0)
    return struct.unpack("d", told)[0] if told else None


def settle(device: str) -> None:
    """Wait until a GPU has done what it was asked."""
    if device == "cuda":
        torch.cuda.synchronize()


def measure(
    work: Work, length: int, dtype: torch.dtype, training: bool, rounds: int, left: set[str], device: str
) -> Iterator[dict]:
    """One line for each variant. On a CPU its own seconds count; on a GPU, those until it is done."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    found = work.variants(work.at(length), length, dtype, training, device)
    variants = {name: run for name, run in found.items() if name not in left}
    if not variants:
        return
    jobs, exact = {}, None
    for name, run in variants.items():
        with torch.no_grad():
            context = run()
        exact = context.double() if exact is None else exact
        difference = float((context.double() - exact).abs().max())
        if difference > (5e-2 if dtype == torch.bfloat16 else 1e-4):
            raise AssertionError(f"{name} computes something else: {difference:.1e} from the first variant")
        jobs[name] = call(name, run, training)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(-1, rounds):
        names = list(jobs)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if sum(times[name]) > ENOUGH:
                continue
            settle(device)
            started = clock()
            jobs[name]()
            settle(device)
            took = clock() - started
            if turn >= 0 or took > ENOUGH:  # the first turn warms up, which long calls need not
                times[name].append(took)
    for name, took in times.items():
        yield {
            "variant": name,
            "seconds": min(took),
            "median": statistics.median(took),
            "bytes": peak(jobs[name], device),
        }


def exponent(points: list[tuple[int, float]]) -> float | None:
    """The fitted p of seconds ∝ length^p, per sequence, over the upper half of the lengths."""
    points = points[len(points) // 2 - 1 :] if len(points) > 2 else points
    if len(points) < 2:
        return None
    x, y = ([math.log(value) for value in axis] for axis in zip(*points, strict=True))
    centre = statistics.mean(x)
    return sum((a - centre) * b for a, b in zip(x, y, strict=True)) / sum((a - centre) ** 2 for a in x)


def reached(name: str, work: Work, rows: list[dict[str, Any]], size: int) -> str:
    """What part of the limit Foveate's choice reaches at this length on a GPU."""
    took = {row["variant"]: row["seconds"] for row in rows if row["length"] == size}
    if "foveate" not in took:
        return "–"
    if name != "additive":
        others = [seconds for variant, seconds in took.items() if variant.startswith(("SDPA", "FlexAttention"))]
        return f"{min(others) / took['foveate']:.0%}" if others else "–"
    shape, training = work.at(size), rows[0]["training"]
    terms = shape.batch * shape.heads * size**2 * shape.dim
    return f"{least_seconds(terms, training) / took['foveate']:.0%}"


def least_seconds(terms: int, training: bool) -> float:
    """What so many tanh take at least on this GPU."""
    device = torch.cuda.get_device_properties(0)
    cycles = terms / FORWARD + (terms / BACKWARD if training else 0)
    hertz = getattr(device, "clock_rate", 0) * 1e3 or CLOCK
    return cycles / device.multi_processor_count / hertz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[256, 1024, 4096, 16384])
    parser.add_argument("--dtypes", nargs="+", choices=["float32", "bfloat16"], default=["float32", "bfloat16"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU here (torch.cuda.is_available() is False)")
    torch.set_num_threads(arguments.threads)
    machine.tune()
    gpu = torch.cuda.get_device_name() if arguments.device == "cuda" else None
    for name in arguments.work:
        rows: list[dict[str, Any]] = []
        for dtype in arguments.dtypes:
            for training in (False, True):
                rows += run(name, dtype, training, arguments)
        machine_used = race.machine(arguments.threads) | {"gpu": gpu}
        where = race.save(f"attention-{name}", {"machine": machine_used, "rows": rows})
        print(f"kept in {where.name}", flush=True)


def run(name: str, dtype: str, training: bool, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All lengths of one work, printed as a table."""
    work, left, rows = WORKS[name], set(), []
    for length in arguments.sizes:
        for line in measure(work, length, getattr(torch, dtype), training, arguments.rounds, left, arguments.device):
            rows.append({"work": name, "dtype": dtype, "training": training, "length": length, **line})
            quadratic = 1 if name == "window" and "banded" in line["variant"] else 4
            if line["seconds"] * quadratic**2 > LONGEST or (line["bytes"] or 0) * quadratic**2 > LARGEST:
                left.add(line["variant"])
    print(
        f"\n{work.about}, {dtype}, {'forward and backward' if training else 'forward'}: ms (× naive; MiB)", flush=True
    )
    print(
        race.table(["variant", *map(str, arguments.sizes), "growth"], _lines(rows, work, arguments.sizes)), flush=True
    )
    if arguments.device == "cuda":
        limit = "the instructions it takes at least" if name == "additive" else "the faster of SDPA and FlexAttention"
        told = [f"of {limit}", *(reached(name, work, rows, size) for size in arguments.sizes)]
        print(race.table(["foveate reaches", *map(str, arguments.sizes)], [told]), flush=True)
    return rows


def _lines(rows: list[dict[str, Any]], work: Work, sizes: list[int]) -> list[list[str]]:
    lines = []
    for variant in dict.fromkeys(row["variant"] for row in rows):
        mine = {row["length"]: row for row in rows if row["variant"] == variant}
        naive = {row["length"]: row["seconds"] for row in rows if row["variant"] == "naive"}
        cells = []
        for size in sizes:
            row = mine.get(size)
            if row is None:
                cells.append("–")
                continue
            times = f"{naive[size] / row['seconds']:.2f}" if size in naive else "–"
            memory = "?" if row["bytes"] is None else f"{row['bytes'] / 2**20:.0f}"
            cells.append(f"{row['seconds'] * 1e3:.1f} ({times}; {memory})")
        grown = exponent([(size, row["seconds"] / work.at(size).batch) for size, row in mine.items()])
        lines.append([variant, *cells, "–" if grown is None else f"{grown:.2f}"])
    return lines


if __name__ == "__main__":
    main()
