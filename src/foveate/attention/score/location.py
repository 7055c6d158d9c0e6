"""Scores that depend on places: where the query points, where the step before looked, how far apart both stand."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import conv1d

from foveate.attention.check import (
    JOINING,
    require_equal_width,
    require_hidden,
    require_made_for,
    require_one_width,
    require_whole,
    require_width,
)
from foveate.attention.position import Positions
from foveate.attention.score.form import PairNetwork, PlacedScore, Product, project, uniform


@runtime_checkable
class FeedbackScore(PlacedScore, Protocol):
    """A score that reads the weights of the step before (`Positions.previous`), so that steps follow one another."""

    def first(self, at: Positions) -> Float[Tensor, "batch 1 1 key"]:
        """The numbers that stand for the weights before the first step."""
        ...


class Location(nn.Module):
    """score(q, k_j) = (W q)_j: the query alone determines where to look

    Luong et al. 2015, "location": a = softmax(W_a h_t) with W_a of `max_length × query_dim`. Places past the end of a
    source are hidden like any padding, which truncates to its length and renormalises. The keys' content plays no
    part:

    >>> score = Location(query_dim=2, max_length=4)
    >>> q, at = torch.randn(1, 1, 1, 2), Positions.of(query=1, key=3)
    >>> torch.equal(score.scores_at(q, torch.zeros(1, 1, 3, 5), at), score.scores_at(q, torch.ones(1, 1, 3, 5), at))
    True

    Raises ValueError for a key past `max_length`: there is no row of W for it.
    """

    def __init__(self, *, query_dim: int, max_length: int, num_heads: int = 1) -> None:
        super().__init__()
        require_whole(query_dim=query_dim, max_length=max_length, num_heads=num_heads)
        self.max_length = max_length
        self.weight = uniform(num_heads, query_dim, max_length, fan_in=query_dim)

    def scores_at(self, query: Tensor, key: Tensor, at: Positions) -> Tensor:
        everywhere = project(query, self.weight)
        return everywhere.gather(-1, self._place(at).expand(*everywhere.shape[:-1], -1))

    def query_features(self, query: Tensor) -> Tensor:
        require_made_for(query, self.weight)
        return query

    def form(self) -> Product:
        return Product(self.query_features, features_at=self.features_at)

    def symbol(self, head_dim: int) -> str:
        return "(W q)_j"

    def features_at(self, at: Positions) -> Float[Tensor, "#batch #heads key query_dim"]:
        """The row of W for each key: scores are its products with queries."""
        place, rows = self._place(at)[:, :, 0], self.weight.mT
        if place.shape[:2] == (1, 1):
            return rows[:, place[0, 0]][None]
        head = torch.arange(len(rows), device=rows.device)[:, None]
        return rows[head, place]

    def _place(self, at: Positions) -> Int[Tensor, "#batch #heads 1 key"]:
        """The row of W for each key. Padding may stand beyond the last row, and gets some row."""
        place = at.key if at.real is None else torch.where(at.real, at.key, 0)
        last = self.weight.shape[-1] - 1
        if place.numel() and int(place.max()) > last:
            raise ValueError(
                f"Location-based attention has learned to point at positions 0 to {last}, but a key stands at "
                f"{int(place.max())}. Shorten the input, or train with a larger max_length."
            )
        return at.key.clamp(0, last)

    def extra_repr(self) -> str:
        num_heads, query_dim, max_length = self.weight.shape
        return f"query_dim={query_dim}, max_length={max_length}, num_heads={num_heads}"


class LocationAware(nn.Module):
    """score_t(q, k_j) = wᵀ tanh(W q + V k_j + U f_tj + b),  f_t = F ∗ α_{t−1}

    Chorowski et al. 2015, equations 8 and 9: additive attention that also reads, through a convolution, the weights of
    the step before. `channels` filters of `width` places (odd, so that a filter is centred). The weights before the
    first step are uniform over the real keys, as in ESPnet; the paper does not specify them. The paper's sharpening is
    `Softmax(temperature=...)`. `Positions.previous` holds the weights before each query, over all keys.

    >>> score = LocationAware(query_dim=2, key_dim=3, hidden_dim=4, channels=1, width=3)
    >>> at = Positions.of(query=1, key=5, key_lengths=torch.tensor([4]))
    >>> score.first(at)
    tensor([[[[0.2500, 0.2500, 0.2500, 0.2500, 0.0000]]]])
    """

    def __init__(
        self,
        *,
        query_dim: int,
        key_dim: int,
        hidden_dim: int,
        channels: int = 10,
        width: int = 101,
        num_heads: int = 1,
    ) -> None:
        super().__init__()
        sizes = {"query_dim": query_dim, "key_dim": key_dim, "hidden_dim": hidden_dim, "num_heads": num_heads}
        require_whole(**sizes, channels=channels, width=width)
        if width % 2 == 0:
            raise ValueError(f"width={width} must be odd: a filter is centred on its key.")
        self.query_weight = uniform(num_heads, query_dim, hidden_dim, fan_in=query_dim)
        self.key_weight = uniform(num_heads, key_dim, hidden_dim, fan_in=key_dim)
        self.feature_weight = uniform(num_heads, channels, hidden_dim, fan_in=channels)
        self.filters = uniform(channels, 1, width, fan_in=width)
        self.bias = nn.Parameter(torch.zeros(num_heads, hidden_dim))
        self.vector = uniform(num_heads, hidden_dim, fan_in=hidden_dim)

    def first(self, at: Positions) -> Float[Tensor, "batch 1 1 key"]:
        """Uniform over the real keys; zeros where there are none."""
        if at.real is None:
            return torch.full((1, 1, 1, at.key.shape[-1]), 1 / max(at.key.shape[-1], 1), device=at.device)
        return at.real / at.key_lengths.clamp(min=1)

    def query_features(self, query: Tensor) -> Tensor:
        return project(query, self.query_weight) + self.bias[:, None, :]

    def key_features(self, key: Tensor) -> Tensor:
        return project(key, self.key_weight)

    def scores_at(
        self, query: Tensor, key: Tensor, at: Positions, *, key_features: Tensor | None = None
    ) -> Float[Tensor, "batch heads query key"]:
        features = self.key_features(key) if key_features is None else key_features
        hidden = self.query_features(query)[..., :, None, :] + features[..., None, :, :]
        return (torch.tanh(hidden + self.feedback(query, at)) * self.vector[:, None, None, :]).sum(-1)

    def form(self) -> PairNetwork:
        return PairNetwork(self.query_features, self.key_features, self.vector, between=self.feedback)

    def symbol(self, head_dim: int) -> str:
        return "wᵀ tanh(W q + V k + U f)"

    def feedback(self, query: Tensor, at: Positions) -> Float[Tensor, "#batch #heads query key hidden_dim"]:
        """U f: for each key, what the weights of the step before contribute."""
        if at.previous is None:
            raise ValueError(
                "Location-aware attention looks at the weights of the step before, and `at.previous` is missing. "
                "Recurrent decoders keep them; where all queries attend at once, choose another score."
            )
        here = slice(at.first_key, at.first_key + at.key.shape[-1])
        return project(self._convolved(at.previous.to(query.dtype))[..., here, :], self.feature_weight[:, None])

    def _convolved(self, previous: Tensor) -> Float[Tensor, "batch heads query all_keys channels"]:
        if not previous.shape[-1]:
            return previous.new_zeros(*previous.shape, len(self.filters))
        rows = previous.reshape(-1, 1, previous.shape[-1])
        filtered = conv1d(rows, self.filters, padding=self.filters.shape[-1] // 2)
        return filtered.mT.unflatten(0, previous.shape[:-1])

    def extra_repr(self) -> str:
        num_heads, query_dim, hidden_dim = self.query_weight.shape
        key_dim, (channels, _, width) = self.key_weight.shape[1], self.filters.shape
        sizes = f"query_dim={query_dim}, key_dim={key_dim}, hidden_dim={hidden_dim}, num_heads={num_heads}"
        return f"{sizes}, channels={channels}, width={width}"


class ShawRelative(nn.Module):
    """score(q_i, k_j) = q_i · (k_j + a_{clip(j − i)}) / √d

    Shaw et al. 2018, equation 4, with one trained vector a for each distance from −`radius` to `radius`, shared by
    the heads; whatever is farther away counts as `radius` away. The product with the 2 · `radius` + 1 vectors is
    made once and gathered: nothing of size query × key × dim exists. The paper's second term, vectors added to the
    *values* (equation 3), is left out: the context would no longer be Σ α v, and the paper finds it of little use
    beside the first (its table 4).

    >>> score = ShawRelative(head_dim=4, radius=2)
    >>> q, k = torch.randn(1, 1, 1, 4), torch.zeros(1, 1, 6, 4)
    >>> first = score.scores_at(q, k, Positions.of(query=1, key=6)).flatten()
    >>> bool((first[2:] == first[2]).all()), bool(first[0] == first[1])
    (True, False)
    """

    by_pair: ClassVar[bool] = True
    """The score of a pair depends on no other frame."""

    def __init__(self, *, head_dim: int, radius: int) -> None:
        super().__init__()
        require_whole(head_dim=head_dim)
        require_whole(0, radius=radius)
        self.radius = radius
        self.vectors = nn.Parameter(torch.empty(2 * radius + 1, head_dim))
        nn.init.normal_(self.vectors, std=head_dim**-0.5)

    def scores_at(self, query: Tensor, key: Tensor, at: Positions) -> Tensor:
        require_equal_width("ShawRelative", query, key)
        require_width(query, self.vectors.shape[-1])
        scaled = query * query.shape[-1] ** -0.5
        distance = (at.key - at.query).clamp(-self.radius, self.radius) + self.radius
        by_distance = scaled @ self.vectors.mT
        # All distant keys share one number, and half precision would lose most of its gradient.
        precise = by_distance.to(torch.promote_types(by_distance.dtype, torch.float32))
        gathered = precise.gather(-1, distance.expand(*query.shape[:-1], -1))
        return scaled @ key.mT + gathered.to(by_distance.dtype)

    def symbol(self, head_dim: int) -> str:
        return f"q·(k + a_{{j−i}}) / √{head_dim}"

    def extra_repr(self) -> str:
        return f"head_dim={self.vectors.shape[1]}, radius={self.radius}"


@dataclass(frozen=True, kw_only=True)
class LocationConfig:
    """(W q)_j: the query alone determines where to look (Luong et al. 2015)."""

    max_length: int = 512
    """The longest source, in tokens."""

    def __post_init__(self) -> None:
        require_whole(max_length=self.max_length)

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> Location:
        return Location(query_dim=query_dim, max_length=self.max_length, num_heads=num_heads)


@dataclass(frozen=True, kw_only=True)
class LocationAwareConfig:
    """wᵀ tanh(W q + V k + U f + b) with f the step before, convolved (Chorowski et al. 2015). In recurrent decoders."""

    hidden_dim: int | None = None
    """By default the query's width."""
    channels: int = 10
    width: int = 101
    """Places that a filter covers: odd."""
    needs_step_before: ClassVar[bool] = True
    """Only decoders that take one step after the other have the weights of the step before."""

    def __post_init__(self) -> None:
        require_hidden(self.hidden_dim)
        require_whole(channels=self.channels)
        if self.width < 1 or self.width % 2 == 0:
            raise ValueError(f"width={self.width} must be odd: a filter is centred on its key")

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> LocationAware:
        sizes = {"query_dim": query_dim, "key_dim": key_dim, "num_heads": num_heads}
        hidden_dim = self.hidden_dim or query_dim
        return LocationAware(**sizes, hidden_dim=hidden_dim, channels=self.channels, width=self.width)


@dataclass(frozen=True, kw_only=True)
class ShawRelativeConfig:
    """q · (k + a_{j−i}) / √d with trained vectors for distances (Shaw et al. 2018)."""

    radius: int = 16
    """Distances beyond it are not told apart."""

    def __post_init__(self) -> None:
        require_whole(0, radius=self.radius)

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> ShawRelative:
        require_one_width("ShawRelative", query_dim, key_dim, JOINING)
        return ShawRelative(head_dim=query_dim, radius=self.radius)
