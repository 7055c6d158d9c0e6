"""Truncated self-attention over long recordings beside full attention: time, memory by the number of frames, equality.

python benchmarks/truncated.py --threads 1                  # 10 minutes

A frame is 10 ms: 6,000 frames are 60 s of audio. `window n` sees n frames before and n after each frame. `full` is
attention over all frames by the fastest path, `dense mask` torch's kernel with the window as a mask of n × n. Forwards
and with gradients of all inputs; the attention alone, and an encoder of four pre-norm layers. Variants take turns, and
the fastest of the rounds counts; memory is what one call adds to the peak of a fresh process.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import race
import torch
from attention import peak
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from foveate import machine
from foveate.attention import Attention, AttentionConfig, Positions, Visibility, chunk, everything, window
from foveate.nn import BlockConfig, Packing, TransformerEncoderConfig

AUDIO, CHUNK = 6000, 32
WINDOWS = (4, 16, 64)
LONGEST_FULL = 12_000
"""Frames beyond which full attention is left out: it takes a minute for each call."""
RULES: dict[str, Visibility] = {
    **{f"window {side}": window(left=side, right=side) for side in WINDOWS},
    f"chunk {CHUNK}, 2 before": chunk(CHUNK, left=2),
    "full": everything(),
}
PARTS = ("equality", "time", "memory")
Job = Callable[[], list[Tensor]]


@dataclass(frozen=True)
class Shape:
    heads: int
    dim: int

    def __str__(self) -> str:
        return f"{self.heads} × {self.dim}"


SHAPES = (Shape(4, 32), Shape(8, 64))


def attention_job(shape: Shape, frames: int, rule: Visibility, training: bool, *, dense: bool = False) -> Job:
    """The attention alone. It answers with the context, and with the gradients of queries, keys and values."""
    generator = torch.Generator().manual_seed(frames)
    size = (1, shape.heads, frames, shape.dim)
    query, key, value = (torch.randn(size, generator=generator).requires_grad_(training) for _ in range(3))
    attention, weights = Attention(visibility=rule), torch.randn(size, generator=generator)

    def job() -> list[Tensor]:
        if dense:
            context = scaled_dot_product_attention(query, key, value, attn_mask=rule(Positions.of(frames, frames)))
        else:
            context = attention.run(query, key, value)
        if not training:
            return [context]
        return [context.detach(), *torch.autograd.grad((context * weights).sum(), (query, key, value))]

    return job


def encoder_job(shape: Shape, frames: int, rule: Visibility, training: bool) -> Job:
    """Four layers. It answers with the outputs, and with the gradient of the input and of a projection."""
    torch.manual_seed(0)
    width = shape.heads * shape.dim
    block = BlockConfig(
        model_dim=width,
        num_heads=shape.heads,
        feedforward_dim=4 * width,
        norm="pre",
        encoder_attention=AttentionConfig(visibility=rule),
    )
    encoder = TransformerEncoderConfig(block=block, num_layers=4).build_for(width).eval()
    x = torch.randn(frames, width).requires_grad_(training)
    packing = Packing(torch.tensor([frames]), frames)

    def job() -> list[Tensor]:
        y = encoder(x, packing=packing)
        if not training:
            return [y]
        return [y.detach(), *torch.autograd.grad(y.square().sum(), (x, next(encoder.blocks.parameters())))]

    return job


def seconds(jobs: dict[str, Job], rounds: int, training: bool) -> dict[str, float]:
    """CPU seconds of the fastest round of each job."""
    best = dict.fromkeys(jobs, float("inf"))
    with torch.set_grad_enabled(training):
        for round_number in range(rounds + 1):  # the first is not counted
            for name, job in jobs.items():
                start = time.process_time()
                job()
                if round_number:
                    best[name] = min(best[name], time.process_time() - start)
    return best


def largest_difference(shape: Shape, frames: int, rule: Visibility) -> dict[str, float]:
    """|ours − dense mask|, relative to the largest number, of the context and of each gradient."""
    ours = attention_job(shape, frames, rule, training=True)()
    dense = attention_job(shape, frames, rule, training=True, dense=True)()
    names = ("context", "query", "key", "value")
    return {
        name: float((one - other).abs().max() / other.abs().max())
        for name, one, other in zip(names, ours, dense, strict=True)
    }


def differences() -> list[dict[str, Any]]:
    """The largest difference of each rule from the dense mask."""
    lines = []
    for shape in SHAPES:
        for name, rule in RULES.items():
            if name != "full":
                lines.append({"shape": str(shape), "variant": name, **largest_difference(shape, AUDIO, rule)})
                print(lines[-1], flush=True)
    return lines


def times(rounds: int) -> list[dict[str, Any]]:
    """Time at 60 s of audio."""
    lines = []
    for shape in SHAPES:
        for what, make in (("attention", attention_job), ("encoder of 4 layers", encoder_job)):
            for training in (False, True):
                jobs = {name: make(shape, AUDIO, rule, training) for name, rule in RULES.items()}
                if what == "attention":
                    jobs["dense mask 16"] = attention_job(shape, AUDIO, RULES["window 16"], training, dense=True)
                best = seconds(jobs, rounds, training)
                for name, spent in best.items():
                    speed = best["full"] / spent
                    lines.append(
                        {"what": what, "shape": str(shape), "training": training, "variant": name, "seconds": spent}
                        | {"times as fast as full": speed}
                    )
                    print(f"{what}, {shape}, {'gradients' if training else 'forwards'}, {name}: ", end="")
                    print(f"{1000 * spent:.1f} ms, {speed:.1f} × as fast as full", flush=True)
    return lines


def memory(frames: list[int]) -> list[dict[str, Any]]:
    """Peak memory by the number of frames, with gradients."""
    lines = []
    for shape in SHAPES:
        for what, make in (("attention", attention_job), ("encoder of 4 layers", encoder_job)):
            for name in ("window 16", "full"):
                for count in frames:
                    if name == "full" and (count > LONGEST_FULL or what != "attention"):
                        continue
                    used = peak(make(shape, count, RULES[name], True), "cpu")
                    lines.append({"what": what, "shape": str(shape), "variant": name, "frames": count, "bytes": used})
                    print(f"{what}, {shape}, {name}, {count} frames: {(used or 0) / 2**20:.0f} MiB", flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, nargs="*", default=[1500, 3000, 6000, 12_000, 24_000])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--plain", action="store_true", help="without the switches of machine.tune")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.plain:
        machine.tune()
    result: dict[str, Any] = {"machine": race.machine(options.threads), "frames": AUDIO}
    if "equality" in options.parts:
        result["differences from the dense mask"] = differences()
    if "time" in options.parts:
        result["time"] = times(options.rounds)
    if "memory" in options.parts:
        result["memory"] = memory(options.frames)
    print(race.save("truncated", result))


if __name__ == "__main__":
    main()
