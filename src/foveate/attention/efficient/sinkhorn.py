"""Sinkhorn attention: blocks of keys are sorted, softly, and a query looks at its own block and at a sorted one."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from foveate.attention import check
from foveate.attention.chooser import Plan, PlannedPath
from foveate.attention.explanation import Explanation
from foveate.attention.mechanism import (
    Context,
    Demand,
    Key,
    KeyFeatures,
    Query,
    Site,
    SiteConfig,
    Value,
    demand_of,
    require_demand,
)
from foveate.attention.normaliser import Softmax
from foveate.attention.paths.hidden import silence, weigh
from foveate.attention.paths.path import share_heads
from foveate.attention.position import Positions, require_places
from foveate.attention.visibility import Visibility, everything

FAR_BELOW = -1e9
"""A logit that exp makes 0. Not −∞, whose differences and gradients are NaN."""
LEAST = -64.0
"""The logarithm of the least share of a mixture. Less counts as 0: a place may hold nothing else, and is divided by it,
and gradients of a division by nearly 0 overflow.
"""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Keys and values in blocks of neighbouring places, whatever their order in the input."""

    key: Float[Tensor, "batch heads blocks size dim"]
    value: Float[Tensor, "batch heads blocks size value_dim"]
    real: Bool[Tensor, "#batch #heads blocks size"]
    """False where there is no key, or one that is hidden from all."""
    place: Tensor
    """#batch #heads 1 key: where each key stands; −1 where it does not count."""
    causal: bool

    @property
    def count(self) -> int:
        return self.key.shape[2]

    @property
    def size(self) -> int:
        return self.key.shape[3]

    def summaries(self) -> tuple[Tensor, Tensor]:
        """The mean key of every block, and of everything before it."""
        precise = torch.promote_types(self.key.dtype, torch.float32)
        number = self.real.sum(-1, keepdim=True).to(precise)
        total = self.key.sum(-2, dtype=precise)
        before = [torch.nn.functional.pad(x.cumsum(2), (0, 0, 1, 0))[:, :, :-1] for x in (total, number)]
        return total / number.clamp(min=1), before[0] / before[1].clamp(min=1)

    def may_mix(self) -> Bool[Tensor, "#batch #heads row column"]:
        """The blocks that may enter the mixture of each block."""
        taken = self.real.any(-1)
        if not self.causal:
            return taken[..., :, None] & taken[..., None, :]
        earlier = torch.ones(self.count, self.count, dtype=torch.bool, device=taken.device).tril(-1)
        return taken[..., None, :] & earlier

    def by_key(self, x: Float[Tensor, "batch heads query place"]) -> Float[Tensor, "batch heads query key"]:
        """From places to keys."""
        index = self.place.clamp(min=0).expand(*x.shape[:3], -1)
        return torch.where(self.place >= 0, x.gather(-1, index), 0.0)


def blocks_of(
    key: Float[Tensor, "batch kv_heads key dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    at: Positions,
    demand: Demand,
    size: int,
    heads: int,
) -> Blocks:
    visible = demand.keys(at)
    key, value = (torch.where(visible.mT, share_heads(part, heads), 0.0) for part in (key, value))
    place = torch.where(visible, at.key, -1)
    length = max(int(part.max()) + 1 for part in (at.query, at.key, torch.zeros(1)) if part.numel())
    length += -length % size
    if at.aligned:
        room = length - key.shape[2]
        key, value = (torch.nn.functional.pad(part, (0, 0, 0, room)) for part in (key, value))
        real = torch.nn.functional.pad(visible, (0, room))
    else:
        key, value = _put(key, place, length), _put(value, place, length)
        real = _put((place >= 0).mT.float(), place, length).mT > 0
    key, value = (part.unflatten(2, (-1, size)) for part in (key, value))
    return Blocks(key, value, real[:, :, 0].unflatten(-1, (-1, size)), place, demand.causal)


def _put(x: Tensor, place: Tensor, length: int) -> Tensor:
    """Every row at its place; rows without one are dropped."""
    index = torch.where(place >= 0, place, length).mT.expand(x.shape)
    room = x.new_zeros(*x.shape[:2], length + 1, x.shape[-1])
    return room.scatter(2, index, x)[:, :, :length]


def balanced(
    logits: Float[Tensor, "batch heads row column"],
    allowed: Bool[Tensor, "#batch #heads row column"],
    iterations: int,
    *,
    causal: bool = False,
) -> Float[Tensor, "batch heads row column"]:
    """exp(logits) with columns and rows divided by their sums in turn; rows last. A row or column of nothing stays 0.

    Causal: a column is divided by the sum of its rows up to here.

    >>> logits = torch.tensor([[[[3.0, 0.0], [3.0, 1.0]]]])
    >>> P = balanced(logits, torch.ones(1, 1, 2, 2, dtype=torch.bool), 20)[0, 0]
    >>> P
    tensor([[0.6225, 0.3775],
            [0.3775, 0.6225]])

    Reference: Sinkhorn 1964; Tay et al. 2020, equations 4 and 5.
    """
    logs = torch.where(allowed, logits, FAR_BELOW)
    logs = torch.where(allowed, logs - logs.logsumexp(-1, keepdim=True), FAR_BELOW)
    for _ in range(iterations):
        columns = logs.logcumsumexp(-2) if causal else logs.logsumexp(-2, keepdim=True)
        logs = torch.where(allowed, logs - columns, FAR_BELOW)
        logs = torch.where(allowed, logs - logs.logsumexp(-1, keepdim=True), FAR_BELOW)
    return torch.where(allowed & (logs > LEAST), logs.exp(), 0.0)


@dataclass(frozen=True, eq=False)
class Sorted:
    """Each block's mixture of blocks, place by place: a mean over the real keys, weighed by P."""

    weights: Float[Tensor, "batch heads row column"]
    mass: Float[Tensor, "batch heads row size"]
    """The mass of P that fell on real keys."""
    key: Float[Tensor, "batch heads blocks size dim"]
    value: Float[Tensor, "batch heads blocks size value_dim"]


class Look:
    """Queries, each at its own block and at that block's mixture."""

    def __init__(
        self, query: Float[Tensor, "batch heads query dim"], blocks: Blocks, mixture: Sorted, at: Positions
    ) -> None:
        self.blocks, self.mixture, self.queries = blocks, mixture, query.shape[2]
        size = blocks.size
        block = (at.query[..., 0] // size).clamp(0, blocks.count - 1)
        self.block = block.expand(*query.shape[:2], -1)
        self.whole = at.aligned
        if self.whole:  # queries fill the blocks: they need not be looked up one by one
            query = torch.nn.functional.pad(query, (0, 0, 0, blocks.count * size - self.queries))
        self.query = query.unflatten(2, (-1, size if self.whole else 1)) * query.shape[-1] ** -0.5
        place = block[..., None] * size + torch.arange(size, device=query.device)
        own = self._rows(blocks.real) & (at.query // size == block[..., None])
        if blocks.causal:
            own = own & (place <= at.query)
        far = self._rows(mixture.mass > 0) & (at.query >= 0)
        self.visible = torch.cat(torch.broadcast_tensors(own, far), -1)
        near, beyond = (self._flat(self.query @ self._of_block(key).mT) for key in (blocks.key, mixture.key))
        self.scores = torch.cat([near, beyond], -1)
        self.weights = Softmax()(self.scores, self.visible)

    def context(self, dropout: float = 0.0) -> Float[Tensor, "batch heads query value_dim"]:
        weights = torch.nn.functional.dropout(self.weights, dropout) if dropout else self.weights
        values = (self.blocks.value, self.mixture.value)
        own, far = map(self._weighed, weights.chunk(2, -1), self.visible.chunk(2, -1), values)
        return own + far

    def _weighed(self, weights: Tensor, visible: Tensor, value: Tensor) -> Tensor:
        """Values of blocks, weighed for each group of queries."""
        value = self._of_block(value)
        weights, visible = (
            self._grouped(part).flatten(0, 2)[:, None] for part in (weights, visible.expand_as(weights))
        )
        context = weigh(weights, value.flatten(0, 2)[:, None], visible)
        return self._flat(context[:, 0].unflatten(0, value.shape[:3]))

    def implied(self) -> Float[Tensor, "batch heads query key"]:
        """The weights over keys: those of the mixture belong to the keys in it."""
        own, far = self.weights.chunk(2, -1)
        mass = self._rows(self.mixture.mass)
        far, mass = torch.where(mass > 0, far, 0.0), torch.where(mass > 0, mass, 1.0)
        # Shares first: a weight over a mass near 0 would overflow.
        share = self._rows(self.mixture.weights)[..., None] * self.blocks.real[:, :, None] / mass[..., None, :]
        of_mixture = share * far[..., None, :]
        return self.blocks.by_key(of_mixture.flatten(-2) + self._spread(own))

    def implied_scores(self) -> Float[Tensor, "batch heads query key"]:
        """q · k in the own block, q · mixture for the other keys."""
        own, far = self.scores.chunk(2, -1)
        inside = self._spread(torch.ones_like(own)) > 0
        return self.blocks.by_key(torch.where(inside, self._spread(own), far.repeat(1, 1, 1, self.blocks.count)))

    def _spread(self, own: Float[Tensor, "batch heads query size"]) -> Float[Tensor, "batch heads query place"]:
        """From places in the own block to places."""
        size = self.blocks.size
        index = self.block[..., None] * size + torch.arange(size, device=own.device)
        return own.new_zeros(*own.shape[:3], self.blocks.count * size).scatter(-1, index, own)

    def _rows(self, x: Tensor) -> Tensor:
        """The row of each query's block, of `batch heads blocks _`."""
        return self._flat(self._of_block(x[..., None, :]))

    def _of_block(self, x: Tensor) -> Tensor:
        """Block by block where queries fill blocks; otherwise the block of each query."""
        if self.whole:
            return x
        x = x.expand(*self.block.shape[:2], *x.shape[2:])
        return x.gather(2, self.block[..., None, None].expand(*self.block.shape, *x.shape[3:]))

    def _flat(self, x: Tensor) -> Tensor:
        """From groups of queries to queries."""
        if self.whole and x.shape[3] == 1:
            x = x.expand(*x.shape[:3], self.blocks.size, -1)
        return x.flatten(2, 3)[:, :, : self.queries]

    def _grouped(self, x: Tensor) -> Tensor:
        room = self.query.shape[2] * self.query.shape[3] - self.queries
        return torch.nn.functional.pad(x, (0, 0, 0, room)).unflatten(2, (-1, self.query.shape[3]))


class SinkhornAttention(nn.Module):
    """context_i = softmax over (own block of i, sorted block of i);  sorted block u = Σ_w P_uw block_w

    Blocks of `block` neighbouring positions. A block is summarised by the mean s_w of its keys; logits s_u W s_w / √d
    over a temperature become a matrix P whose columns and rows sum to 1, by dividing columns and rows in turn
    (Sinkhorn; 0 iterations: softmax of rows). Keys and values are mixed block by block with P, and a query looks at its
    own block and at the mixture: O(n · block + (n / block)² · block).

    Causal: a block is sorted by the keys before it. Its own summary is then the mean of all keys before the block, only
    earlier blocks are mixed, and columns are divided by the sum of the rows so far.

    Differs from the paper: logits compare two summaries, so the length is unlimited (the paper's network has an output
    per block); rows are divided last; no Gumbel noise. Summaries and mixtures exclude hidden keys, and blocks of hidden
    keys do not take part, so padding has no effect.

    `explain` shows implied weights, over the keys in the mixture.

    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(1, 1, 5, 4)
    >>> attention = SinkhornAttention(head_dim=4, block=2)
    >>> weights = attention.explain(query=x, key=x, value=x).weights
    >>> torch.allclose(weights.sum(-1), torch.ones(5)), torch.allclose(weights @ x, attention.run(x, x, x), atol=1e-6)
    (True, True)

    Reference: Tay et al. 2020 (Sparse Sinkhorn Attention), section 3.
    """

    def __init__(
        self,
        *,
        head_dim: int,
        num_heads: int = 1,
        block: int = 32,
        iterations: int = 5,
        temperature: float = 0.75,
        visibility: Visibility | None = None,
    ) -> None:
        super().__init__()
        self.visibility = everything() if visibility is None else visibility
        require_demand(
            "Sinkhorn attention",
            self.visibility,
            may_be_causal=True,
            way_out="it looks at mixtures of whole blocks. Leave the rule out, or choose another kind.",
        )
        check.require_whole(head_dim=head_dim, num_heads=num_heads)
        _require_sorting(block, iterations, temperature)
        self.block, self.iterations, self.temperature = block, iterations, temperature
        self.sorting = nn.Parameter(torch.randn(num_heads, head_dim, head_dim) * head_dim**-0.5)

    def key_features(self, key: Float[Tensor, "batch heads key key_dim"]) -> None:
        """None: the order of blocks depends on which keys are visible."""

    def explain(self, query: Query, key: Key, value: Value, *, at: Positions | None = None) -> Explanation:
        """Implied weights over the keys: O(query · key) memory."""
        look = self._look(query, key, value, at)
        weights = look.implied()
        visible = weights > 0
        (value,) = silence(visible, share_heads(value, query.shape[1]))
        return Explanation(look.implied_scores(), visible, weights, weigh(weights, value, visible), "implied")

    def run(
        self,
        query: Query,
        key: Key,
        value: Value,
        *,
        at: Positions | None = None,
        key_features: KeyFeatures | None = None,
        dropout: float = 0.0,
    ) -> Context:
        """The context, block by block. `dropout` applies to the weights of the own block and of the mixture."""
        return self._look(query, key, value, at).context(dropout)

    def plan(self, query: Query, key: Key, *, at: Positions | None = None) -> Plan:
        """There is one way: block by block."""
        self._placed(query, key, key, at)
        (batch, heads, queries, dim), keys = query.shape, key.shape[2]
        count = -(-keys // self.block)
        pairs = float(batch * heads * queries * 2 * self.block)
        mixing = 4.0 * batch * heads * count * count * self.block * dim
        room = max(query.element_size(), 4) * (3 * pairs + 2.0 * batch * heads * keys * dim)
        because = f"{count} blocks of {self.block} and their mixtures + {self.visibility}"
        only = PlannedPath("sinkhorn", (), 4.0 * pairs * dim + mixing, room)
        return Plan("sinkhorn", because, (only,), "there is one way: block by block")

    def sort(self, blocks: Blocks) -> Sorted:
        """Each block's mixture of blocks."""
        summary, summary_before = blocks.summaries()
        logits = (summary_before if blocks.causal else summary) @ self.sorting.to(summary.dtype) @ summary.mT
        logits, allowed = logits / (summary.shape[-1] ** 0.5 * self.temperature), blocks.may_mix()
        weights = balanced(logits, allowed, self.iterations, causal=blocks.causal).to(blocks.key.dtype)
        mass = weights @ blocks.real.to(weights.dtype)
        some, divisor = (mass > 0)[..., None], torch.where(mass > 0, mass, 1.0)[..., None]
        parts = (blocks.key, blocks.value)
        totals = (weigh(weights, part.flatten(3), allowed).unflatten(3, part.shape[3:]) for part in parts)
        key, value = (torch.where(some, total / divisor, 0.0) for total in totals)
        return Sorted(weights, mass, key, value)

    def _placed(self, query: Tensor, key: Tensor, value: Tensor, at: Positions | None) -> Positions:
        """The positions of queries and keys. Raises ValueError where they do not fit each other or the sorting."""
        check.require_tensors(query, key, value)
        check.require_equal_width("Sinkhorn attention", query, key)
        check.require_made_for(query, self.sorting)
        if at is None and query.shape[2] != key.shape[2]:
            raise ValueError(
                f"Sinkhorn attention looks at the block in which a query stands, but {query.shape[2]} queries and "
                f"{key.shape[2]} keys do not say where they stand. "
                "Pass at=Positions.of(query=..., key=..., query_start=...)."
            )
        at = Positions.of(query.shape[2], key.shape[2], device=query.device) if at is None else at
        require_places(at, query, key)
        return at

    def _look(self, query: Tensor, key: Tensor, value: Tensor, at: Positions | None) -> Look:
        at = self._placed(query, key, value, at)
        blocks = blocks_of(key, value, at, demand_of(self.visibility), self.block, query.shape[1])
        return Look(query, blocks, self.sort(blocks), at)

    def extra_repr(self) -> str:
        num_heads, head_dim, _ = self.sorting.shape
        sizes = f"head_dim={head_dim}, num_heads={num_heads}"
        parts = f"{sizes}, block={self.block}, iterations={self.iterations}, temperature={self.temperature:g}"
        return f"{parts}, visibility={self.visibility}"


@dataclass(frozen=True, kw_only=True)
class SinkhornConfig(SiteConfig[SinkhornAttention]):
    """The own block of neighbours, and one block mixed from all by learned sorting (Tay et al. 2020)."""

    block: int = 32
    iterations: int = 5
    """Rounds in which columns and rows are divided in turn; 0: a softmax of rows, the Long Range Arena's choice."""
    temperature: float = 0.75
    """Below 1, sorting is more decided."""

    def __post_init__(self) -> None:
        _require_sorting(self.block, self.iterations, self.temperature)

    def build_for(self, site: Site) -> SinkhornAttention:
        why = "Sinkhorn attention has a query look at its own block, which another sequence does not have"
        check.require_self(why, site.kind)
        check.require_one_width("Sinkhorn attention", site.query_dim, site.key_dim)
        return SinkhornAttention(
            head_dim=site.key_dim,
            num_heads=site.num_heads,
            block=self.block,
            iterations=self.iterations,
            temperature=self.temperature,
            visibility=site.visibility,
        )


def _require_sorting(block: int, iterations: int, temperature: float) -> None:
    check.require_whole(block=block)
    check.require_whole(0, iterations=iterations)
    check.require_real(positive=True, temperature=temperature)
