"""The latency of a stream by its design: how long an output waits for later input, on a machine without limits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from foveate.nn.stream import CYCLE, Chain, Stream


@dataclass(frozen=True)
class Latency:
    """Seconds from the beginning of the stretch of input that an output stands for to the end of the input that the
    output waits for. The time of the computation comes on top.
    """

    worst: float
    mean: float
    """Over all outputs: in a chunk, the first output waits longest."""
    parts: tuple[tuple[str, int, float], ...]
    """The name of each part that waits, the number of such parts, and the seconds that one of them waits at most."""

    def __str__(self) -> str:
        waits = ", ".join(
            f"{name} {_seconds(seconds)}" if count == 1 else f"{name} {count} × {_seconds(seconds)}"
            for name, count, seconds in self.parts
        )
        mean = "" if self.mean == self.worst else f" at most, {_seconds(self.mean)} on average"
        together = sum(count * seconds for _, count, seconds in self.parts) > self.worst + 1e-9
        return f"{_seconds(self.worst)}{mean} ({waits}{'; chunks wait together' if together else ''})"


def latency(stream: Stream[Any], seconds: float, *, window: float | None = None) -> Latency:
    """The latency of a stream whose inputs begin `seconds` apart and last `window` seconds each: by default `seconds`.

    Frames of 25 ms every 10 ms, and two layers that see 4 frames after each frame, 40 ms:

    >>> from foveate.attention import AttentionConfig, window
    >>> from foveate.nn import BlockConfig, TransformerEncoderConfig
    >>> attention = AttentionConfig(visibility=window(left=16, right=4))
    >>> block = BlockConfig(model_dim=8, num_heads=2, encoder_attention=attention)
    >>> encoder = TransformerEncoderConfig(block=block, num_layers=2).build_for(8).eval()
    >>> print(latency(encoder.stream(), 0.010, window=0.025))
    105 ms (frames 25 ms, attention 2 × 40 ms)
    """
    outputs = torch.arange(CYCLE)
    size = seconds if window is None else window
    waits = (stream.awaited(outputs) - outputs * stream.stride).double() * seconds + size
    named: dict[tuple[str, float], int] = {} if window is None else {("frames", size): 1}
    for part, stride in _leaves(stream, 1):
        if part.look_ahead:
            one = (part.name, part.look_ahead * stride * seconds)
            named[one] = named.get(one, 0) + 1
    parts = tuple((name, count, wait) for (name, wait), count in named.items())
    worst, mean = float(waits.max()), float(waits.mean())
    return Latency(worst, worst if abs(worst - mean) < 1e-9 else mean, parts)


def _leaves(stream: Stream[Any], stride: int) -> Iterator[tuple[Stream[Any], int]]:
    """The parts of a stream, and the inputs of the whole that one input of each part stands for."""
    if not isinstance(stream, Chain):
        yield stream, stride
        return
    for part in stream.parts:
        yield from _leaves(part, stride)
        stride *= part.stride


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"
