"""How what does not fit is refused: one sentence with the name, what was given and what to give instead."""

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
"""Characters that are shown of what was given."""
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
"""Types of tensors that hold whole numbers."""


def described(given: object) -> str:
    """What was given, in a few words: the shape of a tensor rather than its numbers."""
    if isinstance(given, Tensor):
        return f"a tensor of shape {tuple(given.shape)}" if given.dim() else repr(given)
    if isinstance(given, np.ndarray):
        return f"an array of shape {given.shape}"
    if isinstance(given, type):
        return f"the class {given.__name__}"
    if inspect.isfunction(given):
        return f"the function {given.__name__}"
    shown = repr(given)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]} …"


def refusal(name: str, given: Any, needs: str, *, among: bool = False) -> TypeError:
    """The error for a part, by name, that is none; `among` others where it stands in a sequence."""
    said = f"`{name}` {'has' if among else 'is'} {described(given)}."
    if isinstance(given, type):
        return TypeError(f"{said} Make one of it: {given.__name__}(...).")
    if hasattr(given, "build") and type(given).__name__.endswith("Config"):
        kind = type(given).__name__
        return TypeError(
            f"`{name}` {'has' if among else 'is'} the configuration {kind}. Build it first: {kind}(...).build(...)."
        )
    return TypeError(f"{said} {needs}")


def is_whole(number: object) -> TypeGuard[int]:
    """Whether it counts something: True does not, and neither does 2.0."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def require_whole(least: int | float = 1, **numbers: object) -> None:
    """Raise TypeError for what is no whole number and ValueError for one below `least`, by name."""
    for name, number in numbers.items():
        if not is_whole(number):
            raise TypeError(f"{name}={described(number)} must be a whole number.")
        if number < least:
            raise ValueError(f"{name}={number} must be at least {least}.")


def require_hidden(hidden_dim: int | None) -> None:
    """Raise as `require_whole` for an inner width, which may be left to its default: None."""
    if hidden_dim is not None:
        require_whole(hidden_dim=hidden_dim)


def whole_numbers(name: str, given: object) -> int | tuple[int, ...]:
    """One whole number or several, as Python has them, from a number, a list, a tensor or an array of them."""
    plain: Any = given.tolist() if hasattr(given, "tolist") else given
    if is_whole(plain):
        return int(plain)
    if isinstance(plain, str) or not isinstance(plain, Iterable):
        raise TypeError(f"{name}={described(given)} must be a whole number, or a list of them.")
    found = tuple(plain)
    require_whole(-math.inf, **{f"{name}[{index}]": number for index, number in enumerate(found)})
    return tuple(map(int, found))


def lengths(name: str, given: object) -> Tensor:
    """The length of each example as a tensor, from a tensor or a list; its numbers are left unread.

    Raises TypeError for what is no row of whole numbers.
    """
    found = given
    if not isinstance(given, Tensor) and isinstance(numbers := whole_numbers(name, given), tuple):
        found = torch.tensor(numbers, dtype=torch.long)
    if isinstance(found, Tensor) and found.dim() == 1 and found.dtype in WHOLE:
        return found
    kind = f" and {str(found.dtype).removeprefix('torch.')}" if isinstance(found, Tensor) else ""
    raise TypeError(
        f"`{name}` is {described(given)}{kind}. Give the length of each example, as whole numbers: "
        "torch.tensor([5, 3]), or mask.sum(-1) where a mask of `batch key` is True at real keys."
    )


def require_real(*, positive: bool = False, **numbers: object) -> None:
    """Raise TypeError for what is no number and ValueError for one that is not finite, or not positive, by name."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Real):
            raise TypeError(f"{name}={described(number)} must be a number.")
        if positive and number <= 0:
            raise ValueError(f"{name}={number} must be positive.")
        if not math.isfinite(number):
            raise ValueError(f"{name}={number} must be finite.")


def require_choice(name: str, given: object, choices: Sequence[str]) -> None:
    """Raise ValueError for what is none of the words."""
    if given not in choices:
        hint = did_you_mean(given, choices) if isinstance(given, str) else ""
        raise ValueError(f"{name}={described(given)} is none of {', '.join(map(repr, choices))}.{hint}")
