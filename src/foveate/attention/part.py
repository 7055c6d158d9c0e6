"""What an attention may be made of: a part that does not fit is refused when it is given, with a way out."""

import inspect
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from foveate.attention.normaliser import Normaliser
from foveate.attention.paths.path import Path
from foveate.attention.score import PlacedScore
from foveate.attention.transform import Transform
from foveate.attention.visibility import Visibility


def require_score(score: object) -> None:
    """Raise TypeError for what scores nothing."""
    if isinstance(score, type) or not (callable(score) or isinstance(score, PlacedScore)):
        raise _refusal("score", score, "Give a callable of queries and keys, such as ScaledDot().")


def require_visibility(rule: object) -> None:
    """Raise TypeError for what is no rule."""
    if isinstance(rule, Tensor):
        raise _refusal(
            "visibility",
            rule,
            "A rule tells from positions who may look at whom: predicate(lambda at: tensor[at.query, at.key]) for a "
            "tensor of `query key`, or padding() with at=Positions.of(..., key_lengths=...).",
        )
    if not isinstance(rule, Visibility):
        raise _refusal("visibility", rule, "Give a rule, such as causal(), or a function of yours in predicate(...).")


def require_normaliser(normaliser: object) -> None:
    """Raise TypeError for what makes no weights of scores."""
    if isinstance(normaliser, type) or not isinstance(normaliser, Normaliser):
        raise _refusal("normaliser", normaliser, "Give an object such as Softmax(), with `statistic` and `tile`.")


def require_placed(**parts: object) -> None:
    """Raise TypeError for a part, by name, that is given and cannot be asked with positions."""
    for name, part in parts.items():
        if isinstance(part, Tensor):
            raise _refusal(
                name, part, f"Give a function of positions: {name}=lambda at: tensor[..., at.query, at.key]."
            )
        if part is not None and (isinstance(part, type) or not callable(part)):
            raise _refusal(name, part, "Give a function of positions, such as Alibi(num_heads=8).")


def require_centre(centre: object) -> None:
    """Raise TypeError for what says of no query where it wants to look."""
    if centre is not None and (isinstance(centre, type) or not callable(centre)):
        raise _refusal("centre", centre, "Give a function of queries and positions, such as PredictedCentre(...).")


def require_transforms(transforms: object) -> tuple[Transform, ...]:
    """Raise TypeError for what is no sequence of transforms."""
    if isinstance(transforms, str | Transform) or not isinstance(transforms, Iterable):
        raise _refusal("transforms", transforms, "Give a sequence in the order of their use, such as [Rotary()].")
    found = tuple(transforms)
    for part in found:
        if isinstance(part, type) or not isinstance(part, Transform):
            raise _refusal("transforms", part, "Each needs `query` and `key`, as Rotary() has.", among=True)
    return found


def require_paths(paths: object) -> tuple[Path, ...]:
    """Raise TypeError for what is no sequence of paths, ValueError for an empty one."""
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        raise _refusal("paths", paths, "Give a sequence of paths, or leave it out for all.")
    found = tuple(paths)
    if not found:
        raise ValueError("`paths` is empty, so nothing could run. Leave it out for all, or give one at least.")
    for part in found:
        if isinstance(part, type) or not isinstance(part, Path):
            raise _refusal("paths", part, "Each needs `refuses`, `cost` and `run`, as SDPAPath() has.", among=True)
    return found


def _refusal(name: str, given: Any, needs: str, *, among: bool = False) -> TypeError:
    verb = "has" if among else "is"
    if isinstance(given, Tensor):
        return TypeError(f"`{name}` {verb} a tensor of shape {tuple(given.shape)}. {needs}")
    if isinstance(given, type):
        return TypeError(f"`{name}` {verb} the class {given.__name__}. Make one of it: {given.__name__}(...).")
    if inspect.isfunction(given) and not among:
        return TypeError(f"`{name}` {verb} the function {given.__name__}. {needs}")
    if hasattr(given, "build") and type(given).__name__.endswith("Config"):
        kind = type(given).__name__
        return TypeError(f"`{name}` {verb} the configuration {kind}. Build it first: {kind}(...).build(...).")
    shown = repr(given)
    return TypeError(f"`{name}` {verb} {shown if len(shown) <= 60 else f'{shown[:60]} …'}. {needs}")
