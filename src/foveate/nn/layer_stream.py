"""Streams of layers without attention: windows over neighbouring frames, and recurrent layers."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.nn.neighbour import Neighbours
from foveate.nn.packing import Packing
from foveate.nn.recurrent_layer import RecurrentEncoder, StackState
from foveate.nn.stream import Stream, joined, kept


@dataclass(frozen=True, eq=False)
class NeighbourState:
    """Input frames that later outputs need, and the number of outputs so far."""

    x: Float[Tensor, "frames input_dim"]
    emitted: int


class NeighbourStream(Stream[NeighbourState]):
    """y_i = after(x_i, W [x_{i−left}; …; x_{i+right}] + b), which waits for `right` frames"""

    def __init__(self, layer: Neighbours, after: Callable[[Tensor, Tensor], Tensor], name: str = "neighbours") -> None:
        self.layer, self.after, self.name = layer, after, name
        self.look_ahead = layer.right

    def begin(self) -> NeighbourState:
        weight = self.layer.joined.weight
        width = weight.shape[1] // (self.layer.left + 1 + self.layer.right)
        return NeighbourState(weight.new_zeros(0, width), 0)

    def advance(
        self, state: NeighbourState, x: Float[Tensor, "frames input_dim"], *, last: bool
    ) -> tuple[NeighbourState, Float[Tensor, "new_frames output_dim"]]:
        before = min(self.layer.left, state.emitted)
        x = joined(state.x, x)
        stop = max(len(x) - (0 if last else self.layer.right), before)
        # Zeros beyond the ends of `x` reach only frames that were given before, or that are not given yet.
        new = self.layer(x, packing=Packing(torch.tensor([len(x)], device=x.device), len(x)))[before:stop]
        emitted = state.emitted + stop - before
        return NeighbourState(kept(x, stop - self.layer.left), emitted), self.after(x[before:stop], new)


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
