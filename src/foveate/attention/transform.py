"""Changes of queries and keys before they are scored: a tuple of transforms, because papers differ in order."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, get_args, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize

from foveate.attention.check import require_choice, require_grid, require_real, require_whole
from foveate.attention.onnx import Graph, Places, unit
from foveate.attention.position import Positions
from foveate.config import require_choices


@runtime_checkable
class Transform(Protocol):
    """Any object that changes queries and keys by their positions.

    One that changes each vector by its own place alone may state `by_place = True`; a stream then continues with it.
    """

    def query(
        self, query: Float[Tensor, "batch heads query dim"], at: Positions
    ) -> Float[Tensor, "batch heads query dim"]: ...

    def key(
        self, key: Float[Tensor, "batch kv_heads key dim"], at: Positions
    ) -> Float[Tensor, "batch kv_heads key dim"]: ...


RotaryLayout = Literal["interleaved", "halves"]


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Turns the pair (x_2j, x_2j+1) of a vector at position p by the angle p · base^(−2j/d).

    Su et al. 2021, equation 34. `layout="halves"` pairs x_j with x_{j+d/2} instead, as GPT-NeoX and Llama do.
    `dims` turns only that many features, the first ones, and leaves the others (`partial_rotary_factor` elsewhere).
    The product of a turned query and a turned key depends on i − j only:

    >>> q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    >>> def product(i, j):
    ...     at = Positions(query=torch.full((1, 1, 1, 1), i), key=torch.full((1, 1, 1, 1), j))
    ...     return (Rotary().query(q, at) * Rotary().key(k, at)).sum()
    >>> torch.allclose(product(7, 3), product(104, 100), atol=1e-4)
    True
    """

    tabled: ClassVar[bool] = True
    by_place: ClassVar[bool] = True
    base: float = 10000.0
    dims: int | None = None
    """The number of features that turn; all by default."""
    layout: RotaryLayout = "interleaved"
    """The features that make a pair: neighbours, or one from each half."""

    def __post_init__(self) -> None:
        require_real(positive=True, base=self.base)
        require_choices(self)
        if self.dims is not None:
            require_whole(-math.inf, dims=self.dims)
        if self.dims is not None and (self.dims < 2 or self.dims % 2):
            raise ValueError(f"dims={self.dims} must be positive and even: features turn in pairs")

    def query(self, query: Tensor, at: Positions) -> Tensor:
        return self._turned(query, at.query[..., 0])

    def key(self, key: Tensor, at: Positions) -> Tensor:
        return self._turned(key, at.key[..., 0, :])

    def build(self, *, head_dim: int, num_heads: int) -> "Rotary":
        if head_dim % 2 and self.dims is None:
            raise ValueError(f"Rotary turns pairs: head_dim={head_dim} must be even. Or turn some features: dims.")
        if self.dims is not None and self.dims > head_dim:
            raise ValueError(f"Rotary turns dims={self.dims} features, but heads are only head_dim={head_dim} wide.")
        return self

    def onnx(self, graph: Graph, x: str, places: Places, *, side: Literal["query", "key"], head_dim: int) -> str:
        """With tables of cosines and sines."""
        dims, rest = self.dims or head_dim, list[str]()
        if dims < head_dim:
            x, *rest = graph.ops("Split", 2, x, graph.whole(dims, head_dim - dims), axis=-1)
        angle = _angles(torch.arange(places.limit), dims, self.base)
        cos, sin = (graph.op("Gather", graph.table(table), places.query) for table in (angle.cos(), angle.sin()))
        axis = -1
        if self.layout == "interleaved":
            x, axis = graph.shaped(x, 0, 0, 0, dims // 2, 2), 4
            cos, sin = (graph.op("Unsqueeze", table, graph.whole(2)) for table in (cos, sin))
        first, second = graph.ops("Split", 2, x, axis=axis, num_outputs=2)
        turned = graph.op(
            "Concat",
            graph.op("Sub", graph.op("Mul", first, cos), graph.op("Mul", second, sin)),
            graph.op("Add", graph.op("Mul", first, sin), graph.op("Mul", second, cos)),
            axis=axis,
        )
        turned = graph.shaped(turned, 0, 0, 0, dims) if self.layout == "interleaved" else turned
        return graph.op("Concat", turned, *rest, axis=-1) if rest else turned

    def _turned(self, x: Tensor, position: Tensor) -> Tensor:
        if self.dims is None or self.dims == x.shape[-1]:
            return rotated(x, position, self.base, self.layout)
        if self.dims > x.shape[-1]:
            raise ValueError(f"Rotary turns dims={self.dims} features, but the vectors have only {x.shape[-1]}.")
        turned = rotated(x[..., : self.dims], position, self.base, self.layout)
        return torch.cat([turned, x[..., self.dims :]], -1)


@dataclass(frozen=True, kw_only=True)
class GridRotary:
    """Turns one half of the features by the row of a patch, and the other half by its column

    Each half is a `Rotary` of d/2 features, with angles row · base^(−4j/d) and column · base^(−4j/d). Positions count
    the patches of a picture of `columns` columns along the rows; `first` is the position of the first patch, and the
    tokens before it, such as a class token, do not turn. The product of a turned query and a turned key depends on the
    rows and columns between them only, not on the distance in the row of patches:

    >>> q, k, rotary = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8), GridRotary(columns=7)
    >>> def product(i, j):
    ...     at = Positions(query=torch.full((1, 1, 1, 1), i), key=torch.full((1, 1, 1, 1), j))
    ...     return (rotary.query(q, at) * rotary.key(k, at)).sum().item()
    >>> here, moved, beyond = product(0, 8), product(30, 38), product(6, 14)  # 6 ends a row: 14 is two rows below
    >>> round(here - moved, 4) == 0, round(here - beyond, 4) == 0
    (True, False)

    Reference: Heo et al. 2024, "Rotary Position Embedding for Vision Transformer", section 3.2, equation 5.
    """

    kind: ClassVar[str] = "grid_rotary"
    tabled: ClassVar[bool] = True
    by_place: ClassVar[bool] = True
    columns: int
    first: int = 0
    base: float = 100.0
    layout: RotaryLayout = "interleaved"

    def __post_init__(self) -> None:
        require_real(positive=True, base=self.base)
        require_choices(self)
        require_grid(self.columns, self.first)

    def query(self, query: Tensor, at: Positions) -> Tensor:
        return self._turned(query, at.query[..., 0])

    def key(self, key: Tensor, at: Positions) -> Tensor:
        return self._turned(key, at.key[..., 0, :])

    def build(self, *, head_dim: int, num_heads: int) -> "GridRotary":
        _require_fours(head_dim)
        return self

    def onnx(self, graph: Graph, x: str, places: Places, *, side: Literal["query", "key"], head_dim: int) -> str:
        """With tables of cosines and sines."""
        inside = graph.op("Max", graph.op("Sub", places.query, graph.single(self.first)), graph.single(0))
        axis = Rotary(base=self.base, layout=self.layout)
        halves = graph.ops("Split", 2, x, axis=-1, num_outputs=2)
        turned = []
        for half, part in zip(halves, ("Div", "Mod"), strict=True):
            place = graph.op(part, inside, graph.single(self.columns))
            here = replace(places, query=place, key=place)
            turned.append(axis.onnx(graph, half, here, side=side, head_dim=head_dim // 2))
        return graph.op("Concat", *turned, axis=-1)

    def _turned(self, x: Tensor, position: Tensor) -> Tensor:
        _require_fours(x.shape[-1])
        inside = (position - self.first).clamp(min=0)
        by_row, by_column = x.chunk(2, -1)
        return torch.cat(
            [
                rotated(by_row, inside // self.columns, self.base, self.layout),
                rotated(by_column, inside % self.columns, self.base, self.layout),
            ],
            -1,
        )


def _require_fours(head_dim: int) -> None:
    if head_dim % 4:
        raise ValueError(f"GridRotary turns pairs on two axes: head_dim={head_dim} must be a multiple of 4.")


def rotated(
    x: Float[Tensor, "batch heads length dim"],
    position: Int[Tensor, "#batch #heads length"],
    base: float = 10000.0,
    layout: RotaryLayout = "interleaved",
) -> Float[Tensor, "batch heads length dim"]:
    """Each pair of features turned by an angle proportional to the position."""
    if x.shape[-1] % 2:
        raise ValueError(f"Rotary turns pairs: {x.shape[-1]} features must be even. Or turn some features: dims.")
    angle = _angles(position, x.shape[-1], base)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    if layout == "halves":
        first, second = x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def _angles(position: Int[Tensor, "*shape"], dims: int, base: float) -> Float[Tensor, "*shape pairs"]:
    """In float64: a float32 angle at position 10,000 is already off by half a thousandth."""
    pairs = torch.arange(0, dims, 2, device=position.device, dtype=torch.float64)
    return position[..., None] * base ** (-pairs / dims)


QKNormKind = Literal["l2", "rms", "layer"]


class QKNorm(nn.Module):
    """Normalises queries and keys before they are scored, so that scores cannot grow without bound

    * `l2`: q ← g q/‖q‖, k ← k/‖k‖ with one trained g (Henry et al. 2020, equation 3): the score is g cos(q, k), times
      the 1/√d of a scaled dot product if that follows; choose the score "dot" for the paper's form.
    * `rms`: q ← γ_q q/rms(q), k ← γ_k k/rms(k) with a trained vector γ each, one for all heads.
    * `layer`: LayerNorm(q), LayerNorm(k) without shift (Dehghani et al. 2023, section 2.1).

    >>> at, x = Positions.of(query=2, key=2), torch.tensor([[[[3.0, 4.0], [300.0, 400.0]]]])
    >>> QKNorm(head_dim=2, norm="l2").key(x, at).flatten()
    tensor([0.6000, 0.8000, 0.6000, 0.8000])
    """

    by_place: ClassVar[bool] = True

    def __init__(self, *, head_dim: int, norm: QKNormKind = "rms", scale: float = 10.0, eps: float = 1e-6) -> None:
        super().__init__()
        self.head_dim = head_dim
        require_whole(head_dim=head_dim)
        require_choice("norm", norm, get_args(QKNormKind))
        require_real(positive=True, eps=eps)
        require_real(scale=scale)
        self.norm, self.eps = norm, eps
        if norm == "l2":
            self.scale = nn.Parameter(torch.tensor(float(scale)))
        else:
            self.query_weight = nn.Parameter(torch.ones(head_dim))
            self.key_weight = nn.Parameter(torch.ones(head_dim))

    def query(self, query: Tensor, at: Positions) -> Tensor:
        return self._normed(query) * (self.scale if self.norm == "l2" else self.query_weight)

    def key(self, key: Tensor, at: Positions) -> Tensor:
        normed = self._normed(key)
        return normed if self.norm == "l2" else normed * self.key_weight

    def onnx(self, graph: Graph, x: str, places: Places, *, side: Literal["query", "key"], head_dim: int) -> str:
        if self.norm == "l2":
            normed = unit(graph, x, self.eps)
            return graph.op("Mul", normed, graph.weight(self.scale)) if side == "query" else normed
        if self.norm == "layer":
            x = graph.op("Sub", x, graph.op("ReduceMean", x, graph.whole(-1), keepdims=1))
        weight = self.query_weight if side == "query" else self.key_weight
        return graph.op("Mul", graph.rescaled(x, self.eps), graph.weight(weight))

    def _normed(self, x: Tensor) -> Tensor:
        if self.norm == "l2":
            # float16 holds no 1e-6 that it could divide a gradient by.
            return normalize(x, dim=-1, eps=max(self.eps, torch.finfo(x.dtype).tiny))
        if x.shape[-1] != len(self.key_weight):
            raise ValueError(
                f"QKNorm was made for head_dim={len(self.key_weight)}, and is given vectors of {x.shape[-1]} numbers. "
                "Build it with the head_dim of queries and keys."
            )
        # In float32 at least: squares of float16 overflow from 256 on, and the gradient at zeros is 0 · ∞ there.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(-1, keepdim=True) if self.norm == "layer" else wide
        return (centred * (centred.square().mean(-1, keepdim=True) + self.eps).rsqrt()).to(x.dtype)

    def extra_repr(self) -> str:
        return f"head_dim={self.head_dim}, norm={self.norm!r}, eps={self.eps:g}"


@dataclass(frozen=True, kw_only=True)
class QKNormConfig:
    """Configures `QKNorm`, which normalises queries and keys before they are scored."""

    kind: ClassVar[str] = "qk_norm"
    norm: QKNormKind = "rms"
    scale: float = 10.0
    """The initial factor of the cosines for "l2"; the other norms start with a factor of 1 for each feature."""
    eps: float = 1e-6

    def __post_init__(self) -> None:
        require_choices(self)
        require_real(positive=True, eps=self.eps)

    def build(self, *, head_dim: int, num_heads: int) -> QKNorm:
        return QKNorm(head_dim=head_dim, norm=self.norm, scale=self.scale, eps=self.eps)


TransformConfig = Rotary | GridRotary | QKNormConfig
"""The transforms that a configuration can name."""
