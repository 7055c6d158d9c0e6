"""Streams of layers without attention: those over neighbouring frames, and recurrent ones."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.nn.packing import Packing
from foveate.nn.recurrent_layer import RecurrentEncoder, StackState
from foveate.nn.stream import Stream, joined, kept


@dataclass(frozen=True, eq=False)
class LocalState:
    """Input frames that later outputs need."""

    x: Float[Tensor, "frames input_dim"] | None
    """None before the first piece."""
    first: int
    """The output that stands at the first of these frames."""
    emitted: int
    """The number of outputs so far."""


class LocalStream(Stream[LocalState]):
    """y_j = f(x_{jk−left} … x_{jk+right}): layers over neighbours, with one output for every k = `stride` frames

    `f` computes ⌈n / k⌉ outputs of n frames, with zeros in place of frames beyond the ends.
    """

    def __init__(
        self,
        f: Callable[[Tensor, Packing], Tensor],
        output_dim: int,
        *,
        left: int,
        right: int,
        stride: int = 1,
        name: str = "neighbours",
    ) -> None:
        self.f, self.output_dim, self.name = f, output_dim, name
        self.stride, self.look_ahead = stride, right
        self.outputs_before = -(-left // stride)
        """Outputs before the next one whose frames it needs."""

    def begin(self) -> LocalState:
        return LocalState(None, 0, 0)

    def advance(
        self, state: LocalState, x: Float[Tensor, "frames input_dim"], *, last: bool
    ) -> tuple[LocalState, Float[Tensor, "outputs output_dim"]]:
        x, first = x if state.x is None else joined(state.x, x), state.first
        received = first * self.stride + len(x)
        ready = -(-received // self.stride) if last else (received - 1 - self.look_ahead) // self.stride + 1
        if ready <= state.emitted:
            return LocalState(x, first, state.emitted), x.new_zeros(0, self.output_dim)
        # Zeros beyond the ends of x reach only outputs that were given before, or that are not given yet.
        y = self.f(x, Packing(torch.tensor([len(x)], device=x.device), len(x)))[state.emitted - first : ready - first]
        needed = max(0, min(ready - self.outputs_before, received // self.stride))
        return LocalState(kept(x, (needed - first) * self.stride), needed, ready), y


class RecurrentStream(Stream[StackState]):
    """Recurrent layers from left to right, which wait for nothing."""

    name = "rnn"

    def __init__(self, network: RecurrentEncoder) -> None:
        self.network = network

    def begin(self) -> StackState:
        return self.network.initial(next(self.network.parameters()))

    def advance(
        self, state: StackState, x: Float[Tensor, "frames input_dim"], *, last: bool
    ) -> tuple[StackState, Float[Tensor, "frames output_dim"]]:
        if not len(x):
            return state, x.new_zeros(0, self.network.output_dim)
        outputs, state = self.network.proceed(x[None], state)
        return state, outputs[0]
