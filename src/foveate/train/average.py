"""The mean of several checkpoints' weights."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


def average(weights: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each floating-point tensor, summed in float64; of other tensors (counters, indices) the last.

    >>> average([{"gain": torch.tensor([1.0, 2.0])}, {"gain": torch.tensor([3.0, 6.0])}])
    {'gain': tensor([2., 4.])}

    Averaging the last checkpoints of one run is the usual finish of a Transformer.
    Reference: Vaswani et al. 2017, §6.1.
    """
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for count, last in enumerate(weights, start=1):  # noqa: B007
        for name, tensor in last.items():
            if tensor.is_floating_point():
                sums[name] = sums[name].add_(tensor) if name in sums else tensor.to(torch.float64, copy=True)
    if count == 0:
        raise ValueError("there is nothing to average")
    return {name: sums[name].div(count).to(tensor.dtype) if name in sums else tensor for name, tensor in last.items()}
