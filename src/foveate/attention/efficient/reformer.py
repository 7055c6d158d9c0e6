"""Reformer: attention inside buckets of hashed vectors."""

import math
from dataclasses import dataclass, replace
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from foveate.attention.attention import Attention
from foveate.attention.check import require_equal_width, require_one_width, require_self, require_whole, require_width
from foveate.attention.mechanism import Site, SiteConfig, demand_of
from foveate.attention.normaliser import softmax_temperature
from foveate.attention.paths.hidden import finite
from foveate.attention.paths.materialised import MaterialisedPath, materialise
from foveate.attention.paths.path import Cost, Formula, Inputs, ShippedPath, empty_reasons, share_heads
from foveate.attention.position import Positions
from foveate.attention.visibility import Visibility, everything

SPACING = 2**32
"""Between the numbers of two buckets: more than any position or chunk."""
NOWHERE = -SPACING
"""The bucket of a key that no query sees; that of a query that sees no key is twice this number."""
SELF = 1e5
"""Subtracted from the score of a position with itself, whose weight is then 0, or 1 where it sees no other key."""
BEFORE, AFTER = 2, 1
"""The numbers of chunks of the sorted order that a query may see before and after its own."""


class ReformerAttention(Attention):
    """context_i = Σ_{j ∈ P_i} softmax_j(q_i · k_j / (‖k_j‖ √d)) v_j,  P_i = ∪_r {j : h_r(k_j) = h_r(q_i), j near i}

    h(x) = argmax [x R; −x R] with R random. A bucket is cut into chunks, in the order of positions; a query sees its
    own chunk and the one before. Rounds with other R are joined into one softmax over the union, each pair counted
    once. Self-attention, with one tensor for queries and keys (`shares_query_and_key`): O(n · chunk · rounds).

    Differs from the paper: chunks are counted from the beginning of each bucket, and not of the sequence sorted by
    buckets, where later tokens and padding shift the borders that earlier tokens see. So it is strictly causal, steps
    give the results of the whole sequence, and padding has no effect. R is a buffer; `redraw` draws it anew from a
    seed.

    >>> x = torch.tensor([[1.0, 0.1], [-1.0, 0.0], [0.9, 0.0], [-0.8, 0.1]])[None, None]
    >>> attention = ReformerAttention(head_dim=2, buckets=2, chunk=4)
    >>> attention.explain(x, x, x).weights[0, 0]              # two directions, two buckets, no position sees itself
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
        _require_buckets(buckets, head_dim=head_dim, rounds=rounds, chunk=chunk)
        require_whole(-math.inf, seed=seed)
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
        return query, key, self._hashed(query.detach(), key.detach(), at)

    def _hashed(self, query: Tensor, key: Tensor, at: Positions) -> Positions:
        """The buckets of queries and keys. Keys hidden from everybody are not counted; a query there sees nothing."""
        counted = demand_of(self.demanded).keys(at)
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
class ReformerConfig(SiteConfig[ReformerAttention]):
    """Attention inside buckets of hashed vectors (Kitaev et al. 2020)."""

    buckets: int = 8
    rounds: int = 2
    """Independent hashings; a pair is seen if any of them brings it together."""
    chunk: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        _require_buckets(self.buckets, rounds=self.rounds, chunk=self.chunk)

    def build_for(self, site: Site) -> ReformerAttention:
        require_self("Reformer makes queries and keys from one tensor: it is self-attention", site.kind)
        require_one_width("Reformer", site.query_dim, site.key_dim)
        return ReformerAttention(
            head_dim=site.key_dim,
            buckets=self.buckets,
            rounds=self.rounds,
            chunk=self.chunk,
            seed=self.seed,
            visibility=site.visibility,
        )


def _require_buckets(buckets: int, **numbers: int) -> None:
    require_whole(buckets=buckets, **numbers)
    if buckets != 1 and buckets % 2:
        raise ValueError(f"buckets={buckets} must be even: they come in pairs x R and −x R.")


@dataclass(frozen=True)
class SameBucket(Visibility):
    """A query sees the keys of its bucket that are in its own chunk of it or in the chunk before, in some round."""

    chunk: int

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads #query #key"]:
        if at.query_bucket is None or at.key_bucket is None:
            return everything()(at)
        rounds = zip(at.query_bucket.unbind(-1), at.key_bucket.unbind(-2), strict=True)
        return reduce(torch.logical_or, (within_reach(query, key) for query, key in rounds))

    def __repr__(self) -> str:
        return f"same_bucket(chunk={self.chunk})"


def within_reach(
    query: Int[Tensor, "*shape query"], key: Int[Tensor, "*shape key"]
) -> Bool[Tensor, "*shape query key"]:
    """Whether a key is in the chunk of a query or in the one before."""
    behind = query[..., :, None] - key[..., None, :]
    return (behind == 0) | (behind == 1)


@dataclass(frozen=True, kw_only=True)
class SharedDot:
    """score(q_i, k_j) = q_i · k_j / (‖k_j‖ √d) − 10⁵ [i = j]

    Kitaev et al. 2020, section 2: keys are the queries at unit length, and a position attends to itself only when it
    sees no other.
    """

    def scores_at(self, query: Tensor, key: Tensor, at: Positions) -> Float[Tensor, "batch heads query key"]:
        scores = query @ normalize(key, dim=-1, eps=_least(key)).mT * query.shape[-1] ** -0.5
        return torch.where(at.query == at.key, scores - SELF, scores)


def _least(key: Tensor) -> float:
    """The least length that a key is divided by: 1e-12 is 0 in float16."""
    return max(1e-12, torch.finfo(key.dtype).tiny)


class HashedPath(ShippedPath):
    """softmax over the pairs that share a bucket and stand near in it: O(n · chunk · rounds) time and memory.

    In the order of (bucket, position), the keys that a query sees are less than two chunks before it and less than one
    after. Rounds are computed side by side and merged by their sums; a pair that r rounds bring together counts 1/r in
    each (the paper's log N_ij). With dropout, the materialised form computes.
    """

    name = "hashed"

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        mine, theirs = at.query_bucket, at.key_bucket
        if mine is None or theirs is None or not isinstance(formula.score, SharedDot):
            return ["nothing is hashed"]
        others = [rule for rule in demand_of(formula.visibility).others if not isinstance(rule, SameBucket)]
        reasons = [f"{rule} is not a rule of buckets" for rule in others] + empty_reasons(query, key)
        if not at.aligned:
            reasons.append("sorting needs query i and key i in one place")
        elif not bool(((mine.mT == theirs) | (theirs < 0)).all()):
            reasons.append("queries and keys fall into different buckets: they are not one tensor")
        if softmax_temperature(formula.normaliser) != 1.0 or formula.bias is not None or formula.reweight is not None:
            reasons.append("rounds are merged for softmax without biases only")
        return reasons

    def pays(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> bool:
        """Sorting pays from about 400 keys on, with the chunks and rounds of the default."""
        return key.shape[2] > _seen_by_each(formula, key, at)

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        pairs = float(query.shape[0] * query.shape[1] * query.shape[2] * _seen_by_each(formula, key, at))
        return Cost(4.0 * pairs * key.shape[3], 4.0 * pairs * max(query.element_size(), 4))

    def context(self, inputs: Inputs) -> Tensor:
        formula, query, key, value, at, _, dropout = inputs
        heads, demand = query.shape[1], demand_of(formula.visibility)
        assert at.query_bucket is not None
        assert at.key_bucket is not None
        visible_keys = demand.keys(at)
        keys, values = (torch.where(visible_keys.mT, share_heads(part, heads), 0.0) for part in (key, value))
        if dropout or not finite(keys, values):
            return materialise(*inputs).context
        bucket = torch.where(at.key_bucket < 0, torch.iinfo(torch.long).max, at.key_bucket)
        order = bucket.sort(dim=-1, stable=True).indices
        chunks = _Chunks(order, min(_chunk(formula), key.shape[2]), _width(formula))
        mine, theirs = at.query_bucket.mT, at.key_bucket
        visible = within_reach(chunks.own(mine, fill=2 * NOWHERE), chunks.windows(theirs, fill=NOWHERE))
        places = torch.arange(key.shape[2], device=query.device).expand_as(theirs)
        here, there = chunks.own(places, fill=-1)[..., :, None], chunks.windows(places, fill=-2)[..., None, :]
        if demand.causal:
            visible = visible & (there <= here)
        scores = (
            chunks.own(query) @ chunks.windows(normalize(keys, dim=-1, eps=_least(keys))).mT * query.shape[-1] ** -0.5
        )
        scores = torch.where(here == there, scores - SELF, scores)
        if len(theirs[0, 0]) > 1:
            scores = scores - chunks.times(mine, theirs).clamp(min=1).to(scores.dtype).log()
        top = torch.where(visible, scores, -torch.inf).detach().amax(-1, keepdim=True)
        shift = torch.where(top.isfinite(), top, 0.0)
        weights = torch.where(visible, (torch.where(visible, scores, shift) - shift).exp(), 0.0)
        parts = (weights @ chunks.windows(values), weights.sum(-1, keepdim=True), top)
        return _merged(*map(chunks.back, parts)).to(value.dtype)


@dataclass(frozen=True, eq=False)
class _Chunks:
    """Each round's positions in the order of (bucket, position), cut into chunks."""

    order: Int[Tensor, "batch heads rounds length"]
    size: int
    width: int

    def own(self, x: Tensor, fill: int = 0) -> Tensor:
        """batch heads rounds chunk size …, from `batch heads length dim` or `batch heads rounds length`."""
        room: tuple[int, ...] = (0, -self.order.shape[-1] % self.size)
        if x.is_floating_point():
            x = x[:, :, None].expand(-1, -1, self.order.shape[2], -1, -1)
            ordered, room = x.gather(3, self.order[..., None].expand(x.shape)), (0, 0, *room)
        else:
            ordered = x.expand_as(self.order).gather(3, self.order)
        return pad(ordered, room, value=fill).unflatten(3, (-1, self.size))

    def windows(self, x: Tensor, fill: int = 0) -> Tensor:
        """For each chunk, those around it, one after the other."""
        own = self.own(x, fill)
        room = (0, 0) * (own.dim() - 4) + (BEFORE, AFTER)
        padded, count = pad(own, room, value=fill), own.shape[3]
        return torch.cat([padded[:, :, :, start : start + count] for start in range(self.width)], dim=4)

    def times(self, mine: Tensor, theirs: Tensor) -> Tensor:
        """In how many rounds the query of each pair sees its key."""
        queries = (self.own(each, fill=2 * NOWHERE) for each in mine.split(1, dim=2))
        keys = (self.windows(each, fill=NOWHERE) for each in theirs.split(1, dim=2))
        return reduce(torch.add, (within_reach(*pair).to(torch.uint8) for pair in zip(queries, keys, strict=True)))

    def back(self, x: Tensor) -> Tensor:
        """From chunks to `batch heads rounds length dim`, in the order of positions."""
        flat = x.flatten(3, 4)[:, :, :, : self.order.shape[-1]]
        return flat.gather(3, self.order.argsort(-1)[..., None].expand(flat.shape))


def _merged(context: Tensor, total: Tensor, top: Tensor) -> Float[Tensor, "batch heads query dim"]:
    """The contexts of `batch heads rounds query dim` joined, from Σ exp(e − top) v and Σ exp(e − top) of each round."""
    highest = top.amax(2, keepdim=True)
    factor = torch.where(top.isfinite(), top - torch.where(highest.isfinite(), highest, 0.0), -torch.inf).exp()
    sums = (total * factor).sum(2)
    return (context * factor).sum(2) / torch.where(sums > 0, sums, 1.0)


def _chunk(formula: Formula) -> int:
    rule = formula.visibility
    return next((part.chunk for part in rule.parts if isinstance(part, SameBucket)), 1)


def _seen_by_each(formula: Formula, key: Tensor, at: Positions) -> int:
    """The number of keys that a query is compared with in all rounds."""
    rounds = 1 if at.query_bucket is None else at.query_bucket.shape[-1]
    return rounds * _width(formula) * min(_chunk(formula), key.shape[2])


def _width(formula: Formula) -> int:
    """In how many chunks of the sorted order the keys of a query lie."""
    return BEFORE + 1 + (0 if demand_of(formula.visibility).causal else AFTER)
