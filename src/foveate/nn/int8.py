"""Products in int8: weights with a scale for each output, activations with a scale for each row.

    y = (Σ w q) · (s · a) + b,   w = round(W / s),   q = round(x · (127 / max |x|)),   a = max |x| / 127

All w and q are whole numbers from −127 to 127 and their sums are exact, so that every processor computes the same
integers: with AMX, VNNI or AVX2 instructions, in plain C++, or in torch without a compiler. The weights are symmetric
(0 is 0), and s has 16 significant bits: s · w is exact in float32, and quantising it again gives the same s and w.

Reference: Bhandare et al. 2019, "Efficient 8-Bit Quantization of Transformer Neural Machine Language Translation
Model".
"""

import ctypes
import functools
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from foveate import native
from foveate.nn.origin import Origin
from foveate.storage.rounded_weight import LARGEST, Quantised

LEAST = 1e-30
"""A row of activations with nothing larger counts as zeros."""
FOUR = 4
"""The inputs that stand together in the kernel's layout."""
EXACT = 2**24 // LARGEST**2
"""Up to this number of inputs, sums of products are exact in float32."""


def quantised_rows(x: Float[Tensor, "rows inputs"]) -> tuple[Float[Tensor, "rows inputs"], Float[Tensor, "rows 1"]]:
    """The whole numbers and the scale of each row of activations; NaN as scale where a number is not finite."""
    top = x.abs().amax(1, keepdim=True)
    inverse = torch.where(top > LEAST, torch.full_like(top, LARGEST) / top, 0.0)  # 127 / top rounds twice in torch
    values = (x * inverse).round().nan_to_num(0.0)
    return values, torch.where(top > LEAST, top / LARGEST, 0.0) + (x - x).sum(1, keepdim=True)


def defined_product(
    x: Float[Tensor, "rows inputs"], weight: Quantised, bias: Float[Tensor, " outputs"] | None
) -> Float[Tensor, "rows outputs"]:
    """The product as it is defined, which the kernel computes faster."""
    values, scales = quantised_rows(x)
    kind = torch.float32 if x.shape[1] <= EXACT else torch.float64
    sums = (values.to(kind) @ weight.values.to(kind).T).float()
    y = sums * (weight.scales * scales)
    return y if bias is None else y + bias


class ProductPanels(ctypes.Structure):
    """A weight in the layout of the kernels (`product.h`)."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("weight", "bias")]
    _fields_ += [(name, ctypes.c_int64) for name in ("inputs", "outputs")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("scales", "sums")]


class Int8Product:
    """W x + b in int8, with the weight in the kernel's layout."""

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None) -> None:
        self.quantised = Quantised.of(weight)
        self.bias = None if bias is None else bias.detach().float().contiguous()
        self.outputs, self.inputs = weight.shape
        self.library = kernels() if weight.device.type == "cpu" else None
        if self.library is None:
            return
        width = self.library.panel_width()
        beyond, missing = -self.outputs % width, -self.inputs % FOUR
        padded = torch.nn.functional.pad(self.quantised.values, (0, missing, 0, beyond))
        self._panels = padded.view(-1, width, padded.shape[1] // FOUR, FOUR).transpose(1, 2).flatten()
        self._scales = torch.nn.functional.pad(self.quantised.scales, (0, beyond))
        self._sums = padded.sum(1, dtype=torch.int32)
        addition = None if self.bias is None else self.bias.data_ptr()
        rest = (self._scales.data_ptr(), self._sums.data_ptr())
        self.panels = ProductPanels(self._panels.data_ptr(), addition, self.inputs, self.outputs, *rest)

    def __call__(self, x: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        """The product in float32."""
        flat = x.reshape(-1, self.inputs).float()
        if self.library is None:
            y = defined_product(flat, self.quantised, self.bias)
        else:
            flat, y = flat.contiguous(), flat.new_empty(len(flat), self.outputs)
            room = torch.empty(-(-len(flat) // 16) * 16 * (self.inputs + 2 * FOUR), dtype=torch.int8)
            self.library.product(
                ctypes.byref(self.panels),
                native.address(flat),
                ctypes.c_int64(len(flat)),
                native.address(y),
                native.address(room),
                native.threads(),
            )
        return y.view(*x.shape[:-1], self.outputs)


class Int8Weight:
    """The int8 product of some layers with the same input, made on first use and again after a weight has changed."""

    def __init__(self) -> None:
        self._origin = Origin()

    def of(self, weights: tuple[Tensor, ...], biases: tuple[Tensor | None, ...]) -> Int8Product:
        def make() -> Int8Product:
            own = [bias for bias in biases if bias is not None]
            return Int8Product(torch.cat(weights), torch.cat(own) if own else None)

        if any(weight.is_inference() for weight in weights):  # torch does not count writes to these
            return make()
        return self._origin.made(make, *weights, *biases)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Int8Weight":
        return Int8Weight()

    def __reduce__(self) -> tuple[type["Int8Weight"], tuple[()]]:
        return Int8Weight, ()


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernel, or None without a compiler."""
    return native.load("foveate.nn.prepared", "int8.cpp").library
