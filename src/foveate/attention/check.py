"""Checks of arguments, each with one message that names the argument, its value and what to give instead.

Numbers, words and parts are checked where an attention is made; tensors, places and answers where it first runs.
"""

import inspect
import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from foveate.suggestion import did_you_mean

LONGEST = 60
"""The most characters of a value in a message."""
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
"""Types of tensors that hold whole numbers."""


def described(value: object) -> str:
    """A value in a few words: the shape of a tensor rather than its numbers."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}" if value.dim() else repr(value)
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isfunction(value):
        return f"the function {value.__name__}"
    shown = repr(value)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]} …"


def refusal(name: str, value: Any, needs: str, *, among: bool = False) -> TypeError:
    """The error for a part of the wrong type; `among` others where it stands in a sequence."""
    verb = "has" if among else "is"
    if hasattr(value, "build") and type(value).__name__.endswith("Config") and not isinstance(value, type):
        kind = type(value).__name__
        return TypeError(f"`{name}` {verb} the configuration {kind}. Build it first: {kind}(...).build(...).")
    if isinstance(value, type):
        needs = f"Make one of it: {value.__name__}(...)."
    return TypeError(f"`{name}` {verb} {described(value)}. {needs}")


def is_whole(number: object) -> TypeGuard[int]:
    """Whether a value is an integer; True and 2.0 are not."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def require_whole(least: int | float = 1, **numbers: object) -> None:
    """Raise TypeError for a value that is not a whole number, ValueError for one below `least`."""
    for name, number in numbers.items():
        if not is_whole(number):
            raise TypeError(f"{name}={described(number)} must be a whole number.")
        if number < least:
            raise ValueError(f"{name}={number} must be at least {least}.")


def require_hidden(hidden_dim: int | None) -> None:
    """Raise as `require_whole` for an inner width, which may be left to its default: None."""
    if hidden_dim is not None:
        require_whole(hidden_dim=hidden_dim)


def whole_numbers(name: str, value: object) -> int | tuple[int, ...]:
    """One Python integer or several, from a number, a list, a tensor or an array of them."""
    plain: Any = value.tolist() if hasattr(value, "tolist") else value
    if is_whole(plain):
        return int(plain)
    if isinstance(plain, str) or not isinstance(plain, Iterable):
        raise TypeError(f"{name}={described(value)} must be a whole number, or a list of them.")
    numbers = tuple(plain)
    require_whole(-math.inf, **{f"{name}[{index}]": number for index, number in enumerate(numbers)})
    return tuple(map(int, numbers))


def lengths(name: str, value: object) -> Tensor:
    """The length of each example as a tensor, from a tensor or a list; its numbers are left unread.

    Raises TypeError for anything but one row of whole numbers.
    """
    row = value
    if not isinstance(value, Tensor) and isinstance(numbers := whole_numbers(name, value), tuple):
        row = torch.tensor(numbers, dtype=torch.long)
    if isinstance(row, Tensor) and row.dim() == 1 and row.dtype in WHOLE:
        return row
    kind = f" and {_type_name(row)}" if isinstance(row, Tensor) else ""
    raise TypeError(
        f"`{name}` is {described(value)}{kind}. Give the length of each example, as whole numbers: "
        "torch.tensor([5, 3]), or mask.sum(-1) where a mask of `batch key` is True at real keys."
    )


def require_real(*, positive: bool = False, **numbers: object) -> None:
    """Raise TypeError for a value that is not a number, ValueError for one that is not finite, or not positive."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Real):
            raise TypeError(f"{name}={described(number)} must be a number.")
        if positive and number <= 0:
            raise ValueError(f"{name}={number} must be positive.")
        if not math.isfinite(number):
            raise ValueError(f"{name}={number} must be finite.")


def require_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise ValueError for a value that is not one of the choices."""
    if value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"{name}={described(value)} is none of {', '.join(map(repr, choices))}.{hint}")


MOST, MOST_LAYERS = 2**24, 10_000
"""Larger sizes in configurations are mistakes or attempts to exhaust the memory."""


def require_positive(**sizes: int) -> None:
    """Raise ValueError for a size in a configuration that is below 1 or absurdly large."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
        most = MOST_LAYERS if name.endswith("layers") else MOST
        if size > most:
            raise ValueError(f"{name} must be at most {most:,}, got {size}")


def require_grid(columns: Any, first: Any) -> None:
    """Raise TypeError or ValueError for what cannot count the patches of a picture along its rows."""
    require_whole(columns=columns)
    require_whole(0, first=first)


def require_rates(**rates: float) -> None:
    """Raise ValueError for a rate of dropout in a configuration that is outside [0, 1)."""
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"{name} is a dropout probability and must be in [0, 1), got {rate}")


def require_probability(**numbers: object) -> None:
    """Raise ValueError for a value that is not a number from 0 to 1."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
            raise ValueError(f"{name}={described(number)} must be a probability, from 0 to 1.")


NEEDS = {
    "score": "Give a callable of queries and keys, such as ScaledDot().",
    "normaliser": "Give an object such as Softmax(), with `statistic` and `tile`.",
    "centre": "Give a function of queries and positions, such as PredictedCentre(...).",
    "transforms": "Give a sequence in the order of their use, such as [Rotary()].",
    "paths": "Give a sequence of paths, or leave it out for all.",
}
NEEDS_EACH = {
    "transforms": "Each needs `query` and `key`, as Rotary() has.",
    "paths": "Each needs `refuses` and `run`, as SDPAPath() has.",
}


def require_part(name: str, part: object, kind: Any) -> None:
    """Raise TypeError for a part that is not of this type; a class is never a part."""
    if isinstance(part, type) or not isinstance(part, kind):
        raise refusal(name, part, NEEDS[name])


def require_parts(name: str, parts: object, kind: Any) -> tuple[Any, ...]:
    """The parts as a tuple. Raises TypeError unless they are a sequence of parts of this type."""
    if isinstance(parts, str | kind) or not isinstance(parts, Iterable):
        raise refusal(name, parts, NEEDS[name])
    listed = tuple(parts)
    for part in listed:
        if isinstance(part, type) or not isinstance(part, kind):
            raise refusal(name, part, NEEDS_EACH[name], among=True)
    return listed


def require_placed(**parts: object) -> None:
    """Raise TypeError for a part that is given and is not a function of positions."""
    for name, part in parts.items():
        if isinstance(part, Tensor):
            raise refusal(name, part, f"Give a function of positions: {name}=lambda at: tensor[..., at.query, at.key].")
        if part is not None and (isinstance(part, type) or not callable(part)):
            raise refusal(name, part, "Give a function of positions, such as Alibi(num_heads=8).")


def require_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise TypeError for anything but tensors, ValueError for shapes or number types that do not fit."""
    if isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor):
        shape, key_shape, value_shape = query.shape, key.shape, value.shape
        if (
            len(shape) == len(key_shape) == len(value_shape) == 4
            and shape[0] == key_shape[0]
            and key_shape[1]
            and not shape[1] % key_shape[1]
            and value_shape[0] == key_shape[0]
            and value_shape[1] == key_shape[1]
            and value_shape[2] == key_shape[2]
            and query.dtype.is_floating_point
            and query.dtype == key.dtype == value.dtype
        ):
            return
    tensors = {"query": query, "key": key, "value": value}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            way_out = f"Try torch.as_tensor({name})."
            if tensor is None and name == "value":
                way_out = "Attention weighs values: give the keys again, or others."
            raise TypeError(f"`{name}` is not a tensor, but {type(tensor).__name__}. {way_out}")
    for name, tensor in tensors.items():
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
    kinds = {name: _type_name(tensor) for name, tensor in tensors.items()}
    if not all(tensor.dtype.is_floating_point for tensor in tensors.values()):
        raise ValueError(f"Attention takes floating-point numbers, and {_listed(kinds)}. Pass tensor.float().")
    if len(set(kinds.values())) > 1 and not torch.is_autocast_enabled(query.device.type):
        raise ValueError(f"Attention takes one type of numbers, and {_listed(kinds)}. Pass tensor.to(query.dtype).")


def require_one_device(**devices: torch.device) -> None:
    """Raise ValueError where tensors lie on several devices."""
    if len(set(devices.values())) > 1:
        listed = _listed({name: str(device) for name, device in devices.items()})
        raise ValueError(f"Attention takes tensors of one device, and {listed}. Pass tensor.to(query.device).")


def require_features(score: object, features: Tensor, sizes: tuple[int, ...]) -> None:
    """Raise ValueError for key features of another shape than the score makes of these keys."""
    if not stands(features, sizes):
        way_out = "Pass what attention.key_features(key) gives."
        heads = features.shape[1] if isinstance(features, Tensor) and features.dim() == 4 else 0
        if heads and not sizes[1] % heads and stands(features, (sizes[0], heads, *sizes[2:])):
            for_all = f"key.repeat_interleave({sizes[1] // heads}, 1)"
            way_out = f"Groups of heads share these keys: pass what attention.key_features({for_all}) gives."
        raise ValueError(
            f"`key_features` is {described(features)}, but {type(score).__name__} makes features of shape {sizes} from "
            f"these keys, where batch and heads may be 1. {way_out}"
        )


def require_answer(name: str, answer: Any, sizes: tuple[int, ...]) -> None:
    """Raise TypeError or ValueError where a rule or a bias answers for other heads, examples or keys, or in the wrong
    type.
    """
    hides = name == "visibility"
    if not isinstance(answer, Tensor):
        raise refusal(f"{name}(positions)", answer, "It must be a tensor.")
    if hides != (answer.dtype == torch.bool):
        needs = "Bools, True where a query may look" if hides else "numbers; what hides is a rule: visibility=..."
        raise ValueError(f"`{name}` answers with {_type_name(answer)}, and must give {needs}.")
    if answer.dim() != len(sizes) or any(size not in (1, full) for size, full in zip(answer.shape, sizes, strict=True)):
        raise ValueError(
            f"`{name}` answers one query with shape {tuple(answer.shape)}, and {sizes} is needed, `batch heads query "
            f"key`, where an axis may be 1. Build it for {sizes[1]} heads and a batch of {sizes[0]}; a function of "
            "yours must read the positions that it is given: tensor[..., at.query, at.key]."
        )


def stands(part: object, sizes: tuple[int, ...]) -> bool:
    """Whether it is a tensor of these sizes, where batch and heads may be 1."""
    if not isinstance(part, Tensor) or len(shape := part.shape) != 4:
        return False
    alike = (shape[0] == 1 or shape[0] == sizes[0]) and (shape[1] == 1 or shape[1] == sizes[1])
    return alike and shape[2] == sizes[2] and shape[3] == sizes[3]


JOINING = 'the score "general" or "additive", which learn to join different ones'
ATTENDING = f'the kind "attention" with {JOINING}'


def require_one_width(name: str, query_dim: int, key_dim: int, choice: str = ATTENDING) -> None:
    """Raise ValueError where a configuration gives queries and keys that cannot be multiplied with each other."""
    if query_dim != key_dim:
        raise ValueError(
            f"{name} needs queries and keys of one width, got {query_dim} and {key_dim}. "
            f"Choose equal widths, or {choice}."
        )


def require_self(why: str, kind: str) -> None:
    """Raise ValueError where a mechanism for self-attention is configured for cross-attention."""
    if kind == "cross":
        raise ValueError(f'{why}. Choose another kind for cross-attention, such as "attention".')


def require_equal_width(name: str, query: Tensor, key: Tensor, *, formed: bool = False) -> None:
    """Raise ValueError for queries and keys, or features of them by a `form`, that cannot be multiplied."""
    if query.shape[-1] != key.shape[-1]:
        if formed:
            raise ValueError(
                f"{name} needs queries and keys of one width, and the features that its `form()` gave have widths "
                f"{query.shape[-1]} and {key.shape[-1]}. Change its query features or its key features."
            )
        raise ValueError(
            f"{name} needs queries and keys of one width, got {query.shape[-1]} and {key.shape[-1]}. "
            "Project one of them, or use General or Additive, which join different widths."
        )


def require_made_for(x: Tensor, weight: Tensor) -> None:
    """Raise ValueError for vectors that do not fit a weight of shape `heads width _`."""
    shape, made_for = x.shape, weight.shape
    if shape[-1] == made_for[-2] and (made_for[0] == 1 or made_for[0] == shape[1]) and x.dtype == weight.dtype:
        return
    require_width(x, made_for[-2])
    require_heads(x, made_for[0])
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        kind = _type_name(x)
        raise ValueError(
            f"The score's weights are {_type_name(weight)}, and the vectors {kind}. "
            f"Pass one type of numbers: attention.to(torch.{kind}), or the vectors in the other."
        )


def require_heads(x: Tensor, heads: int) -> None:
    """Raise ValueError for vectors of another number of heads than the score was made for."""
    if heads != 1 and heads != x.shape[1]:
        raise ValueError(
            f"The score was made for {heads} heads, and is given {x.shape[1]}. Build it with num_heads={x.shape[1]}, "
            "or with num_heads=1 for weights that all heads share."
        )


def require_width(x: Tensor, width: int) -> None:
    """Raise ValueError for vectors of another width than the score was made for."""
    if x.shape[-1] != width:
        raise ValueError(
            f"The score was made for vectors of {width} numbers, and is given {x.shape[-1]}. Build it with the "
            "query_dim and key_dim of the tensors you pass."
        )


def _with_axes(name: str, axes: int) -> str:
    if axes > 4:
        return f"Join the axes in front: {name}.flatten(0, {axes - 4})."
    if axes == 3:
        return f"Without heads, insert an axis: {name}[:, None]; without a batch, {name}[None]."
    return f"Without batch and heads, insert axes: {name}[{', '.join(['None'] * (4 - axes))}]."


def _listed(kinds: dict[str, str]) -> str:
    return ", ".join(f"`{name}` is {kind}" for name, kind in kinds.items())


def _type_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
