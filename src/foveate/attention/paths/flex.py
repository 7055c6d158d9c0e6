"""torch's FlexAttention: rules and biases compiled into one fused kernel that skips hidden blocks."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from foveate.attention.paths.dot import dot_product_reasons, dots
from foveate.attention.paths.hidden import finite, nothing_to_silence
from foveate.attention.paths.materialised import materialise
from foveate.attention.paths.path import Cost, Formula, Inputs, ShippedPath, count_pairs, empty_reasons
from foveate.attention.position import Positions
from foveate.attention.visibility import Visibility

BLOCK = 128


@dataclass(frozen=True)
class FlexPath(ShippedPath):
    """Dot products under softmax, with any rule that judges single pairs, in O(length) memory; a bias is computed for
    all pairs.

    It is made for GPUs. On a CPU, torch compiles for every new size, which takes up to half a minute, without a
    backward pass: there the path refuses, unless `FlexPath(on_cpu=True)` allows it and no gradients are wanted.
    """

    on_cpu: bool = False
    name = "flex"

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        reasons = [*dot_product_reasons(formula, query, key), *self._device_reasons(query, key)]
        if not formula.visibility.by_pair:
            reasons.append(f"{formula.visibility} does not judge single pairs")
        if isinstance(formula.bias, nn.Module):
            reasons.append("no gradients for a learned bias")
        return reasons + empty_reasons(query, key)

    def _device_reasons(self, query: Tensor, key: Tensor) -> list[str]:
        reasons = []
        training = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad)
        if query.device.type == "cpu" and not self.on_cpu:
            reasons.append("compiles for every new size on a CPU; FlexPath(on_cpu=True) allows it")
        elif query.device.type == "cpu" and training:
            reasons.append("no backward on a CPU")
        elif query.device.type not in ("cpu", "cuda", "xpu"):
            reasons.append(f"no kernel for {query.device.type}")
        if query.dtype == torch.float64:
            reasons.append("no kernel for torch.float64")
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        pairs = count_pairs(query, key)
        if formula.visibility.hides:
            pairs = min(formula.visibility.pairs(at, query.shape[1]) * (query.shape[0] if _shared(at) else 1), pairs)
        table = query.shape[2] * key.shape[2] * 4.0 * query.shape[1] if formula.bias is not None else 0.0
        return Cost(4.0 * pairs * key.shape[3], table)

    def context(self, inputs: Inputs) -> Tensor:
        formula, at = inputs.formula, inputs.at
        rule = formula.visibility
        query, key, value, scale = dots(inputs, None if nothing_to_silence(rule, at) else rule(at))
        if inputs.dropout or not finite(key, value):  # dropped weights and hidden NaN are left to the reference
            return materialise(*inputs).context
        return _kernel()(
            *(tensor.contiguous() for tensor in (query, key, value)),
            score_mod=None if formula.bias is None else _score_mod(formula, at),
            block_mask=_block_mask(rule, len(query), at) if rule.hides else None,
            scale=scale,
        )


@functools.cache
def _kernel() -> Callable[..., Any]:
    return torch.compile(flex_attention, dynamic=False)


def _block_mask(rule: Visibility, batch: int, at: Positions) -> BlockMask:
    """The visible blocks; kept for rules that read positions only, because it takes long to compute."""
    if rule.lasting and at.aligned and at.real is None and at.key_segment is None:
        return _kept_mask(rule, at.query.shape[2], str(at.device))
    return _made_mask(rule, at, None if _shared(at) else batch)


@functools.lru_cache(maxsize=64)
def _kept_mask(rule: Visibility, length: int, device: str) -> BlockMask:
    return _made_mask(rule, Positions.of(length, length, device=device), None)


def _made_mask(rule: Visibility, at: Positions, batch: int | None) -> BlockMask:
    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return rule(_pair(at, b, h, q, k))

    lengths = (at.query.shape[2], at.key.shape[3])
    return create_block_mask(sees, batch, None, *lengths, device=str(at.device), BLOCK_SIZE=BLOCK)


def _score_mod(formula: Formula, at: Positions) -> Callable[..., Tensor]:
    assert formula.bias is not None
    table = formula.bias(at)

    def biased(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return score + _entry(table, b, h, q, k).to(score.dtype)

    return biased


def _placed(at: Positions) -> dict[str, Tensor]:
    """The tensors that rules read."""
    names = ("query", "key", "real", "centre", "query_segment", "key_segment")
    return {name: part for name in names if (part := getattr(at, name)) is not None}


def _shared(at: Positions) -> bool:
    """Whether all examples of the batch have the same positions."""
    return all(part.shape[0] == 1 for part in _placed(at).values())


def _pair(at: Positions, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Positions:
    """One query and one key of one example and head, as scalars: the compiler knows no shapes inside a kernel."""
    chosen: dict[str, Any] = {name: _entry(part, b, h, q, k) for name, part in _placed(at).items()}
    return replace(at, aligned=False, **chosen)


def _entry(table: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """The number for one pair, from a tensor that may be shared along any axis."""
    place = (b, h, q, k)
    return table[tuple(index if size > 1 else 0 for index, size in zip(place, table.shape, strict=True))]
