"""Converts masks of the transformers library to rules.

The library describes a mask by nested functions of the indices of query and key. Functions with readings names become
rules of ours, which kernels support natively; the rule is compared with the functions on a sample of pairs. Unknown
functions are evaluated for every pair.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.utils._pytree import tree_map

from foveate.attention import Positions, Visibility, block, causal, everything, nothing, padding, same_segment, window
from foveate.hugging_face.guest_formula import Given
from foveate.hugging_face.standing import Standing

SAMPLED = 8
"""The number of queries, keys and examples on which a rule is compared with the library's functions."""
GIVEN = Given()


class Sight(Tensor):
    """A mask that is computed only if something other than our attention reads it.

    It behaves like a Bool tensor `batch 1 query key`, True where a query may look. `at` has the same content as a rule.
    """

    at: Standing

    @staticmethod
    def __new__(cls, at: Standing, batch: int) -> "Sight":
        shape = (batch, 1, at.query.shape[2], at.key.shape[3])
        ones = torch.ones((), dtype=torch.bool, device=at.device).expand(shape)
        mask: Sight = torch.Tensor._make_subclass(cls, ones)
        mask.at = at
        return mask

    def visible(self) -> Bool[Tensor, "batch 1 query key"]:
        """The mask, pair by pair."""
        shape = (self.shape[0], 1, self.at.query.shape[2], self.at.key.shape[3])
        return self.at.rule(self.at).expand(shape).contiguous()

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in _PASSIVE:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        tensors = tree_map(lambda part: part.visible() if isinstance(part, Sight) else part, (args, kwargs or {}))
        return function(*tensors[0], **tensors[1])


_PASSIVE = {
    getattr(getattr(Tensor, name), "__get__", getattr(Tensor, name))
    for name in ("shape", "dtype", "device", "ndim", "is_cuda", "layout", "requires_grad")
} | {Tensor.size, Tensor.dim, Tensor.numel, Tensor.is_floating_point, Tensor.__len__, Tensor.untyped_storage}


@dataclass(frozen=True)
class _Reading:
    """A rule, and the packed sequence of each position."""

    rule: Visibility
    segment: Tensor | None = None


def sight(
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Tensor],
    attention_mask: Tensor | None = None,
    device: torch.device | str = "cpu",
    exact: Callable[..., Tensor | None],
    **others: Any,
) -> Sight:
    """An `AttentionMaskInterface` of the library. `exact` is the library's function that makes a Bool mask."""
    start, first = int(q_offset), int(kv_offset)
    at = Standing.between(q_length, kv_length, query_start=start, key_start=first, device=device)
    reading = _read(mask_function)
    if reading is not None:
        at = replace(at, rule=reading.rule, **_segments(reading, at))
    if reading is None or not _agrees(mask_function, at, batch_size):
        where = {"q_length": q_length, "kv_length": kv_length, "q_offset": start, "kv_offset": first}
        skip = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        visible = exact(
            batch_size=batch_size,
            **where,
            mask_function=mask_function,
            device=device,
            **{**others, **skip},
        )
        at = replace(at, rule=GIVEN, shown=visible)
    at = at.simplified()
    real = _real(attention_mask, first, kv_length)
    return Sight(at if real is None else replace(at, rule=at.rule & padding(), real=real), batch_size)


def _real(attention_mask: Tensor | None, first: int, length: int) -> Tensor | None:
    """Whether keys are real; None without padding."""
    if attention_mask is None:
        return None
    missing = first + length - attention_mask.shape[-1]
    real = torch.nn.functional.pad(attention_mask.bool(), (0, max(missing, 0)))[:, first : first + length]
    return None if bool(real.all()) else real[:, None, None]


def _segments(reading: _Reading, at: Standing) -> dict[str, Any]:
    if reading.segment is None:
        return {}
    return {
        "query_segment": reading.segment[:, at.query[0, 0, :, 0]][:, None, :, None],
        "key_segment": reading.segment[:, at.key[0, 0, 0]][:, None, None],
    }


def _read(function: Callable[..., Any]) -> _Reading | None:
    """The rule of a function of indices, recognised by the names of the functions that made it."""
    name = getattr(function, "__qualname__", "").removesuffix(".<locals>.inner_mask")
    variables = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    match name:
        case "causal_mask_function":
            return _Reading(causal())
        case "bidirectional_mask_function":
            return _Reading(everything())
        case "sliding_window_overlay" if variables["sliding_window"] < 1:
            return _Reading(nothing())  # a model without windows passes 0
        case "sliding_window_overlay":
            return _Reading(window(left=variables["sliding_window"] - 1, right=math.inf))
        case "sliding_window_bidirectional_overlay" if variables["sliding_window"] >= 0:
            return _Reading(window(left=variables["sliding_window"], right=variables["sliding_window"]))
        case "chunked_overlay" if not bool(variables["left_padding"].any()):
            return _Reading(block(variables["chunk_size"]))
        case "packed_sequence_mask_function":
            return _Reading(same_segment(), variables["packed_sequence_mask"])
        case "remap_positions_for_packed_sequence":
            inner = _read(variables["mask_function"])
            # Positions restart in each sequence, which does not affect rules of distances.
            return inner if inner is not None and inner.rule.band is not None else None
        case "and_masks.<locals>.and_mask":
            return _joined([_read(part) for part in variables["mask_functions"]])
    return None


def _joined(parts: list[_Reading | None]) -> _Reading | None:
    readings = [part for part in parts if part is not None]
    segments = [part.segment for part in readings if part.segment is not None]
    if len(readings) < len(parts) or len(segments) > 1:
        return None
    rule = reduce(lambda one, other: one & other, (part.rule for part in readings), everything())
    return _Reading(rule, segments[0] if segments else None)


def _agrees(function: Callable[..., Tensor], at: Standing, batch: int) -> bool:
    """Whether a rule agrees with the library's functions on a sample of pairs."""
    rows, columns, examples = (_some(length) for length in (at.query.shape[2], at.key.shape[3], batch))
    query, key = at.query[:, :, rows], at.key[..., columns]
    segments: dict[str, Any] = {}
    for name, axis, places in (("query_segment", 2, rows), ("key_segment", 3, columns)):
        part = getattr(at, name)
        if part is not None:
            part = part.expand(batch, *part.shape[1:])[examples].index_select(axis, places.to(part.device))
        segments[name] = part
    ours = at.rule(Positions(query=query, key=key, **segments))
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.long, device=at.device)
    theirs = function(examples.to(at.device)[:, None, None, None], zero, query, key)
    shape = (len(examples), 1, len(rows), len(columns))
    return torch.equal(ours.expand(shape), theirs.expand(shape))


def _some(length: int) -> Tensor:
    return torch.linspace(0, max(length - 1, 0), min(length, SAMPLED)).round().long()
