"""Weights in the layout of the kernels."""

import ctypes
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.nn.int8 import ProductPanels
from foveate.nn.prepared.flat_block import Product, kernels


class Norm(ctypes.Structure):
    """A layer norm for the kernel."""

    _fields_ = [("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p), ("epsilon", ctypes.c_double)]


class KernelWeights:
    """Copies of weights for the kernels, which live as long as the object that computes with them."""

    def __init__(self) -> None:
        library = kernels()
        assert library is not None
        self.library: ctypes.CDLL = library
        self._alive: list[Any] = []

    def panels_of(self, product: Product) -> ProductPanels:
        """A product in the layout of the kernel, which lives as long as this object."""
        if product.int8 is not None:
            self._alive.append(product.int8)
            return product.int8.panels
        weight, (outputs, inputs) = panels(product.plain, self.library), product.plain.shape
        self._alive.append(weight)
        return ProductPanels(weight.data_ptr(), self._float(product.bias), inputs, outputs)

    def norm_of(self, norm: nn.LayerNorm) -> Norm:
        """A norm, whose numbers live as long as this object."""
        return Norm(self._float(norm.weight), self._float(norm.bias), norm.eps)

    def _float(self, vector: Tensor | None) -> int | None:
        """The address of a short vector in float32, or None without one."""
        if vector is None:
            return None
        self._alive.append(vector.detach().float().contiguous())
        return self._alive[-1].data_ptr()


def panels(weight: Float[Tensor, "outputs inputs"], library: ctypes.CDLL) -> Float[Tensor, " numbers"]:
    """A weight in the kernel's layout: panels of outputs, each ordered by input or by pairs of inputs."""
    width = library.panel_width()
    pair = library.panel_pair() if weight.dtype is torch.bfloat16 else 1
    outputs, inputs = weight.shape
    padded = torch.nn.functional.pad(weight.detach(), (0, 0, 0, -outputs % width))
    return padded.view(-1, width, inputs // pair, pair).transpose(1, 2).flatten()
