"""The sum of the gradients of an update's batches, over all ranks.

    exact    each batch's gradient × 2⁵², as 64-bit integers, whose sum has the same bits in any order and any world
    fast     floating-point numbers, whose sum depends on its order in the last bits

Both divide by the number of tokens of all batches together, which the caller applies: a mean of the ranks' means would
give a token of a short batch more weight than one of a long batch.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from foveate.train.world import World

Reduction = Literal["fast", "exact"]
SCALE = 2.0**52
"""Integers per unit of gradient: a float32 of at least 2⁻²⁸ keeps all of its 24 bits."""
LARGEST = 2.0**11
"""The largest entry of a sum: 2¹¹ · 2⁵² is the end of 64-bit integers."""


class Summation:
    """The sum in `grad`, as autograd makes it: for one process."""

    largest = math.inf
    """The bound of a batch's entries, which must be smaller."""

    def __init__(self, parameters: Sequence[nn.Parameter], world: World) -> None:
        self.parameters, self.world = parameters, world

    def add(self) -> float:
        """Takes the gradients of a batch; returns their largest entry where that has a bound, and otherwise 0."""
        return 0.0

    def finish(self) -> list[Tensor]:
        """Leaves the sum of all batches and ranks in `grad`, also in the returned list; None where none has one."""
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]


class _Flat(Summation):
    """One vector of all gradients, followed by the number of batches that gave each parameter one."""

    dtype: torch.dtype

    def __init__(self, parameters: Sequence[nn.Parameter], world: World) -> None:
        super().__init__(parameters, world)
        self.sizes = [parameter.numel() for parameter in parameters]
        self.flat = parameters[0].new_zeros(sum(self.sizes) + len(parameters), dtype=self.dtype)
        *self.parts, self.counts = self.flat.split([*self.sizes, len(parameters)])

    def finish(self) -> list[Tensor]:
        self.gather()
        self.world.sum(self.flat)
        counts = self.counts.tolist()
        for parameter, part, count in zip(self.parameters, self.whole(), counts, strict=True):
            parameter.grad = part.view_as(parameter).to(parameter.dtype) if count else None
        return super().finish()

    def gather(self) -> None:
        """Completes `flat` before it is summed over the ranks."""

    def whole(self) -> Sequence[Tensor]:
        """The parts of the sum as floating-point numbers."""
        return self.parts


class FastSummation(_Flat):
    """Floating-point sums: of this rank's batches by autograd, then over the ranks."""

    dtype = torch.float32

    def gather(self) -> None:
        for place, (parameter, part) in enumerate(zip(self.parameters, self.parts, strict=True)):
            self.counts[place] = parameter.grad is not None
            if parameter.grad is None:
                part.zero_()
            else:
                part.copy_(parameter.grad.reshape(-1))


class ExactSummation(_Flat):
    """Integer sums of `accumulate` batches. `add` empties `grad`."""

    dtype = torch.int64

    def __init__(self, parameters: Sequence[nn.Parameter], world: World, accumulate: int) -> None:
        super().__init__(parameters, world)
        self.largest = LARGEST / accumulate

    def add(self) -> float:
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norms = torch.stack(list(torch._foreach_norm(gradients, float("inf")))) if gradients else torch.zeros(1)
        largest = float(norms.max())
        if gradients and largest < self.largest:
            torch._foreach_mul_(gradients, SCALE)
            for place, (parameter, part) in enumerate(zip(self.parameters, self.parts, strict=True)):
                if parameter.grad is not None:
                    part.add_(parameter.grad.reshape(-1).to(torch.int64))
                    self.counts[place] += 1
        for parameter in self.parameters:
            parameter.grad = None
        return largest

    def whole(self) -> Sequence[Tensor]:
        sums = self.flat[: sum(self.sizes)].to(torch.float32).mul_(1 / SCALE).split(self.sizes)
        self.flat.zero_()
        return sums


def summation(parameters: Sequence[nn.Parameter], reduction: Reduction, accumulate: int, world: World) -> Summation:
    """The summation for a reduction. One batch is its own sum, and has the same bits in all of them."""
    if reduction == "exact" and accumulate > 1:
        return ExactSummation(parameters, world, accumulate)
    return FastSummation(parameters, world) if world.size > 1 else Summation(parameters, world)
