"""Normalisers as data: a kind and its parameters, and the weights of any tile from one number per row."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.efficient.kernel import Proportional
from foveate.attention.normaliser import Entmax, Hard, Normaliser, ReLU, Sigmoid, Softmax, Sparsemax
from foveate.errors import DataError

Header = Mapping[str, Any]

_BUILDERS: dict[str, Callable[..., Normaliser]] = {
    "softmax": Softmax,
    "relu": ReLU,
    "sigmoid": Sigmoid,
    "sparsemax": Sparsemax,
    "entmax": Entmax,
    "hard": lambda: Hard(mode="argmax"),
    "proportional": Proportional,
}


_KNOWN = (Softmax, ReLU, Sigmoid, Sparsemax, Entmax, Proportional, Hard)
"""Exactly these: a subclass may make other weights."""


def header_of(normaliser: Normaliser) -> dict[str, Any] | None:
    """The kind and the parameters of a normaliser; None for one that only its own code knows.

    >>> header_of(Softmax(temperature=0.5)), header_of(Hard(mode="straight_through"))
    ({'kind': 'softmax', 'temperature': 0.5}, {'kind': 'hard'})
    """
    match normaliser if type(normaliser) in _KNOWN else None:
        case Softmax(temperature=temperature):
            return {"kind": "softmax", "temperature": temperature}
        case ReLU(normalised=normalised):
            return {"kind": "relu", "normalised": normalised}
        case Sigmoid(bias=bias):
            return {"kind": "sigmoid", "bias": bias}
        case Sparsemax():
            return {"kind": "sparsemax"}
        case Entmax(alpha=alpha):
            return {"kind": "entmax", "alpha": alpha}
        case Proportional(eps=eps):
            return {"kind": "proportional", "eps": eps}
        case Hard(mode="sample", temperature=temperature):
            return {"kind": "softmax", "temperature": temperature}
        case Hard(mode="gumbel"):
            return {"kind": "softmax", "temperature": 1.0}
        case Hard():
            return {"kind": "hard"}
    return None


def is_drawn(normaliser: Normaliser) -> bool:
    """Whether the weights shown are a distribution that one key is drawn from."""
    return isinstance(normaliser, Hard) and normaliser.mode in ("sample", "gumbel")


def built(header: Header) -> Normaliser:
    """The normaliser that a header names; raises DataError for one that this version does not know."""
    parameters = {name: value for name, value in header.items() if name != "kind"}
    try:
        return _BUILDERS[header["kind"]](**parameters)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The trace names the normaliser {dict(header)}, which this version of foveate does not know. "
            f"It knows: {', '.join(_BUILDERS)}."
        ) from error


def tile(
    normaliser: Normaliser,
    scores: Float[Tensor, "query key"],
    visible: Bool[Tensor, "query key"] | None,
    statistic: Float[Tensor, " query"],
    *,
    first: int = 0,
) -> Float[Tensor, "query key"]:
    """The weights of a tile. `visible` None: all of it. The scores' memory may be used for the answer."""
    if isinstance(normaliser, Softmax):
        logs = scores.div_(normaliser.temperature).sub_(finite(statistic)[:, None])
        weights = logs.exp_()
        return weights if visible is None else weights.masked_fill_(~visible, 0.0)
    seen = torch.ones(1, 1, dtype=torch.bool) if visible is None else visible
    return normaliser.tile(scores[None, None], seen[None, None], statistic[None, None], first=first)[0, 0]


def finite(statistic: Float[Tensor, " query"]) -> Float[Tensor, " query"]:
    """Rows that see nothing, or −∞ alone, have −∞, and their weights are 0; those of a row with +∞ are NaN."""
    return statistic.nan_to_num(nan=torch.nan, posinf=torch.nan, neginf=0.0)
