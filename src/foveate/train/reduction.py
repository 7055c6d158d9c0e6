"""The sum of the gradients of an update's batches, over all ranks.

    exact    each batch's gradient × 2⁵², as 64-bit integers, whose sum has the same bits in any order and any world
    fast     floating-point numbers, whose sum depends on its order in the last bits

Both divide by the number of tokens of all batches together, which the caller applies: a mean of the ranks' means would
give a token of a short batch more weight than one of a long batch.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from foveate.train.integer_sum import IntegerSum
from foveate.train.optimiser import laid_out
from foveate.train.world import World

Reduction = Literal["fast", "exact"]
LARGEST = 2.0**11
"""The largest entry of a sum: 2¹¹ · 2⁵² is the end of 64-bit integers."""
BUCKET = 6_000_000
"""Gradients that are sent together, 24 MB."""


class Summation:
    """The sum in `grad`, as autograd makes it: for one process."""

    in_step = False
    """Whether all ranks must compute equally many batches, because they meet in the middle of each."""
    largest = math.inf
    """The bound of a batch's entries, which must be smaller."""

    def __init__(self, parameters: Sequence[nn.Parameter], world: World) -> None:
        self.parameters, self.world = parameters, world

    def begin(self, last: bool) -> None:
        """Announces the backward pass of a batch, and whether it is the last one of this rank in an update."""

    def add(self) -> float:
        """Takes the gradients of a batch; returns their largest entry where that has a bound, and otherwise 0."""
        return 0.0

    def finish(self) -> list[Tensor]:
        """Leaves the sum of all batches and ranks in `grad`, also in the returned list; None where none has one."""
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]

    def norm(self, gradients: Sequence[Tensor]) -> float:
        """The Euclidean norm of the sum that `finish` returned."""
        return float(get_total_norm(gradients, foreach=True))


class _Flat:
    """One vector of the gradients of some parameters, followed by the number of batches that gave each of them one."""

    def __init__(self, parameters: Sequence[nn.Parameter], dtype: torch.dtype) -> None:
        self.parameters = parameters
        self.sizes = [parameter.numel() for parameter in parameters]
        self.content = parameters[0].new_zeros(sum(self.sizes) + len(parameters), dtype=dtype)
        *self.parts, self.counts = self.content.split([*self.sizes, len(parameters)])

    def take(self) -> None:
        """Copies the gradients."""
        for place, (parameter, part) in enumerate(zip(self.parameters, self.parts, strict=True)):
            self.counts[place] = parameter.grad is not None
            if parameter.grad is None:
                part.zero_()
            else:
                part.copy_(parameter.grad.reshape(-1))

    def give(self, sums: Tensor) -> None:
        """Makes the parts of `sums` the gradients of those parameters that have one in any batch."""
        for parameter, part, count in zip(self.parameters, sums.split(self.sizes), self.counts.tolist(), strict=True):
            parameter.grad = laid_out(part.view_as(parameter).to(parameter.dtype), parameter) if count else None


class FastSummation(Summation):
    """Floating-point sums: of this rank's batches by autograd, then over the ranks.

    Parameters are summed in buckets, from the last to the first, as their gradients appear: while the last backward
    pass of an update goes on, the gradients of later layers travel already. Reference: Li et al. 2020, "PyTorch
    Distributed", section 3.2.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], world: World) -> None:
        super().__init__(parameters, world)
        self.buckets = [_Flat(bucket, _number_type(bucket)) for bucket in _buckets(parameters, BUCKET)]
        self._missing: list[int] | None = None
        """For each bucket, the number of gradients that are not there yet; None before the last pass."""
        self._sums: list[Callable[[], None]] = []
        for place, bucket in enumerate(self.buckets):
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(partial(self._appears, place))

    def begin(self, last: bool) -> None:
        self._missing = [len(bucket.parameters) for bucket in self.buckets] if last else None

    def add(self) -> float:
        if self._missing is not None:  # also those of parameters without a gradient
            self._missing = [0] * len(self.buckets)
            self._send()
            self._missing = None
        return 0.0

    def finish(self) -> list[Tensor]:
        for bucket, finish in zip(self.buckets, self._sums, strict=True):
            finish()
            bucket.give(bucket.content[: sum(bucket.sizes)])
        self._sums.clear()
        return super().finish()

    def _appears(self, place: int, parameter: Tensor) -> None:
        if self._missing is not None:
            self._missing[place] -= 1
            self._send()

    def _send(self) -> None:
        """Begins the sums of complete buckets, in the same order in all ranks."""
        while self._missing and len(self._sums) < len(self.buckets) and self._missing[len(self._sums)] <= 0:
            bucket = self.buckets[len(self._sums)]
            bucket.take()
            self._sums.append(self.world.begin_sum(bucket.content))


def _number_type(parameters: Sequence[nn.Parameter]) -> torch.dtype:
    """The type of these parameters' sums: float32, or float64 if a parameter has it."""
    return torch.float64 if any(parameter.dtype == torch.float64 for parameter in parameters) else torch.float32


def _buckets(parameters: Sequence[nn.Parameter], size: int) -> list[list[nn.Parameter]]:
    """The parameters from the last to the first, in lists of at least `size` numbers."""
    buckets: list[list[nn.Parameter]] = [[]]
    for parameter in reversed(parameters):
        if sum(each.numel() for each in buckets[-1]) >= size:
            buckets.append([])
        buckets[-1].append(parameter)
    return buckets


class ExactSummation(Summation):
    """Integer sums of `accumulate` batches. `add` empties `grad`."""

    def __init__(self, parameters: Sequence[nn.Parameter], world: World, accumulate: int) -> None:
        super().__init__(parameters, world)
        self.flat = _Flat(parameters, torch.int64)
        self.largest = LARGEST / accumulate
        self._sum = IntegerSum(self.flat.content[: sum(self.flat.sizes)], self.flat.sizes)
        self._counts = [0] * len(parameters)

    def add(self) -> float:
        gradients = [parameter.grad for parameter in self.parameters]
        largest = self._sum.add(gradients, self.largest)
        for place, parameter in enumerate(self.parameters):
            self._counts[place] += gradients[place] is not None
            parameter.grad = None
        return largest

    def finish(self) -> list[Tensor]:
        self.flat.counts.copy_(torch.tensor(self._counts))
        self._counts = [0] * len(self._counts)
        self.world.sum(self.flat.content)
        self.flat.give(self._sum.take(_number_type(self.parameters)))
        return super().finish()


def summation(parameters: Sequence[nn.Parameter], reduction: Reduction, accumulate: int, world: World) -> Summation:
    """The summation for a reduction. One batch is its own sum, and has the same bits in all of them."""
    if reduction == "exact" and accumulate > 1:
        return ExactSummation(parameters, world, accumulate)
    return FastSummation(parameters, world) if world.size > 1 else Summation(parameters, world)
