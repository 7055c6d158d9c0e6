"""Reformer: attention inside buckets of hashed vectors."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foveate.attention.attention import Attention
from foveate.attention.check import require_equal_width, require_one_width, require_whole, require_width
from foveate.attention.efficient.bucket import NOWHERE, SPACING, HashedPath, SameBucket, SharedDot
from foveate.attention.efficient.demand import demand_of
from foveate.attention.paths.materialised import MaterialisedPath
from foveate.attention.paths.path import share_heads
from foveate.attention.position import Positions
from foveate.attention.visibility import Visibility, everything


class ReformerAttention(Attention):
    """context_i = Σ_{j ∈ P_i} softmax_j(q_i · k_j / (‖k_j‖ √d)) v_j,  P_i = ∪_r {j : h_r(k_j) = h_r(q_i), j near i}

    h(x) = argmax [x R; −x R] with R random. A bucket is cut into chunks, in the order of positions; a query sees its
    own chunk and the one before. Rounds with other R are joined into one softmax over the union, each pair counted
    once. Self-attention, with one tensor for queries and keys (`shares_query_and_key`): O(n · chunk · rounds).

    Differs from the paper: chunks are counted from the beginning of each bucket, and not of the sequence sorted by
    buckets, where later tokens and padding shift the borders that earlier tokens see. So it is causal to the letter,
    steps give what the whole gives, and padding has no say. R is a buffer; `redraw` draws it anew from a seed.

    >>> x = torch.tensor([[1.0, 0.1], [-1.0, 0.0], [0.9, 0.0], [-0.8, 0.1]])[None, None]
    >>> attention = ReformerAttention(head_dim=2, buckets=2, chunk=4)
    >>> attention.explain(x, x, x).weights[0, 0]              # two directions, two buckets, nobody sees himself
    tensor([[0., 0., 1., 0.],
            [0., 0., 0., 1.],
            [1., 0., 0., 0.],
            [0., 1., 0., 0.]])

    Reference: Kitaev et al. 2020, section 2 and appendix A.
    """

    shares_query_and_key = True
    rotation: Float[Tensor, "rounds head_dim half_buckets"]

    def __init__(
        self,
        *,
        head_dim: int,
        buckets: int = 8,
        rounds: int = 2,
        chunk: int = 32,
        seed: int = 0,
        visibility: Visibility | None = None,
    ) -> None:
        require_whole(head_dim=head_dim, buckets=buckets, rounds=rounds, chunk=chunk)
        require_whole(-math.inf, seed=seed)
        if buckets != 1 and buckets % 2:
            raise ValueError(f"buckets={buckets} must be even: they come in pairs x R and −x R.")
        self.demanded = everything() if visibility is None else visibility
        super().__init__(
            SharedDot(), visibility=self.demanded & SameBucket(chunk), paths=(HashedPath(), MaterialisedPath())
        )
        self.chunk = chunk
        self.register_buffer("rotation", torch.empty(rounds, head_dim, buckets // 2))
        self.redraw(seed)

    @torch.no_grad()
    def redraw(self, seed: int) -> None:
        """Other hash functions, always the same for a seed."""
        self.rotation.copy_(torch.randn(self.rotation.shape, generator=torch.Generator().manual_seed(seed)))

    def _placed(
        self, query: Tensor, key: Tensor, value: Tensor, at: Positions | None
    ) -> tuple[Tensor, Tensor, Positions]:
        query, key, at = super()._placed(query, key, value, at)
        require_equal_width("Reformer", query, key)
        require_width(query, self.rotation.shape[1])
        counted = demand_of(self.demanded).keys(at)
        return query, key, self.hashed(query.detach(), key.detach(), at, counted)

    def hashed(
        self,
        query: Float[Tensor, "batch heads query dim"],
        key: Float[Tensor, "batch kv_heads key dim"],
        at: Positions,
        counted: Bool[Tensor, "#batch #heads 1 key"],
    ) -> Positions:
        """Where queries and keys fall. Keys hidden from everybody are not counted; a query there sees nothing."""
        last = max(1, 2 * self.rotation.shape[-1])
        of_key = self._buckets(share_heads(key, query.shape[1]))
        of_key = torch.where(counted, of_key, last)
        of_query = self._buckets(query)
        place = at.key.expand(*of_key.shape[:2], 1, -1)
        code = (of_key * SPACING + torch.where(counted, place, 0)).sort(-1).values
        query_place = at.query.mT.expand(*of_query.shape[:2], 1, -1)
        mine, theirs = self._chunks(code, of_query, query_place), self._chunks(code, of_key, place)
        real = counted & (query_place >= 0) if at.aligned else query_place >= 0
        mine = torch.where(real, mine, 2 * NOWHERE)
        return replace(at, query_bucket=mine.mT, key_bucket=torch.where(counted, theirs, NOWHERE))

    def _buckets(self, x: Tensor) -> Int[Tensor, "batch heads rounds length"]:
        """h_r(x)"""
        if self.rotation.shape[-1] == 0:
            return torch.zeros(*x.shape[:2], len(self.rotation), x.shape[2], dtype=torch.long, device=x.device)
        turned = x[:, :, None] @ self.rotation.to(x.dtype)
        return torch.cat([turned, -turned], -1).argmax(-1)

    def _chunks(self, code: Tensor, bucket: Tensor, place: Tensor) -> Int[Tensor, "batch heads rounds length"]:
        """Bucket and chunk in one number, from how many keys of the bucket stand before a place."""
        start = torch.searchsorted(code, (bucket * SPACING).contiguous())
        before = torch.searchsorted(code, (bucket * SPACING + place.clamp(min=0)).contiguous())
        return bucket * SPACING + (before - start) // self.chunk

    def extra_repr(self) -> str:
        rounds, head_dim, half = self.rotation.shape
        sizes = f"head_dim={head_dim}, buckets={max(1, 2 * half)}, rounds={rounds}, chunk={self.chunk}"
        return f"{sizes}, visibility={self.demanded}"


@dataclass(frozen=True, kw_only=True)
class ReformerConfig:
    """Attention inside buckets of hashed vectors (Kitaev et al. 2020)."""

    buckets: int = 8
    rounds: int = 2
    """Independent hashings; a pair is seen if any of them brings it together."""
    chunk: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("buckets", "rounds", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be positive.")
        if self.buckets != 1 and self.buckets % 2:
            raise ValueError(f"buckets={self.buckets} must be even: they come in pairs x R and −x R.")

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility,
        kind: Literal["self", "cross"],
    ) -> ReformerAttention:
        if kind == "cross":
            raise ValueError(
                "Reformer makes queries and keys from one tensor: it is self-attention. "
                'Choose another kind for cross-attention, such as "attention".'
            )
        require_one_width("Reformer", query_dim, key_dim)
        return ReformerAttention(
            head_dim=key_dim,
            buckets=self.buckets,
            rounds=self.rounds,
            chunk=self.chunk,
            seed=self.seed,
            visibility=visibility,
        )
