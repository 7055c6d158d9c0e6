"""Nothing hidden may leak: what every path does to keys and values that nobody, or not everybody, may see."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.position import Positions
from foveate.attention.visibility import Causal, Everything, Padding, Visibility


def nothing_to_silence(visibility: Visibility, at: Positions) -> bool:
    """Whether every key is seen by some query, or holds zeros already."""
    if isinstance(visibility, Padding):
        return at.zeroed and visibility.lengths is None
    return isinstance(visibility, Everything) or (isinstance(visibility, Causal) and (at.aligned or at.zeroed))


def silence(
    visible: Bool[Tensor, "#batch #heads #query #key"], *tensors: Float[Tensor, "batch heads key _"]
) -> tuple[Tensor, ...]:
    """Zero the rows that no query sees: 0 · NaN is NaN, in the product and in the gradient."""
    if each_sees_itself(visible):
        return tensors
    seen = visible if visible.shape[-2] == 1 else visible.any(-2, keepdim=True)
    return tuple(torch.where(seen.mT, tensor, 0.0) for tensor in tensors)


def each_sees_itself(visible: Bool[Tensor, "#batch #heads #query #key"]) -> bool:
    """Whether the i-th query sees the i-th key: then no row is empty and no key unseen. Cheaper to ask than either."""
    square = visible.shape[-2] == visible.shape[-1] > 1
    return square and bool(visible.diagonal(dim1=-2, dim2=-1).all())


def some_row_is_empty(visible: Bool[Tensor, "#batch #heads #query #key"]) -> bool:
    """Whether some query sees nothing."""
    return not each_sees_itself(visible) and not bool(visible.any(-1).all())


def finite(*tensors: Tensor) -> bool:
    """Whether all entries are finite. A sum that overflows says no, which costs only time."""
    return all(bool(tensor.detach().sum().isfinite()) for tensor in tensors)


def weigh(
    weights: Float[Tensor, "batch heads query key"],
    value: Float[Tensor, "batch heads key value_head_dim"],
    visible: Bool[Tensor, "#batch #heads #query #key"],
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """Σ_j α_ij v_j over the visible j only: a value that is not finite reaches exactly the queries that see it."""
    if visible.shape[-2] == 1 or finite(value):
        return weights @ value
    products = weights[..., None] * value[..., None, :, :]
    return torch.where(visible[..., None], products, 0.0).sum(-2)
