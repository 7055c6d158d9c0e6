"""Floats added to scores before they are normalised. A bias never hides a key: only a visibility rule does."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention.check import require_real, require_whole
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


def _require_buckets(num_buckets: int, max_distance: int, *, bidirectional: bool) -> None:
    sides = 2 if bidirectional else 1
    if num_buckets < 2 * sides or num_buckets % sides:
        raise ValueError(f"num_buckets={num_buckets} must be at least {2 * sides}, and even for two sides")
    if max_distance <= num_buckets // sides // 2:
        raise ValueError(
            f"max_distance={max_distance} must exceed {num_buckets // sides // 2}, "
            "the distances that have a bucket each"
        )


BiasConfig = AlibiConfig | GaussianConfig | RelativeBucketsConfig
"""The biases that a configuration can name."""
