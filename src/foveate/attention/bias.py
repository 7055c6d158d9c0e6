"""Floats added to scores before they are normalised. A bias never hides a key: only a visibility rule does."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention.check import require_grid, require_real, require_whole
from foveate.attention.claim import claim
from foveate.attention.onnx import Graph, Places
from foveate.attention.position import Positions

Bias = Callable[[Positions], Float[Tensor, "#batch #heads #query #key"]]
"""A function from positions to floats. An object may state more about itself (`foveate.attention.claim`):

* `by_pair = True`: a pair's number depends on the places of these two alone, so that paths may compute it by itself.
* `by_distance = True`, or a method of positions: it depends on the distance j − i alone; a trace then keeps a table.
* `header()`: `{"kind": "gaussian", "sigma": σ}` for −(j − p_i)² / (2 σ²), which a trace keeps as this one number.
* `symbol`: how it is written in a formula.
* `in_double(at)`: the same numbers in float64; without it, float32 is made wider.
* `onnx(graph, places)`: it as operators (`foveate.attention.onnx`).
"""


def bias_values(bias: Bias, at: Positions, dtype: torch.dtype) -> Float[Tensor, "#batch #heads #query #key"]:
    """The numbers of a bias in a number type: for float64 those of `in_double`, rather than float32 made wider."""
    if dtype == torch.float64 and (exact := claim(bias, "in_double")) is not None:
        double: Tensor = exact(at)
        return double
    return bias(at).to(dtype)


def is_by_pair(bias: Bias | None) -> bool:
    """Whether a bias may be computed for single pairs; None adds nothing to any."""
    return bias is None or bool(claim(bias, "by_pair", False))


def is_by_distance(bias: Bias, at: Positions) -> bool:
    """Whether its numbers at these positions depend on distances alone."""
    by_distance = claim(bias, "by_distance", False)
    return bool(by_distance(at) if callable(by_distance) else by_distance)


@dataclass(frozen=True)
class Alibi:
    """bias_ij = −m_h · |i − j|, with a slope m_h for each head: 2^(−8/H), 2^(−16/H), …

    Press et al. 2022, section 3. When the number of heads H is not a power of two, the remaining slopes are every
    second one of the next larger power, as in the paper's code. The paper is causal; here both sides are penalised.

    >>> Alibi(num_heads=2)(Positions.of(1, 3, query_start=2)).flatten(1)
    tensor([[-0.1250, -0.0625, -0.0000, -0.0078, -0.0039, -0.0000]])
    """

    num_heads: int
    by_pair: ClassVar[bool] = True
    by_distance: ClassVar[bool] = True
    symbol: ClassVar[str] = "−m·|i−j|"

    def __post_init__(self) -> None:
        require_whole(num_heads=self.num_heads)

    def __call__(self, at: Positions) -> Float[Tensor, "#batch heads query key"]:
        return self._slopes(at.device) * (at.query - at.key).abs()

    def in_double(self, at: Positions) -> Float[Tensor, "#batch heads query key"]:
        return self._slopes(at.device, torch.float64) * (at.query - at.key).abs()

    def onnx(self, graph: Graph, places: Places) -> str:
        slopes = graph.table(self._slopes())
        return graph.op("Mul", graph.op("Unsqueeze", places.away(graph), graph.whole(0)), slopes)

    def _slopes(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """−m_h: heads 1 1"""
        power = 2 ** math.floor(math.log2(self.num_heads))
        slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
        slopes += [2 ** (-4 * (2 * head + 1) / power) for head in range(self.num_heads - power)]
        return -torch.tensor(slopes, device=device, dtype=dtype)[:, None, None]


@dataclass(frozen=True)
class Gaussian:
    """bias_ij = −(j − p_i)² / (2 σ²), with p_i the predicted centre of query i, or else its own position

    Reference: Luong et al. 2015, equation 10, where exp(bias) multiplies the weights.

    >>> Gaussian(sigma=1.0)(Positions.of(query=1, key=5, query_start=2)).flatten()
    tensor([-2.0000, -0.5000, -0.0000, -0.5000, -2.0000])
    """

    sigma: float
    by_pair: ClassVar[bool] = True
    symbol: ClassVar[str] = "−(j−p)²/2σ²"

    def __post_init__(self) -> None:
        require_real(positive=True, sigma=self.sigma)

    def __call__(self, at: Positions) -> Float[Tensor, "#batch #heads query key"]:
        centre = at.query if at.centre is None else at.centre
        return (at.key - centre) ** 2 / (-2 * self.sigma**2)

    def in_double(self, at: Positions) -> Float[Tensor, "#batch #heads query key"]:
        centre = at.query if at.centre is None else at.centre
        return (at.key - centre).double() ** 2 / (-2 * self.sigma**2)

    def by_distance(self, at: Positions) -> bool:
        return at.centre is None

    def header(self) -> dict[str, str | float]:
        return {"kind": "gaussian", "sigma": self.sigma}

    def onnx(self, graph: Graph, places: Places) -> str:
        away = places.away(graph)
        return graph.op("Mul", graph.op("Mul", away, away), graph.number(-0.5 / self.sigma**2))


class RelativeBuckets(nn.Module):
    """bias_ij = b_h[bucket(j − i)]: one trained number for each head and each range of distances

    Near distances have a bucket each, farther ones share buckets that widen logarithmically up to `max_distance`, and
    all larger distances share the last. With `bidirectional` half of the buckets are for keys after the query; without
    it, for decoders, all keys after the query fall into the first. Reference: Raffel et al. 2020 (T5), section 2.1.

    >>> bias = RelativeBuckets(num_heads=1, num_buckets=8, max_distance=16, bidirectional=False)
    >>> bias.bucket(-torch.arange(20))
    tensor([0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7])
    """

    by_pair, by_distance, symbol = True, True, "b[bucket(j−i)]"

    def __init__(
        self, *, num_heads: int, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__()
        require_whole(num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance)
        _require_buckets(num_buckets, max_distance, bidirectional=bidirectional)
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self.weight = nn.Parameter(torch.empty(num_buckets, num_heads))
        nn.init.normal_(self.weight, std=0.1)

    def forward(self, at: Positions) -> Float[Tensor, "#batch heads query key"]:
        bucket = self.bucket(at.key - at.query)
        # A bucket's gradient is a sum over many pairs, in which half precision would lose the small ones.
        weight = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32))
        if bucket.shape[1] == 1:
            return weight[bucket[:, 0]].permute(0, 3, 1, 2).to(self.weight.dtype)
        heads = torch.arange(self.weight.shape[1], device=bucket.device)[:, None, None]
        return weight[bucket, heads].to(self.weight.dtype)

    def bucket(self, distance: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The number of the bucket of a distance j − i."""
        buckets, first = self.num_buckets, torch.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            first = (distance > 0) * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        near = buckets // 2
        # In float32 as T5 has it: the edges between buckets depend on how the logarithm is rounded.
        far = torch.log(distance.clamp(min=1).float() / near) / math.log(self.max_distance / near) * (buckets - near)
        return first + torch.where(distance < near, distance, (near + far.long()).clamp(max=buckets - 1))

    def onnx(self, graph: Graph, places: Places) -> str:
        """Beyond the widest distance all share a bucket."""
        far = self.max_distance
        table = self.weight[self.bucket(torch.arange(-far, far + 1))]
        clipped = graph.op("Clip", places.distance(graph), graph.single(-far), graph.single(far))
        place = graph.op("Add", clipped, graph.single(far))
        return graph.turned(graph.op("Gather", graph.table(table), place), 2, 0, 1)

    def extra_repr(self) -> str:
        num_heads = self.weight.shape[1]
        settings = f"num_buckets={self.num_buckets}, max_distance={self.max_distance}"
        return f"num_heads={num_heads}, {settings}, bidirectional={self.bidirectional}"


class GridGaussian(nn.Module):
    """bias_ij = −α_h ‖(j − i) − Δ_h‖²: each head looks at the patch that lies Δ_h rows and columns away

    i and j are places on two axes; the focus α_h and the offset Δ_h are trained. With a large α a head sees one patch,
    whatever the query is. Nine such heads are a convolution of 3 × 3: a CNN is a self-attention with a learned window.
    A head for each place of the kernel takes the values of that place, and the output projection W^O has the kernel's
    matrices. A frame of zeros is the padding.

    >>> picture, kernel = torch.randn(1, 2, 5, 6), torch.randn(4, 2, 3, 3)
    >>> framed = torch.nn.functional.pad(picture, (1, 1, 1, 1))                      # 7 rows of 8 pixels
    >>> offset = torch.cartesian_prod(torch.arange(-1.0, 2), torch.arange(-1.0, 2))  # (−1, −1), (−1, 0) … (1, 1)
    >>> window = GridGaussian(num_heads=9, columns=8, focus=50.0, offset=offset.tolist())
    >>> from foveate.attention import Attention
    >>> pixels = framed.flatten(2).mT[:, None].expand(-1, 9, -1, -1)
    >>> context = Attention(bias=window).run(0 * pixels, 0 * pixels, pixels)         # content does not matter
    >>> output = torch.einsum("bhnc,dch->bdn", context, kernel.flatten(2)).unflatten(2, (7, 8))[..., 1:-1, 1:-1]
    >>> torch.allclose(output, torch.nn.functional.conv2d(picture, kernel, padding=1), atol=1e-5)
    True

    Positions count the patches of a picture of `columns` columns along the rows; `first` is the position of the first
    patch. Pairs with a token before it have the bias 0.

    Reference: Cordonnier, Loukas and Jaggi 2020, "On the Relationship between Self-Attention and Convolutional Layers",
    theorem 1 and equations 9 and 10; offsets begin at random, as in their section 4.2.
    """

    by_pair, symbol = True, "−α·‖(j−i)−Δ‖²"

    def __init__(
        self,
        *,
        num_heads: int,
        columns: int,
        first: int = 0,
        focus: float = 1.0,
        offset: Sequence[Sequence[float | int]] | None = None,
    ) -> None:
        """`offset` has rows and columns for each head; None: drawn with a standard deviation of √2."""
        super().__init__()
        require_whole(num_heads=num_heads)
        require_grid(columns, first)
        require_real(positive=True, focus=focus)
        self.columns, self.first = columns, first
        self.log_focus = nn.Parameter(torch.full((num_heads,), math.log(focus)))
        start = torch.randn(num_heads, 2) * math.sqrt(2) if offset is None else torch.tensor(offset)
        if start.shape != (num_heads, 2):
            raise ValueError(f"offset has shape {tuple(start.shape)}: give rows and columns for each of {num_heads}.")
        self.offset = nn.Parameter(start.float())

    def forward(self, at: Positions) -> Float[Tensor, "#batch heads query key"]:
        return self._values(at, torch.promote_types(self.offset.dtype, torch.float32)).to(self.offset.dtype)

    def in_double(self, at: Positions) -> Float[Tensor, "#batch heads query key"]:
        return self._values(at, torch.float64)

    def onnx(self, graph: Graph, places: Places) -> str:
        distances = []
        for part, offset in zip(("Div", "Mod"), self.offset.detach().unbind(1), strict=True):
            query, key = (self._part(graph, place, part) for place in (places.query, places.key))
            there = graph.op("Unsqueeze", key, graph.whole(0))
            apart = graph.op("Cast", graph.op("Sub", there, graph.op("Unsqueeze", query, graph.whole(1))), to=1)
            away = graph.op("Sub", graph.op("Unsqueeze", apart, graph.whole(0)), graph.table(offset[:, None, None]))
            distances.append(graph.op("Mul", away, away))
        focus = graph.table(-self.log_focus.detach().exp()[:, None, None])
        bias = graph.op("Mul", graph.op("Add", *distances), focus)
        if not self.first:
            return bias
        query, key = (
            graph.op("GreaterOrEqual", place, graph.single(self.first)) for place in (places.query, places.key)
        )
        there, here = graph.op("Unsqueeze", key, graph.whole(0)), graph.op("Unsqueeze", query, graph.whole(1))
        return graph.op("Where", graph.op("And", there, here), bias, graph.number(0.0))

    def _values(self, at: Positions, dtype: torch.dtype) -> Float[Tensor, "#batch heads query key"]:
        query, key = at.query - self.first, at.key - self.first
        offset, focus = self.offset.to(dtype)[..., None, None], self.log_focus.to(dtype).exp()[:, None, None]
        rows = (key // self.columns - query // self.columns).to(dtype) - offset[:, 0]
        columns = (key % self.columns - query % self.columns).to(dtype) - offset[:, 1]
        values = -focus * (rows**2 + columns**2)
        return torch.where((query >= 0) & (key >= 0), values, 0.0) if self.first else values

    def _part(self, graph: Graph, place: str, part: str) -> str:
        """Rows ("Div") or columns ("Mod")."""
        inside = graph.op("Max", graph.op("Sub", place, graph.single(self.first)), graph.single(0))
        return graph.op(part, inside, graph.single(self.columns))

    def extra_repr(self) -> str:
        return f"num_heads={len(self.offset)}, columns={self.columns}, first={self.first}"


@dataclass(frozen=True, kw_only=True)
class AlibiConfig:
    """A penalty that grows with the distance, steeper in some heads than in others (Press et al. 2022)."""

    def build(self, *, num_heads: int, head_dim: int) -> Alibi:
        return Alibi(num_heads)


@dataclass(frozen=True, kw_only=True)
class GaussianConfig:
    """A penalty that grows with the square of the distance."""

    sigma: float

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise ValueError(f"sigma={self.sigma} must be positive")

    def build(self, *, num_heads: int, head_dim: int) -> Gaussian:
        return Gaussian(self.sigma)


@dataclass(frozen=True, kw_only=True)
class RelativeBucketsConfig:
    """A trained number for each head and range of distances (T5)."""

    num_buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True
    """False in a decoder's self-attention, where no key comes after the query."""

    def __post_init__(self) -> None:
        _require_buckets(self.num_buckets, self.max_distance, bidirectional=self.bidirectional)

    def build(self, *, num_heads: int, head_dim: int) -> RelativeBuckets:
        return RelativeBuckets(
            num_heads=num_heads,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
            bidirectional=self.bidirectional,
        )


@dataclass(frozen=True, kw_only=True)
class GridGaussianConfig:
    """A trained window on two axes for each head, as of a convolution (Cordonnier et al. 2020)."""

    kind: ClassVar[str] = "grid_gaussian"
    columns: int
    """The number of patches in a row of the picture."""
    first: int = 0
    """The number of tokens before the grid, such as a class token."""
    focus: float = 1.0
    """The initial factor α; the larger it is, the fewer patches a head sees."""

    def __post_init__(self) -> None:
        require_grid(self.columns, self.first)
        require_real(positive=True, focus=self.focus)

    def build(self, *, num_heads: int, head_dim: int) -> GridGaussian:
        return GridGaussian(num_heads=num_heads, columns=self.columns, first=self.first, focus=self.focus)


def _require_buckets(num_buckets: int, max_distance: int, *, bidirectional: bool) -> None:
    sides = 2 if bidirectional else 1
    if num_buckets < 2 * sides or num_buckets % sides:
        raise ValueError(f"num_buckets={num_buckets} must be at least {2 * sides}, and even for two sides")
    if max_distance <= num_buckets // sides // 2:
        raise ValueError(
            f"max_distance={max_distance} must exceed {num_buckets // sides // 2}, "
            "the distances that have a bucket each"
        )


BiasConfig = AlibiConfig | GaussianConfig | RelativeBucketsConfig | GridGaussianConfig
"""The biases that a configuration can name."""
