"""Softmax over dot products tile by tile, with the backward pass written out: rows are whole, so nothing is merged."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.paths.hidden import finite, nothing_to_silence, silence
from foveate.attention.paths.layout import Tile, joined, over_keys, placed, visible_in
from foveate.attention.paths.path import Formula, share_heads
from foveate.attention.paths.sdpa import dot_product_reasons, dot_product_scale
from foveate.attention.position import Positions
from foveate.attention.score import FactoredScore

KEPT = 2**28
"""Bytes of weights that are kept for the backward pass; more are computed again."""


def attend(
    query: Float[Tensor, "batch heads query dim"],
    key: Float[Tensor, "batch heads key dim"],
    value: Float[Tensor, "batch heads key value_dim"],
    layout: list[Tile],
    hidden: list[Float[Tensor, "#batch #heads _ _"] | None],
    empty: list[Bool[Tensor, "#batch #heads _ 1"] | None],
    scale: float,
) -> Float[Tensor, "batch heads query value_dim"]:
    """softmax(scale · Q Kᵀ + hidden) V, one tile after the other.

    `hidden` is −∞ on hidden pairs (plus a bias); rows in `empty` see nothing, and their `hidden` must be finite.
    """
    return _Tiles.apply(query, key, value, layout, hidden, empty, scale)


def fusing_reasons(formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
    """Why the backward pass is not the one that is written out."""
    reasons = dot_product_reasons(formula, query, key)
    if query.dtype == torch.float16:
        reasons.append("hidden scores may overflow in float16")
    if _learns(formula.bias, at):
        reasons.append("the bias learns")
    return reasons


def _learns(bias: object, at: Positions) -> bool:
    """Whether gradients reach the bias."""
    if bias is None or not torch.is_grad_enabled():
        return False
    assert callable(bias)
    return bool(bias(at.rows(slice(0, 1))).requires_grad)


def context(
    formula: Formula,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    at: Positions,
    key_features: Tensor | None,
    layout: list[Tile],
) -> Tensor | None:
    """Softmax over dot products; None where only the general way keeps what is not finite from leaking."""
    assert isinstance(formula.score, FactoredScore)
    heads = query.shape[1]
    features = formula.score.key_features(share_heads(key, heads)) if key_features is None else key_features
    features, values = features.expand(-1, heads, -1, -1), share_heads(value, heads)
    seen = [visible_in(formula.visibility, at, tile) if tile.columns else None for tile in layout]
    if not finite(features, values):
        if nothing_to_silence(formula.visibility, at):
            return None
        features, values = silence(_seen_by_any(seen, layout, key.shape[2])[:, :, None], features, values)
        if not finite(features, values):
            return None
    hidden: list[Tensor | None] = []
    empty: list[Tensor | None] = []
    for visible, tile in zip(seen, layout, strict=True):
        blind = None if visible is None else ~visible.any(-1, keepdim=True)
        if blind is not None and not bool(blind.any()):
            blind = None
        hidden.append(None if visible is None else _hidden(formula, visible, blind, at, tile, query.dtype))
        empty.append(blind)
    return attend(query, features, values, layout, hidden, empty, dot_product_scale(formula, query))


def _hidden(
    formula: Formula, visible: Tensor, blind: Tensor | None, at: Positions, tile: Tile, dtype: torch.dtype
) -> Tensor:
    """−∞ on hidden pairs, plus the bias; finite in rows that see nothing."""
    shown = visible if blind is None else visible | blind
    hidden = torch.zeros_like(shown, dtype=dtype).masked_fill_(~shown, -torch.inf)
    if formula.bias is None:
        return hidden
    here = at.rows(tile.rows)
    biases = [placed(formula.bias(here.columns(piece)), tile.rows, piece) for piece in tile.columns]
    return hidden + over_keys(biases).to(dtype)


def _seen_by_any(seen: list[Tensor | None], layout: list[Tile], keys: int) -> Tensor:
    """Which keys some query sees: batch heads key."""
    shown = [visible for visible in seen if visible is not None]
    batch, heads = (max([1, *(visible.shape[axis] for visible in shown)]) for axis in (0, 1))
    device = shown[0].device if shown else None
    total = torch.zeros(batch, heads, keys, dtype=torch.bool, device=device)
    for visible, tile in zip(seen, layout, strict=True):
        if visible is None:
            continue
        start, columns = 0, visible.any(-2)
        for piece in tile.columns:
            length = piece.stop - piece.start
            total[:, :, piece] |= columns[..., start : start + length]
            start += length
    return total


class _Tiles(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, layout: list[Tile], hidden: list, empty: list, scale: float
    ) -> Tensor:
        context = value.new_zeros(*query.shape[:3], value.shape[3])
        pairs = sum(tile.pairs for tile in layout) * query.shape[0] * query.shape[1]
        precise = torch.promote_types(query.dtype, torch.float32)
        ctx.kept = pairs * precise.itemsize <= KEPT
        saved = []
        for tile, bias, blind in zip(layout, hidden, empty, strict=True):
            if not tile.columns:
                continue
            scores = _scores(query[:, :, tile.rows], joined(key, tile.columns), bias, scale).to(precise)
            weights = scores.softmax(-1)
            if blind is not None:
                weights.masked_fill_(blind, 0.0)
            if any(ctx.needs_input_grad):
                saved.append(weights if ctx.kept else scores.logsumexp(-1, keepdim=True))
            context[:, :, tile.rows] = weights.to(value.dtype) @ joined(value, tile.columns)
        ctx.save_for_backward(query, key, value, *saved)
        ctx.layout, ctx.hidden, ctx.empty, ctx.scale = layout, hidden, empty, scale
        return context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *saved = ctx.saved_tensors
        grads = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
        numbers = iter(saved)
        for tile, bias, blind in zip(ctx.layout, ctx.hidden, ctx.empty, strict=True):
            if not tile.columns:
                continue
            queries, keys, values = query[:, :, tile.rows], joined(key, tile.columns), joined(value, tile.columns)
            weights = next(numbers)
            if not ctx.kept:
                scores = _scores(queries, keys, bias, ctx.scale).to(weights.dtype)
                weights = scores.sub_(weights).exp_()
                if blind is not None:
                    weights.masked_fill_(blind, 0.0)
            above = grad[:, :, tile.rows]
            _add(grads[2], tile.columns, weights.to(grad.dtype).mT @ above)
            grad_weights = (above @ values.mT).to(weights.dtype)
            slope = torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            slope = slope.mul_(ctx.scale).to(query.dtype)
            grads[0][:, :, tile.rows] = slope @ keys
            _add(grads[1], tile.columns, slope.mT @ queries)
        return (*grads, None, None, None, None)


def _scores(query: Tensor, key: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """scale · Q Kᵀ + bias in one product where the bias is shared by batch and heads."""
    if bias is not None and bias.shape[:2] == (1, 1):
        flat = torch.baddbmm(bias[0], query.flatten(0, 1), key.flatten(0, 1).mT, alpha=scale)
        return flat.unflatten(0, query.shape[:2])
    scores = (query @ key.mT).mul_(scale)
    return scores if bias is None else scores.add_(bias)


def _add(total: Tensor, columns: tuple[slice, ...], part: Tensor) -> None:
    start = 0
    for piece in columns:
        length = piece.stop - piece.start
        total[:, :, piece] += part[:, :, start : start + length]
        start += length
