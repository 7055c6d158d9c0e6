"""What an attention may be made of: a part that does not fit is refused when it is given, with a way out."""

from collections.abc import Iterable

from torch import Tensor

from foveate.attention.normaliser import Normaliser
from foveate.attention.paths.path import Path
from foveate.attention.refusal import refusal
from foveate.attention.score import PlacedScore
from foveate.attention.transform import Transform


def require_score(score: object) -> None:
    """Raise TypeError for what scores nothing."""
    if isinstance(score, type) or not (callable(score) or isinstance(score, PlacedScore)):
        raise refusal("score", score, "Give a callable of queries and keys, such as ScaledDot().")


def require_normaliser(normaliser: object) -> None:
    """Raise TypeError for what makes no weights of scores."""
    if isinstance(normaliser, type) or not isinstance(normaliser, Normaliser):
        raise refusal("normaliser", normaliser, "Give an object such as Softmax(), with `statistic` and `tile`.")


def require_placed(**parts: object) -> None:
    """Raise TypeError for a part, by name, that is given and cannot be asked with positions."""
    for name, part in parts.items():
        if isinstance(part, Tensor):
            raise refusal(name, part, f"Give a function of positions: {name}=lambda at: tensor[..., at.query, at.key].")
        if part is not None and (isinstance(part, type) or not callable(part)):
            raise refusal(name, part, "Give a function of positions, such as Alibi(num_heads=8).")


def require_centre(centre: object) -> None:
    """Raise TypeError for what says of no query where it wants to look."""
    if centre is not None and (isinstance(centre, type) or not callable(centre)):
        raise refusal("centre", centre, "Give a function of queries and positions, such as PredictedCentre(...).")


def require_transforms(transforms: object) -> tuple[Transform, ...]:
    """Raise TypeError for what is no sequence of transforms."""
    if isinstance(transforms, str | Transform) or not isinstance(transforms, Iterable):
        raise refusal("transforms", transforms, "Give a sequence in the order of their use, such as [Rotary()].")
    found = tuple(transforms)
    for part in found:
        if isinstance(part, type) or not isinstance(part, Transform):
            raise refusal("transforms", part, "Each needs `query` and `key`, as Rotary() has.", among=True)
    return found


def require_paths(paths: object) -> tuple[Path, ...]:
    """Raise TypeError for what is no sequence of paths, ValueError for an empty one."""
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        raise refusal("paths", paths, "Give a sequence of paths, or leave it out for all.")
    found = tuple(paths)
    if not found:
        raise ValueError("`paths` is empty, so nothing could run. Leave it out for all, or give one at least.")
    for part in found:
        if isinstance(part, type) or not isinstance(part, Path):
            raise refusal("paths", part, "Each needs `refuses`, `cost` and `run`, as SDPAPath() has.", among=True)
    return found
