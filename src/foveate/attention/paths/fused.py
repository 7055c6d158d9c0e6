"""Softmax over dot products tile by tile, with a hand-written backward pass. Rows are whole, so nothing is merged."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from foveate import machine
from foveate.attention.bias import bias_values
from foveate.attention.normaliser.normaliser import undecided
from foveate.attention.paths.derivative import by_definition
from foveate.attention.paths.dot import attended, dot_product_reasons, dots
from foveate.attention.paths.hidden import finite, nothing_to_silence
from foveate.attention.paths.layout import Tile, joined, over_tile
from foveate.attention.paths.path import Formula, Inputs
from foveate.attention.position import Positions

AT_ONCE = 2**20
"""Scores that are computed together on a CPU: more would leave its cache."""
KEPT = 2**28
"""Bytes of weights that are kept for the backward pass; more are computed again."""
SHARED = 2**24
"""Bytes of hidden pairs that are kept with the positions, for all layers. Under a narrow window, they take as much time
as the products.
"""


@dataclass(frozen=True, eq=False)
class Hiding:
    """The pairs that are hidden in each tile, computed on request, because all tiles together may be the whole map."""

    formula: Formula
    at: Positions
    dtype: torch.dtype
    earlier: "Earlier | None"
    """By the place of a tile, where all are kept."""

    def __call__(self, tile: Tile) -> "Hidden":
        if self.earlier is None:
            return self._made(tile)
        place = self._place(tile)
        if place not in self.earlier:
            self.earlier[place] = self._made(tile)
        return self.earlier[place]

    def _place(self, tile: Tile) -> tuple[int, ...]:
        """The first row; under a band, the distance of its keys, which most tiles have in common."""
        first, stop = tile.rows.start, tile.rows.stop
        if not self._by_distance or len(tile.columns) != 1:
            return (first,)
        (keys,) = tile.columns
        return first - keys.start, stop - first, keys.stop - keys.start

    @cached_property
    def _by_distance(self) -> bool:
        """Whether a pair is hidden by the distance of query and key alone."""
        _, pads, rest = self.formula.visibility.split()
        return self.at.aligned and not rest and self.formula.bias is None and (not pads or self.at.real is None)

    def _made(self, tile: Tile) -> "Hidden":
        visible, bias = over_tile(self.formula.visibility, self.at, tile), self.formula.bias
        empty = ~visible.any(-1, keepdim=True)
        blind = empty if bool(empty.any()) else None
        shown = visible if blind is None else visible | blind
        hidden = torch.zeros_like(shown, dtype=self.dtype).masked_fill_(~shown, -torch.inf)
        if bias is not None:
            return Hidden(hidden + over_tile(partial(bias_values, bias, dtype=self.dtype), self.at, tile), 0, blind)
        # Keys that every query of the tile sees need no bias: under causal(), all but the last.
        partly = (~visible).flatten(0, 2).any(0).nonzero()
        first = int(partly[0]) if len(partly) else visible.shape[-1]
        return Hidden(hidden[..., first:], first, blind)


@dataclass(frozen=True, eq=False)
class Hidden:
    """−∞ on the hidden pairs of a tile, from key number `first` on, plus a bias."""

    bias: Float[Tensor, "#batch #heads rows columns"]
    first: int
    empty: Bool[Tensor, "#batch #heads rows 1"] | None
    """Rows that see nothing; their bias is finite."""

    def of(self, examples: slice, heads: slice) -> "Hidden":
        """The part for some examples and heads."""

        def part(tensor: Tensor) -> Tensor:
            tensor = tensor if tensor.shape[0] == 1 else tensor[examples]
            return tensor if tensor.shape[1] == 1 else tensor[:, heads]

        return Hidden(part(self.bias), self.first, None if self.empty is None else part(self.empty))


Earlier = dict[tuple[int, ...], Hidden]


def context(inputs: Inputs, layout: list[Tile]) -> Tensor | None:
    """The context; None where numbers that are not finite would leak, as they do not in the general way."""
    formula, query, key, value, at, key_features, _ = inputs
    clean, visible_keys = finite(key if key_features is None else key_features, value), None
    if not clean:
        if nothing_to_silence(formula.visibility, at):
            return None
        visible_keys = torch.zeros(*query.shape[:2], 1, key.shape[2], dtype=torch.bool, device=key.device)
        for tile in layout:
            if tile.columns:
                shown = over_tile(formula.visibility, at, tile).any(-2, keepdim=True)
                for piece, part in tile.places():
                    visible_keys[..., piece] |= shown[..., part]
    query, key, value, scale = dots(inputs, visible_keys)
    if not clean and not finite(key, value):
        return None
    hiding = Hiding(formula, at, query.dtype, _earlier(formula, at, query, layout))
    return attend(query, key, value, layout, hiding, scale)


def _earlier(formula: Formula, at: Positions, query: Tensor, layout: list[Tile]) -> "Earlier | None":
    """The hidden pairs of all tiles, to be filled: for all layers where they are few and follow from the positions."""
    pairs = sum(tile.pairs for tile in layout) * (len(query) if at.real is not None else 1)
    if pairs * query.element_size() > KEPT:
        return None
    rule, nothing = formula.visibility, dict[tuple[int, ...], Hidden]()
    if formula.bias is not None or not rule.lasting or pairs * query.element_size() > SHARED:
        return nothing
    return at.known(("hidden", rule, layout[0].rows.stop, query.dtype), lambda: nothing)


def attend(
    query: Float[Tensor, "batch heads query dim"],
    key: Float[Tensor, "batch heads key dim"],
    value: Float[Tensor, "batch heads key value_dim"],
    layout: list[Tile],
    hiding: Hiding,
    scale: float,
) -> Float[Tensor, "batch heads query value_dim"]:
    """softmax(scale · Q Kᵀ + hidden) V, one tile after the other, for as many heads at a time as fit in a cache."""
    tensors, (batch, heads) = (query, key, value), query.shape[:2]
    examples, at_once = together(batch, heads, max([1, *(tile.pairs for tile in layout)]))
    if (examples, at_once) == (batch, heads) or query.device.type != "cpu":
        return _Tiles.apply(*tensors, layout, hiding, scale)
    rows = []
    for row, some in enumerate(zip(*(tensor.split(examples) for tensor in tensors), strict=True)):
        here, contexts = slice(row * examples, (row + 1) * examples), []
        for column, parts in enumerate(zip(*(tensor.split(at_once, dim=1) for tensor in some), strict=True)):
            hidden = partial(_part, hiding, here, slice(column * at_once, (column + 1) * at_once))
            contexts.append(_Tiles.apply(*parts, layout, hidden, scale))
        rows.append(torch.cat(contexts, dim=1))
    return torch.cat(rows)


def together(batch: int, heads: int, pairs: int) -> tuple[int, int]:
    """The numbers of examples and heads that are computed at once, with so many pairs in their largest tile."""
    number = max(1, AT_ONCE // pairs)
    return (max(1, min(batch, number // heads)), heads) if number >= heads else (1, number)


def _part(hiding: Hiding, examples: slice, heads: slice, tile: Tile) -> Hidden:
    return hiding(tile).of(examples, heads)


def fusing_reasons(formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
    """Why the hand-written backward pass does not apply; empty where it does."""
    reasons = dot_product_reasons(formula, query, key)
    if query.dtype == torch.float16:
        reasons.append("hidden scores may overflow in float16")
    if formula.bias is not None and torch.is_grad_enabled() and formula.bias(at.rows(slice(0, 1))).requires_grad:
        reasons.append("the bias learns")
    return reasons


HiddenIn = Callable[[Tile], Hidden]
"""A function that returns the pairs that are hidden in a tile."""


class _Tiles(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: list[Tile],
        hidden_in: HiddenIn,
        scale: float,
    ) -> Tensor:
        context = value.new_zeros(*query.shape[:3], value.shape[3])
        pairs = sum(tile.pairs for tile in layout) * query.shape[0] * query.shape[1]
        precise = torch.promote_types(query.dtype, torch.float32)
        ctx.kept = pairs * precise.itemsize <= KEPT
        saved = []
        ctx.work = _work(query, layout)
        with machine.small_products(ctx.work):
            for tile in layout:
                if not tile.columns:
                    continue
                hidden = hidden_in(tile)
                scores = _scores(query[:, :, tile.rows] * scale, joined(key, tile.columns), hidden).to(precise)
                weights = scores.softmax(-1)
                shut = None
                if undecided(weights):
                    shut = scores.amax(-1, keepdim=True) == -torch.inf
                    weights = weights.masked_fill(shut, 0.0)
                if any(ctx.needs_input_grad) and not ctx.kept:
                    highest, place = scores.max(-1, keepdim=True)
                    sums = highest - weights.gather(-1, place).log()  # log-sum-exp without another exponential
                    saved.append(sums if shut is None else sums.masked_fill(shut, 0.0))
                if hidden.empty is not None:
                    weights.masked_fill_(hidden.empty, 0.0)
                if any(ctx.needs_input_grad) and ctx.kept:
                    saved.append(weights)
                context[:, :, tile.rows] = weights.to(value.dtype) @ joined(value, tile.columns)
        ctx.save_for_backward(query, key, value, *saved)
        ctx.layout, ctx.hidden_in, ctx.scale = layout, hidden_in, scale
        return context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():
            defined = partial(_defined, ctx.layout, ctx.hidden_in, ctx.scale)
            return (*by_definition(defined, (query, key, value), grad), None, None, None)
        # A sum over many tiles in half precision would lose the small ones.
        precise = torch.promote_types(query.dtype, torch.float32)
        grads = torch.zeros_like(query), torch.zeros_like(key, dtype=precise), torch.zeros_like(value, dtype=precise)
        numbers = iter(saved)
        with machine.small_products(ctx.work):
            for tile in ctx.layout:
                if not tile.columns:
                    continue
                queries, keys = query[:, :, tile.rows] * ctx.scale, joined(key, tile.columns)
                weights = next(numbers)
                if not ctx.kept:
                    hidden = ctx.hidden_in(tile)
                    weights = _scores(queries, keys, hidden).to(weights.dtype).sub_(weights).exp_()
                    if hidden.empty is not None:
                        weights.masked_fill_(hidden.empty, 0.0)
                above = grad[:, :, tile.rows]
                _add(grads[2], tile, weights.to(grad.dtype).mT @ above)
                grad_weights = (above @ joined(value, tile.columns).mT).to(weights.dtype)
                slope = torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, weights.dtype).to(query.dtype)
                grads[0][:, :, tile.rows] = (slope @ keys).mul_(ctx.scale)
                _add(grads[1], tile, slope.mT @ queries)
        return grads[0], grads[1].to(key.dtype), grads[2].to(value.dtype), None, None, None


def _defined(
    layout: list[Tile], hidden_in: HiddenIn, scale: float, query: Tensor, key: Tensor, value: Tensor
) -> Tensor:
    """The same tiles in operations that have derivatives of any order."""
    precise = torch.promote_types(query.dtype, torch.float32)
    keys, values = key.to(precise), value.to(precise)
    contexts = []
    for tile in layout:
        queries = query[:, :, tile.rows].to(precise)
        if not tile.columns:
            nothing = queries[..., :0].sum(-1, keepdim=True) + keys[..., :0].sum() + values[..., :0].sum()
            contexts.append(nothing.expand(-1, -1, -1, value.shape[3]))
            continue
        hidden = hidden_in(tile)
        bias = nn.functional.pad(hidden.bias, (hidden.first, 0))
        context = attended(queries, joined(keys, tile.columns), joined(values, tile.columns), scale, bias=bias)
        contexts.append(context if hidden.empty is None else torch.where(hidden.empty, 0.0, context))
    return torch.cat(contexts, 2).to(value.dtype)


def _work(query: Tensor, layout: list[Tile]) -> float:
    """Multiply-adds of one product in the largest tile."""
    pairs = max([0, *(tile.pairs for tile in layout)])
    return float(query.shape[0] * query.shape[1] * query.shape[3] * pairs) if query.shape[2] >= 4 else 0.0


def _scores(query: Tensor, key: Tensor, hidden: Hidden) -> Tensor:
    """Q Kᵀ + bias, in one product where the bias is whole and shared by batch and heads."""
    if hidden.first == 0 and hidden.bias.shape[:2] == (1, 1):
        flat = torch.baddbmm(hidden.bias[0], query.flatten(0, 1), key.flatten(0, 1).mT)
        return flat.unflatten(0, query.shape[:2])
    scores = query @ key.mT
    scores[..., hidden.first :] += hidden.bias
    return scores


def _add(total: Tensor, tile: Tile, part: Tensor) -> None:
    for piece, place in tile.places():
        total[:, :, piece] += part[:, :, place]
