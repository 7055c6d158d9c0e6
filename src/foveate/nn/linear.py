"""Linear layers that, in inference on a CPU, keep their weights in the layout that oneDNN multiplies fastest."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from foveate import machine


class PackedWeight:
    """A weight in oneDNN's own layout, made on first use and again whenever the weights it was made of have changed."""

    def __init__(self) -> None:
        self._made_of: tuple[tuple[int, int], ...] = ()
        self._packed: Tensor | None = None

    def of(self, *weights: Float[Tensor, "_ inputs"]) -> Tensor:
        """The weights, one below the other, packed."""
        made_of = tuple((weight.data_ptr(), weight._version) for weight in weights)
        if self._packed is None or made_of != self._made_of:
            joined = weights[0] if len(weights) == 1 else torch.cat(weights)
            self._packed = torch.ops.mkldnn._reorder_linear_weight(joined.detach())
            self._made_of = made_of
        return self._packed

    def __deepcopy__(self, memo: dict[int, Any]) -> "PackedWeight":
        return PackedWeight()

    def __reduce__(self) -> tuple[type["PackedWeight"], tuple[()]]:
        return PackedWeight, ()


def packs(x: Float[Tensor, "*shape inputs"], weight: Float[Tensor, "outputs inputs"]) -> bool:
    """Whether this product is worth a packed weight: inference, a CPU, and enough rows by `machine.tune`."""
    least = machine.current().packed_rows
    return (
        least > 0
        and not torch.is_grad_enabled()
        and x.device.type == "cpu"
        and x.dtype == weight.dtype
        and x.dtype in (torch.float32, torch.bfloat16)
        and x.numel() >= least * x.shape[-1]
        and not torch.is_autocast_enabled("cpu")
    )


def packed_product(
    x: Float[Tensor, "*shape inputs"], packed: Tensor, bias: Float[Tensor, " outputs"] | None
) -> Float[Tensor, "*shape outputs"]:
    """W x + b with a packed W."""
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


class Linear(nn.Linear):
    """y = W x + b, with a packed weight where `packs` says so. Names and initial values are torch's."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self._packed = PackedWeight()

    def forward(self, x: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        if packs(x, self.weight):
            return packed_product(x, self._packed.of(self.weight), self.bias)
        return linear(x, self.weight, self.bias)
