"""Streams: networks that process a sequence piece by piece while it arrives, and give what they give for the whole.

The state is a value: `advance` takes one and returns another, and a module keeps nothing between calls. Whatever the
sizes of the pieces, the outputs of a stream, joined, equal the outputs for the whole sequence.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from foveate.errors import UsageError

State = TypeVar("State")
CYCLE = 4096
"""Output frames over which delays are compared; a delay repeats with the size of a chunk."""


class Stream(ABC, Generic[State]):
    """One network, or one part of it, over a sequence that arrives in pieces of any size, empty ones included.

    `begin()` returns the state before the first frame. `advance(state, x, last=…)` takes the next frames, without an
    axis for a batch, and returns the next state with the output frames that wait for no later input. With `last=True`
    the sequence ends: all remaining output frames follow.
    """

    name: str = "stream"
    """The name of the part where delays are listed."""
    stride: int = 1
    """Input frames per output frame."""
    look_ahead: int = 0
    """The most input frames after its own, i · stride, that output frame i waits for."""

    @abstractmethod
    def begin(self) -> State: ...

    @abstractmethod
    def advance(
        self, state: State, x: Shaped[Tensor, "frames *dims"], *, last: bool
    ) -> tuple[State, Shaped[Tensor, "new_frames *new_dims"]]: ...

    def awaited(self, frame: Int[Tensor, " frames"]) -> Int[Tensor, " frames"]:
        """The last input frame that each output frame waits for. Those of a chunk wait for its last one, so that not
        every frame waits for `look_ahead` frames.
        """
        return frame * self.stride + self.look_ahead

    def run(self, pieces: Sequence[Tensor]) -> Iterator[Tensor]:
        """The output that each piece of a whole sequence gives; the last piece is the end.

        >>> double = Pointwise(lambda x: 2 * x)
        >>> [y.tolist() for y in double.run(torch.arange(5.0).split(2))]
        [[0.0, 2.0], [4.0, 6.0], [8.0]]
        """
        state = self.begin()
        for number, piece in enumerate(pieces, 1):
            state, y = self.advance(state, piece, last=number == len(pieces))
            yield y


class Pointwise(Stream[None]):
    """y_i = f(x_i): a function that treats every frame alone"""

    def __init__(self, f: Callable[[Tensor], Tensor], name: str = "layer") -> None:
        self.f, self.name = f, name

    def begin(self) -> None:
        return None

    def advance(self, state: None, x: Tensor, *, last: bool) -> tuple[None, Tensor]:
        return None, self.f(x)


class Placed(Stream[int]):
    """y_i = f(x_i, i): frames and their places, without the length of the sequence; the state counts frames"""

    def __init__(self, f: Callable[[Tensor, Tensor, None], Tensor], name: str = "places") -> None:
        self.f, self.name = f, name

    def begin(self) -> int:
        return 0

    def advance(self, state: int, x: Tensor, *, last: bool) -> tuple[int, Tensor]:
        stop = state + len(x)
        return stop, self.f(x, torch.arange(state, stop, device=x.device), None)


@dataclass(frozen=True, eq=False)
class ChainState:
    """The states of all parts of a chain."""

    parts: tuple[Any, ...]
    ended: bool = False


class Chain(Stream[ChainState]):
    """y = f_n(… f_1(x)): each part reads the output frames of the part before it

    Strides multiply. Delays add up, in input frames of the whole, except where a part waits anyway for what a later
    part needs: chunks of equal size in all layers wait once.

    >>> class Wait(Pointwise):
    ...     stride, look_ahead = 2, 3
    >>> chain = Chain([Wait(torch.neg), Wait(torch.neg)])
    >>> chain.stride, chain.look_ahead
    (4, 9)
    """

    def __init__(self, parts: Sequence[Stream[Any]], name: str = "chain") -> None:
        self.parts, self.name = tuple(parts), name
        self.stride = math.prod(part.stride for part in self.parts)
        frame = torch.arange(CYCLE)
        self.look_ahead = int((self.awaited(frame) - frame * self.stride).max())

    def begin(self) -> ChainState:
        return ChainState(tuple(part.begin() for part in self.parts))

    def advance(self, state: ChainState, x: Tensor, *, last: bool) -> tuple[ChainState, Tensor]:
        """The next state and the new output frames. Raises UsageError after the last piece."""
        if state.ended:
            raise UsageError("This stream has ended with last=True. Call begin() for the state of a new one.")
        states = []
        for part, before in zip(self.parts, state.parts, strict=True):
            after, x = part.advance(before, x, last=last)
            states.append(after)
        return ChainState(tuple(states), last), x

    def awaited(self, frame: Int[Tensor, " frames"]) -> Int[Tensor, " frames"]:
        for part in reversed(self.parts):
            frame = part.awaited(frame)
        return frame


def joined(waiting: Tensor, new: Tensor, dim: int = 0) -> Tensor:
    """Frames that were kept, and the frames after them."""
    return torch.cat([waiting, new], dim)


def kept(tensor: Float[Tensor, "*dims"], start: int, dim: int = 0) -> Float[Tensor, "*new_dims"]:
    """The frames from `start` on, in memory of their own: a view would hold the memory of all frames."""
    return tensor if start <= 0 else tensor.narrow(dim, start, tensor.shape[dim] - start).clone()
