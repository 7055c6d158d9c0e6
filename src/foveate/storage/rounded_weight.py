"""Weights that are stored in fewer bits than they have: bfloat16, or int8 with a scale for each row.

In int8, a weight `NAME` with rows of at least 16 numbers is a tensor of whole numbers from −127 to 127 beside
`NAME.scales`, and its rows are the products of both, which are exact in float32. Norms, biases and other short rows
stay as they are. A number changes by at most half a scale (below 10⁻³⁴ float32 has too few bits for that). Every reader
gets the same bits, and quantising a weight that was read gives the stored numbers again, but for rows whose numbers are
all below 10⁻³⁴.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int8
from torch import Tensor

LARGEST = 127
Stored = Literal["", "bfloat16", "int8"]
"""The type to which weights are rounded where they are stored; empty for weights as they were trained."""
SHORT = 16
"""Rows with fewer numbers are not rounded to int8."""
SCALES = ".scales"


@dataclass(frozen=True, eq=False)
class Quantised:
    """A weight as whole numbers: W ≈ scales · values."""

    values: Int8[Tensor, "outputs inputs"]
    scales: Float[Tensor, " outputs"]

    @classmethod
    def of(cls, weight: Float[Tensor, "outputs inputs"]) -> "Quantised":
        """The nearest whole numbers, ties to even, of a weight that is finite.

        >>> quantised = Quantised.of(torch.tensor([[0.5, -1.27], [0.0, 0.0]]))
        >>> quantised.values.tolist(), quantised.scales.tolist()
        ([[50, -127], [0, 0]], [0.010000228881835938, 0.0])
        """
        weight = weight.detach().float()
        # Rounded up to 16 significant bits: the lower 8 of the 24 become zeros.
        bits = (weight.abs().amax(1) / LARGEST).view(torch.int32)
        scales = ((bits + 0xFF) & ~0xFF).view(torch.float32)
        values = torch.where(scales[:, None] > 0, weight / scales[:, None], 0.0).round()
        return cls(values.to(torch.int8), scales)

    def weight(self) -> Float[Tensor, "outputs inputs"]:
        """The weight that these numbers stand for, exactly."""
        return self.values * self.scales[:, None]


def require_finite(weights: Mapping[str, Tensor]) -> None:
    """Raise ValueError for a weight with a number that is not finite, which cannot be quantised."""
    for name, weight in weights.items():
        if not bool(weight.isfinite().all()):
            raise ValueError(f"The weight {name} has numbers that are not finite, which int8 cannot represent.")


def rounded(tensors: Mapping[str, Tensor], stored: Stored) -> dict[str, Tensor]:
    """Weights as they are stored; tensors of other types than floats stay.

    >>> rounded({"w": torch.full((2, 16), 0.5), "b": torch.ones(2)}, "int8").keys()
    dict_keys(['w', 'w.scales', 'b'])

    Raises ValueError for int8 and numbers that are not finite.
    """
    if stored == "int8":
        long = {name: t for name, t in tensors.items() if _is_long(t) and name + SCALES not in tensors}
        require_finite(long)
        parts: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            parts |= _quantised(name, tensor) if name in long else {name: tensor}
        return parts
    if stored == "bfloat16":
        return {name: t.bfloat16() if t.is_floating_point() else t for name, t in tensors.items()}
    return dict(tensors)


def widened(tensors: Mapping[str, Tensor], stored: Stored) -> dict[str, Tensor]:
    """Stored weights in float32, as they were written except for the rounding.

    Raises ValueError for scales that do not fit their weight.
    """
    if stored == "int8":
        scales = {name + SCALES for name, t in tensors.items() if t.dtype == torch.int8} & tensors.keys()
        return {
            name: _product(name, t, tensors[name + SCALES]) if name + SCALES in scales else t
            for name, t in tensors.items()
            if name not in scales
        }
    if stored == "bfloat16":
        return {name: t.float() if t.dtype == torch.bfloat16 else t for name, t in tensors.items()}
    return dict(tensors)


def _is_long(tensor: Tensor) -> bool:
    """Whether a tensor's rows, along its first axis, are worth a scale of their own."""
    return tensor.is_floating_point() and tensor.ndim > 1 and tensor.numel() >= SHORT * len(tensor) > 0


def _quantised(name: str, tensor: Tensor) -> dict[str, Tensor]:
    quantised = Quantised.of(tensor.flatten(1))
    return {name: quantised.values.view(tensor.shape), name + SCALES: quantised.scales}


def _product(name: str, values: Tensor, scales: Tensor) -> Tensor:
    if scales.dtype != torch.float32 or scales.shape != values.shape[:1]:
        raise ValueError(f"{name}{SCALES} are {scales.dtype} {tuple(scales.shape)} for {len(values)} rows of {name}")
    return Quantised(values.flatten(1), scales).weight().view(values.shape)
