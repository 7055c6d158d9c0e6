"""Streams from samples to vectors: windows, slopes, normalisation and stacks of a recording that arrives in pieces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.data.spectrum import SLOPE, deltas, slopes, stack
from foveate.nn.stream import Stream, joined, kept

Passed = TypeVar("Passed")


class WindowStream(Stream[Float[Tensor, " samples"]]):
    """Frames t = f(x_{t·hop} … x_{t·hop + size − 1}) of samples; the state is the samples from the next frame on"""

    name = "windows"

    def __init__(self, f: Callable[[Tensor], Tensor], *, size: int, hop: int) -> None:
        self.f, self.stride, self.look_ahead = f, hop, size - 1

    def begin(self) -> Float[Tensor, " samples"]:
        return torch.zeros(0)

    def advance(
        self, state: Float[Tensor, " samples"], x: Float[Tensor, " new_samples"], *, last: bool
    ) -> tuple[Float[Tensor, " kept_samples"], Float[Tensor, "frames numbers"]]:
        samples = joined(state, x)
        frames = self.f(samples)
        return kept(samples, len(frames) * self.stride), frames


class SlopeStream(Stream[Float[Tensor, "frames numbers"] | None]):
    """`deltas`, which wait for two frames for each order; the state is the frames around the next one"""

    name = "slopes"

    def __init__(self, order: int) -> None:
        self.order, self.look_ahead = order, SLOPE * order

    def begin(self) -> None:
        return None

    def advance(
        self, state: Float[Tensor, "frames numbers"] | None, x: Float[Tensor, "new_frames numbers"], *, last: bool
    ) -> tuple[Float[Tensor, "kept_frames numbers"] | None, Float[Tensor, "slopes wider"]]:
        if state is None and not len(x):
            return None, deltas(x, self.order)
        before = x[:1].expand(self.look_ahead, -1) if state is None else state
        frames = joined(before, x)
        if last:
            frames = joined(frames, frames[-1:].expand(self.look_ahead, -1))
        if len(frames) <= 2 * self.look_ahead:
            return frames, deltas(x[:0], self.order)
        return kept(frames, len(frames) - 2 * self.look_ahead), slopes(frames, self.order)


@dataclass(frozen=True, eq=False)
class StackState:
    """Frames from the next stack on, and whether a stack was complete."""

    frames: Float[Tensor, "frames numbers"] | None = None
    complete: bool = False


class StackStream(Stream[StackState]):
    """`stack`: `count` consecutive frames as one vector, every `stride` frames"""

    name = "stacks"

    def __init__(self, count: int, stride: int) -> None:
        self.count, self.stride, self.look_ahead = count, stride, count - 1

    def begin(self) -> StackState:
        return StackState()

    def advance(
        self, state: StackState, x: Float[Tensor, "frames numbers"], *, last: bool
    ) -> tuple[StackState, Float[Tensor, "stacks wider"]]:
        frames = x if state.frames is None else joined(state.frames, x)
        short = len(frames) < self.count
        if short and (state.complete or not last):  # a short rest is completed only where it is all there is
            return StackState(frames, state.complete), stack(frames[:0], self.count, self.stride)
        stacks = stack(frames, self.count, self.stride)
        return StackState(kept(frames, min(len(stacks) * self.stride, len(frames))), True), stacks


class PassingStream(Stream[Passed]):
    """y_1 … y_n, s ← f(x_1 … x_n, s): a function that hands a state from piece to piece"""

    def __init__(
        self, f: Callable[[Tensor, Passed], tuple[Tensor, Passed]], start: Passed, name: str = "normalisation"
    ) -> None:
        self.f, self.start, self.name = f, start, name

    def begin(self) -> Passed:
        return self.start

    def advance(self, state: Passed, x: Tensor, *, last: bool) -> tuple[Passed, Tensor]:
        y, after = self.f(x, state)
        return after, y
