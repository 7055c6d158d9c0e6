"""Keys and values in blocks of neighbouring positions, their soft sorting, and who looks at which."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.efficient.demand import Demand
from foveate.attention.normaliser import Softmax
from foveate.attention.paths.hidden import weigh
from foveate.attention.paths.path import share_heads
from foveate.attention.position import Positions

FAR_BELOW = -1e9
"""A logit that exp makes 0. Not −∞, of which differences and gradients are NaN."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Keys and values at the places where they stand, whatever their order was."""

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
        """Which blocks may enter the mixture of which."""
        taken = self.real.any(-1)
        if not self.causal:
            return taken[..., :, None] & taken[..., None, :]
        earlier = torch.ones(self.count, self.count, dtype=torch.bool, device=taken.device).tril(-1)
        return taken[..., None, :] & earlier

    def undone(self, x: Float[Tensor, "batch heads query place"]) -> Float[Tensor, "batch heads query key"]:
        """From places to keys."""
        index = self.place.clamp(min=0).expand(*x.shape[:3], -1)
        return torch.where(self.place >= 0, x.gather(-1, index), 0.0)

    def undone_value(self) -> Float[Tensor, "batch heads key value_dim"]:
        flat = self.value.flatten(2, 3)
        index = self.place.clamp(min=0).mT.expand(*flat.shape[:2], -1, flat.shape[-1])
        return torch.where(self.place.mT >= 0, flat.gather(2, index), 0.0)


def blocks_of(
    key: Float[Tensor, "batch kv_heads key dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    at: Positions,
    demand: Demand,
    size: int,
    heads: int,
) -> Blocks:
    seen = demand.keys(at).expand(-1, -1, 1, key.shape[2])
    key, value = (torch.where(seen.mT, share_heads(part, heads), 0.0) for part in (key, value))
    place = torch.where(seen, at.key, -1)
    length = max(int(part.max()) + 1 for part in (at.query, at.key, torch.zeros(1)) if part.numel())
    length += -length % size
    if at.aligned:
        room = length - key.shape[2]
        key, value = (torch.nn.functional.pad(part, (0, 0, 0, room)) for part in (key, value))
        real = torch.nn.functional.pad(seen, (0, room))
    else:
        key, value = _put(key, place, length), _put(value, place, length)
        ones = torch.ones(*place.shape[:2], place.shape[-1], 1, device=key.device)
        real = _put(ones, place, length).mT > 0
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
    return torch.where(allowed, logs.exp(), 0.0)


@dataclass(frozen=True, eq=False)
class Sorted:
    """Each block's mixture of blocks, place by place: a mean over the real keys, weighed by P."""

    weights: Float[Tensor, "batch heads row column"]
    mass: Float[Tensor, "batch heads row size"]
    """How much of P fell on real keys."""
    key: Float[Tensor, "batch heads blocks size dim"]
    value: Float[Tensor, "batch heads blocks size value_dim"]

    @classmethod
    def of(cls, blocks: Blocks, weights: Float[Tensor, "batch heads row column"]) -> "Sorted":
        mass = weights @ blocks.real.to(weights.dtype)
        allowed = blocks.may_mix()
        mixed = []
        for part in (blocks.key, blocks.value):
            total = weigh(weights, part.flatten(3), allowed).unflatten(3, part.shape[3:])
            mixed.append(torch.where(mass > 0, total.movedim(-1, 0) / torch.where(mass > 0, mass, 1.0), 0.0))
        return cls(weights, mass, mixed[0].movedim(0, -1), mixed[1].movedim(0, -1))


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
        own = self._flat(self._of_block(blocks.real[..., None, :])) & (at.query // size == block[..., None])
        if blocks.causal:
            own = own & (place <= at.query)
        far = self._flat(self._of_block((mixture.mass > 0)[..., None, :])) & (at.query >= 0)
        self.visible = torch.cat(torch.broadcast_tensors(own, far), -1)
        near, beyond = (self._flat(self.query @ self._of_block(key).mT) for key in (blocks.key, mixture.key))
        self.scores = torch.cat([near, beyond], -1)
        self.weights = Softmax()(self.scores, self.visible)

    def context(self, dropout: float = 0.0) -> Float[Tensor, "batch heads query value_dim"]:
        weights = torch.nn.functional.dropout(self.weights, dropout) if dropout else self.weights
        context = None
        for part, visible, value in zip(
            weights.chunk(2, -1), self.visible.chunk(2, -1), (self.blocks.value, self.mixture.value), strict=True
        ):
            values = self._of_block(value)
            grouped = [self._grouped(tensor).flatten(0, 2) for tensor in (part, visible.expand_as(part))]
            found = weigh(grouped[0][:, None], values.flatten(0, 2)[:, None], grouped[1][:, None])
            found = self._flat(found[:, 0].unflatten(0, values.shape[:3]))
            context = found if context is None else context + found
        assert context is not None
        return context

    def implied(self) -> Float[Tensor, "batch heads query key"]:
        """The weights over keys: the mixture's are handed on to the keys that it is made of."""
        own, far = self.weights.chunk(2, -1)
        mass = self._rows(self.mixture.mass)
        share = torch.where(mass > 0, far / torch.where(mass > 0, mass, 1.0), 0.0)
        passed_on = self._rows(self.mixture.weights)[..., None] * share[..., None, :] * self.blocks.real[:, :, None]
        return self.blocks.undone(passed_on.flatten(-2) + self._spread(own))

    def implied_scores(self) -> Float[Tensor, "batch heads query key"]:
        """q · k in the own block, q · mixture for the other keys."""
        own, far = self.scores.chunk(2, -1)
        inside = self._spread(torch.ones_like(own)) > 0
        return self.blocks.undone(torch.where(inside, self._spread(own), far.repeat(1, 1, 1, self.blocks.count)))

    @staticmethod
    def weighed(weights: Tensor, value: Tensor, visible: Tensor) -> Tensor:
        return weigh(weights, value, visible)

    def _spread(self, own: Float[Tensor, "batch heads query size"]) -> Float[Tensor, "batch heads query place"]:
        """From places in the own block to places."""
        size = self.blocks.size
        index = self.block[..., None] * size + torch.arange(size, device=own.device)
        return own.new_zeros(*own.shape[:3], self.blocks.count * size).scatter(-1, index, own)

    def _rows(self, x: Float[Tensor, "batch heads blocks _"]) -> Float[Tensor, "batch heads query _"]:
        """What belongs to the block of each query."""
        return x.gather(2, self.block[..., None].expand(*self.block.shape, x.shape[-1]))

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
