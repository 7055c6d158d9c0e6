"""A sum of gradients as integers of 64 bits, which has the same bits in any order: by a kernel, or by torch."""

import ctypes
import functools
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from foveate import native

SCALE = 2.0**52
"""Integers per unit of gradient: a float32 of at least 2⁻²⁸ keeps all of its 24 bits."""


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernels, or None without a compiler."""
    library = native.load("foveate.train", "integer_sum.cpp").library
    if library is not None:
        library.add.restype = ctypes.c_float
    return library


class IntegerSum:
    """The sum of vectors of some sizes, one after the other in `content`, in units of 2⁻⁵²."""

    def __init__(self, content: Int64[Tensor, " entries"], sizes: Sequence[int]) -> None:
        self.content = content
        self._parts = content.split(list(sizes))
        self._sizes = (ctypes.c_int64 * len(sizes))(*sizes)

    def add(self, gradients: Sequence[Tensor | None], limit: float) -> float:
        """Adds gradients, one for each size or None, whose entries may change; returns the largest |entry|, or NaN if
        there is one. Unless that is below `limit` the sum is worthless.
        """
        library = self._library()
        if library is None or any(each is not None and each.dtype != torch.float32 for each in gradients):
            return self._add_by_torch(gradients, limit)
        whole = [None if each is None else each.contiguous() for each in gradients]
        places = (ctypes.c_void_p * len(whole))(*(None if each is None else each.data_ptr() for each in whole))
        numbers = ctypes.c_double(SCALE), ctypes.c_double(limit), native.threads()
        largest = library.add(places, self._sizes, ctypes.c_int64(len(whole)), native.address(self.content), *numbers)
        return float(largest)

    def take(self, dtype: torch.dtype = torch.float32) -> Float[Tensor, " entries"]:
        """The sum as floats of a type; it begins again at 0."""
        library = self._library()
        if library is None or dtype != torch.float32:
            floats = self.content.to(dtype).mul_(1 / SCALE)
            self.content.zero_()
            return floats
        floats = torch.empty(len(self.content), dtype=torch.float32)
        size, scale = ctypes.c_int64(len(floats)), ctypes.c_double(SCALE)
        library.take(native.address(self.content), native.address(floats), size, scale, native.threads())
        return floats

    def _library(self) -> ctypes.CDLL | None:
        return kernels() if self.content.device.type == "cpu" else None

    def _add_by_torch(self, gradients: Sequence[Tensor | None], limit: float) -> float:
        present = [each for each in gradients if each is not None and each.numel()]
        norms = torch.stack(list(torch._foreach_norm(present, math.inf))) if present else torch.zeros(1)
        largest = float(norms.max())
        if present and largest < limit:
            torch._foreach_mul_(present, SCALE)
            for gradient, part in zip(gradients, self._parts, strict=True):
                if gradient is not None:
                    part.add_(gradient.reshape(-1).to(torch.int64))
        return largest
