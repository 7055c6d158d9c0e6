"""Whether tensors, positions and parts fit each other: what does not is refused before anything runs."""

from typing import Any

import torch
from torch import Tensor

from foveate.attention.paths.materialised import biased_scores
from foveate.attention.paths.path import Formula, share_heads
from foveate.attention.position import Positions
from foveate.attention.refusal import described, refusal
from foveate.attention.score import FeedbackScore, KeyedScore


def require_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise TypeError for what is no tensor, ValueError for shapes or types of numbers that do not fit."""
    if isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor):
        shape, looked_at = query.shape, key.shape
        if (
            len(shape) == len(looked_at) == len(value.shape) == 4
            and shape[0] == looked_at[0]
            and looked_at[1]
            and not shape[1] % looked_at[1]
            and value.shape[:3] == looked_at[:3]
            and query.dtype.is_floating_point
            and query.dtype == key.dtype == value.dtype
        ):
            return
    for name, given in (("query", query), ("key", key), ("value", value)):
        if not isinstance(given, Tensor):
            way_out = f"Try torch.as_tensor({name})."
            if given is None and name == "value":
                way_out = "Attention weighs values: give the keys again, or others."
            raise TypeError(f"`{name}` is not a tensor, but {type(given).__name__}. {way_out}")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 4:
            raise ValueError(
                f"`{name}` has shape {tuple(tensor.shape)}, but attention takes `batch heads length dim`. "
                f"{_with_axes(name, tensor.dim())}"
            )
    if key.shape[0] != query.shape[0] or not key.shape[1] or query.shape[1] % key.shape[1]:
        raise ValueError(
            f"`query` has batch {query.shape[0]} and {query.shape[1]} heads, `key` {key.shape[0]} and {key.shape[1]}: "
            "batches must be equal, and the key's heads must divide the query's."
        )
    if value.shape[:3] != key.shape[:3]:
        raise ValueError(
            f"`key` is {tuple(key.shape)} and `value` {tuple(value.shape)}: batch, heads and length must be equal."
        )
    tensors = {"query": query, "key": key, "value": value}
    kinds = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in tensors.items()}
    if not all(tensor.dtype.is_floating_point for tensor in tensors.values()):
        raise ValueError(f"Attention takes floating-point numbers, and {_listed(kinds)}. Pass tensor.float().")
    if len(set(kinds.values())) > 1 and not torch.is_autocast_enabled(query.device.type):
        raise ValueError(f"Attention takes one type of numbers, and {_listed(kinds)}. Pass tensor.to(query.dtype).")


def require_places(at: Positions, query: Tensor, key: Tensor) -> None:
    """Raise TypeError for what says of nothing where it stands, ValueError for what stands elsewhere."""
    if not isinstance(at, Positions):
        raise TypeError(f"`at` says where queries and keys stand: Positions.of(query=..., key=...), not {at!r}.")
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    parts: tuple[tuple[str, Any, tuple[int, ...]], ...] = (
        ("query", at.query, (batch, heads, queries, 1)),
        ("key", at.key, (batch, heads, 1, keys)),
        ("real", at.real, (batch, heads, 1, keys)),
    )
    for name, part, shape in parts:
        if (name == "real" and part is None) or (_stands(part, shape) and (name != "real" or part.dtype == torch.bool)):
            continue
        if not isinstance(part, Tensor) or part.dim() != 4 or (name == "real" and part.dtype != torch.bool):
            found = f"{described(part)}{f', {part.dtype}' if isinstance(part, Tensor) else ''}"
            kind = "Bools" if name == "real" else "whole numbers"
            raise ValueError(
                f"`at.{name}` is {found}, but it holds {kind} of shape {shape}, where batch and heads may be 1. "
                "Positions.of(query=..., key=..., key_lengths=...) makes them."
            )
        axis = 3 if name != "query" else 2
        if name != "real" and part.shape[axis] != shape[axis]:
            raise ValueError(
                f"`{name}` has {shape[axis]} positions, but `at` places {part.shape[axis]}. "
                "Build `at` for the tensors you pass."
            )
        raise ValueError(
            f"`at.{name}` has shape {tuple(part.shape)}, and for these queries and keys it is {shape}, where batch and "
            "heads may be 1. Give Positions.of as many lengths as the batch has examples."
        )


def _stands(part: object, wanted: tuple[int, ...]) -> bool:
    """Whether it is a tensor of these sizes, of each example and head or of all."""
    if not isinstance(part, Tensor) or len(shape := part.shape) != 4:
        return False
    alike = (shape[0] == 1 or shape[0] == wanted[0]) and (shape[1] == 1 or shape[1] == wanted[1])
    return alike and shape[2] == wanted[2] and shape[3] == wanted[3]


@torch.no_grad()
def require_parts(formula: Formula, query: Tensor, key: Tensor, at: Positions) -> None:
    """Raise TypeError or ValueError for a bias, a rule or positions that answer for other heads, examples or keys.

    Each is asked about the first query, which says it for all.
    """
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    places = {"query": str(query.device), "key": str(key.device), "at": str(at.device)}
    if len(set(places.values())) > 1:
        raise ValueError(f"Attention takes tensors of one device, and {_listed(places)}. Pass tensor.to(query.device).")
    all_keys = keys if at.uncut_keys is None else at.uncut_keys
    for name, shape in (
        ("centre", (batch, heads, queries, 1)),
        ("query_segment", (batch, heads, queries, 1)),
        ("key_segment", (batch, heads, 1, keys)),
        ("previous", (batch, heads, queries, all_keys)),
    ):
        part = getattr(at, name)
        if part is not None and not _stands(part, shape):
            raise ValueError(
                f"`at.{name}` has shape {tuple(part.shape)}, and for these queries and keys it is {shape}, where batch "
                "and heads may be 1."
            )
    if not queries or not keys:
        return
    first = at.rows(slice(0, 1))
    for name, asked in (("bias", formula.bias), ("reweight", formula.reweight)):
        if asked is not None:
            _require_answer(name, asked(first), (batch, heads, 1, keys))
    _require_answer("visibility", formula.visibility(first), (batch, heads, 1, keys))


@torch.no_grad()
def require_score(formula: Formula, query: Tensor, key: Tensor, at: Positions) -> None:
    """Raise as a run would for vectors that the score was not made for: it is asked about one pair."""
    if at.previous is None and not isinstance(formula.score, FeedbackScore):
        pair = at.rows(slice(0, 1)).columns(slice(0, 1))
        biased_scores(formula, query[:, :, :1], share_heads(key[:, :, :1], query.shape[1]), at=pair)


def require_kept(score: object, transforms: tuple[object, ...], query: Tensor, key: Tensor, kept: Tensor) -> None:
    """Raise ValueError for key features that this score did not make of these keys."""
    if transforms or not isinstance(score, KeyedScore):
        raise ValueError(
            f"`key_features` are given, but {'transforms change keys where they stand' if transforms else ''}"
            f"{'' if transforms else f'{type(score).__name__} makes none'}: nothing can be kept. Leave them out, or "
            "pass what attention.key_features(key) gives."
        )
    with torch.no_grad():
        width = score.key_features(share_heads(key[:1, :, :1], query.shape[1])).shape[-1]
    wanted = (*query.shape[:2], key.shape[2], width)
    if not _stands(kept, wanted):
        raise ValueError(
            f"`key_features` is {described(kept)}, and of these keys {type(score).__name__} makes {wanted}, where "
            "batch and heads may be 1. Pass what attention.key_features(key) gives."
        )


def require_rate(dropout: object) -> None:
    """Raise ValueError for what is no probability."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise ValueError(f"dropout={described(dropout)} must be a probability, from 0 to 1.")


def _require_answer(name: str, answer: Any, wanted: tuple[int, ...]) -> None:
    hides = name == "visibility"
    if not isinstance(answer, Tensor):
        raise refusal(f"{name}(positions)", answer, "It must be a tensor.")
    if hides != (answer.dtype == torch.bool):
        needs = "Bools, True where a query may look" if hides else "numbers; what hides is a rule: visibility=..."
        raise ValueError(f"`{name}` answers with {str(answer.dtype).removeprefix('torch.')}, and must give {needs}.")
    if not _fits(answer.shape, wanted):
        raise ValueError(
            f"`{name}` answers one query with shape {tuple(answer.shape)}, and {wanted} is needed, `batch heads query "
            f"key`, where an axis may be 1. Build it for {wanted[1]} heads and a batch of {wanted[0]}; a function of "
            "yours must read the positions that it is given: tensor[..., at.query, at.key]."
        )


def _fits(shape: Any, wanted: tuple[int, ...]) -> bool:
    """Whether a tensor tells batch and heads apart or not, and has all queries and keys or says of all the same."""
    return len(shape) == len(wanted) and all(size in (1, full) for size, full in zip(shape, wanted, strict=True))


def _with_axes(name: str, axes: int) -> str:
    if axes > 4:
        return f"Join the axes in front: {name}.flatten(0, {axes - 4})."
    if axes == 3:
        return f"Without heads, insert an axis: {name}[:, None]; without a batch, {name}[None]."
    return f"Without batch and heads, insert axes: {name}[{', '.join(['None'] * (4 - axes))}]."


def _listed(kinds: dict[str, str]) -> str:
    return ", ".join(f"`{name}` is {kind}" for name, kind in kinds.items())
