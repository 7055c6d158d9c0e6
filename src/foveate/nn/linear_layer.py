"""Linear layers. On a CPU, bfloat16 training uses our own kernels, and inference uses weights in oneDNN's fastest
layout, or int8 where a model asks for it.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from foveate import machine
from foveate.nn import bfloat16
from foveate.nn.int8 import Int8Weight
from foveate.nn.origin import Origin
from foveate.storage.rounded_weight import require_finite


class PackedWeight:
    """A weight in oneDNN's own layout, made on first use and again after the original weight has changed."""

    def __init__(self) -> None:
        self._origin = Origin()

    def of(self, weight: Float[Tensor, "outputs inputs"]) -> Tensor:
        return self._origin.made(lambda: packed_weight(weight), weight, weight.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> "PackedWeight":
        return PackedWeight()

    def __reduce__(self) -> tuple[type["PackedWeight"], tuple[()]]:
        return PackedWeight, ()


class Linear(nn.Linear):
    """y = W x + b, with a packed weight if `packs` is true. Names and initial values are those of torch.

    `int8` computes inference in int8, from weights that stay as they are.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.int8 = False
        self._packed, self._int8 = PackedWeight(), Int8Weight()

    def forward(self, x: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        if self.int8 and not torch.is_grad_enabled():
            _require_width(x, self.weight)
            return self._int8.of((self.weight,), (self.bias,))(x)
        if packs(x, self.weight):
            _require_width(x, self.weight)
            return packed_product(x, self._packed.of(self.weight), self.bias)
        return linear(x, self.weight, self.bias)


def use_int8(model: nn.Module, output: Float[Tensor, "outputs inputs"], active: bool) -> None:
    """Compute the products of a model's layers with weights in int8, except with gradients, or as before. `output` is
    its output matrix, which no layer has.

    Raises ValueError for a weight that is not finite.
    """
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, Linear)}
    if active:
        require_finite({name: layer.weight for name, layer in layers.items()} | {"output": output})
    for layer in layers.values():
        layer.int8 = active


def linear(
    x: Float[Tensor, "*shape inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*shape outputs"]:
    """y = W x + b, by our own kernels where they apply."""
    _require_width(x, weight)
    if bfloat16.applies(x, weight):
        return bfloat16.linear(x, weight, bias)
    return functional.linear(x, weight, bias)


def _require_width(x: Tensor, weight: Tensor) -> None:
    if x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"A layer for vectors of {weight.shape[1]} numbers got a tensor of shape {tuple(x.shape)}. "
            "Build the layer for the width of its input."
        )


def may_pack(weight: Float[Tensor, "*shape"]) -> bool:
    """Whether a weight may be packed: in inference on a CPU, if `machine.tune` turned packing on."""
    return (
        machine.current().packed_rows > 0
        and not torch.is_grad_enabled()
        and weight.device.type == "cpu"
        and (weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and machine.multiplies_bfloat16()))
        and not weight.is_inference()  # torch does not count writes to inference tensors
        and not torch.is_autocast_enabled("cpu")
    )


def packs(x: Float[Tensor, "*shape inputs"], weight: Float[Tensor, "outputs inputs"]) -> bool:
    """Whether this product has enough rows for a packed weight to be faster."""
    return may_pack(weight) and x.dtype == weight.dtype and x.numel() >= machine.current().packed_rows * x.shape[-1]


def packed_weight(weight: Float[Tensor, "outputs inputs"]) -> Tensor:
    """A weight in oneDNN's own layout."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 32)


def packed_product(
    x: Float[Tensor, "*shape inputs"],
    packed: Tensor,
    bias: Float[Tensor, " outputs"] | None,
    activation: str = "none",
) -> Float[Tensor, "*shape outputs"]:
    """W x + b with a packed W, through an activation ("none" or "relu") on the way out."""
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, activation, [], "")


def packed_product_add(
    x: Float[Tensor, "rows inputs"],
    residual: Float[Tensor, "rows outputs"],
    packed: Tensor,
    bias: Float[Tensor, " outputs"] | None,
) -> Float[Tensor, "rows outputs"]:
    """residual + W x + b with a packed W."""
    return torch.ops.mkldnn._linear_pointwise.binary(x, residual, packed, bias, "add")
