"""From scores to weights. A hidden key weighs exactly 0; a row that sees nothing is all zeros.

A visible key whose score is −∞ weighs 0, too, and a row of such keys is a row that sees nothing. A score of +∞ or NaN
makes its row NaN under every normaliser that compares the scores of a row.
"""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.claim import describes, restriction
from foveate.attention.position import traced

Scores = Float[Tensor, "batch heads query key"]
Weights = Float[Tensor, "batch heads query key"]
Visible = Bool[Tensor, "#batch #heads #query #key"]
Rows = Float[Tensor, "batch heads query"]


@runtime_checkable
class Normaliser(Protocol):
    """Makes weights from scores, and can make any tile of them again from one number per row.

    Weights depend on the visible scores alone, in their order: paths may leave out keys that a row does not see. A
    score of −∞ weighs 0 (`possible` tells such pairs from the others).

    One may state more about itself (`foveate.attention.claim`):

    * `softmax_temperature`: the weights are softmax(e / T) with this T, which kernels compute.
    * `tells_place = True`: the statistic of a row is the number of a key among the scores.
    * `sums_to_one = False`: a row that sees something need not sum to 1.
    * `undivided = True`: all queries have to be normalised by one call.
    * `is_drawn = True`: tiles show the distribution that one key is drawn from.
    * `is_hard = True`: a query looks at one key, and weights have no gradient of their own. With
      `learns_from_reward = True`, `reward_weight` and `entropy_weight` say how `Reinforce` teaches it.
    * `header()`: the kind and the parameters by which a trace names a normaliser of this package that makes the same
      weights. Without one, a trace keeps weights one by one.
    * `symbol`: how it is written in a formula.
    * `onnx(graph, scores)`: it as operators (`foveate.attention.onnx`).
    """

    def __call__(self, scores: Scores, visible: Visible) -> Weights: ...

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """The number of each row that, with a score, gives its weight."""
        ...

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        """The weights of some keys, from number `first` on, given the statistic of the whole row."""
        ...


def shown(numbers: Tensor, visible: Visible, otherwise: float = 0.0) -> Tensor:
    """The numbers of visible pairs, and `otherwise` for hidden ones; without a pass where one True says it of all."""
    return numbers if _all_are(visible) else torch.where(visible, numbers, otherwise)


def closed(scores: Scores, visible: Visible) -> Scores:
    """Hidden scores as −∞; an empty row as zeros, because softmax of −∞ alone is NaN, and its gradient too."""
    if _all_are(visible):
        return scores
    fill = torch.where(visible.any(-1, keepdim=True), -torch.inf, 0.0).to(scores.dtype)
    return torch.where(visible, scores, fill)


def possible(scores: Scores, visible: Visible) -> Visible:
    """Pairs that are visible and may weigh something: their score is above −∞."""
    return visible & (scores.detach() != -torch.inf)


def tells_place(normaliser: Normaliser) -> bool:
    """Whether the statistic of a row is the number of a key (−1: of none): it says so itself."""
    return restriction(getattr(normaliser, "inner", normaliser), "tells_place", about=("statistic", "tile"))


def makes_tiles(normaliser: Normaliser) -> bool:
    """Whether `tile` still makes the weights: no subclass overrides the call without it, and no hook changes it."""
    return describes(getattr(normaliser, "inner", normaliser), "tile", ("__call__", "forward"))


def undecided(weights: Float[Tensor, "*rows key"]) -> bool:
    """Whether a softmax of finite scores and −∞ may have left rows of NaN: those of −∞ alone. One number of a row tells
    it, for a softmax is NaN everywhere or nowhere.
    """
    if not weights.shape[-1]:
        return False
    return traced() or math.isnan(weights.detach().select(-1, 0).sum().item())


def _all_are(visible: Visible) -> bool:
    return visible.numel() == 1 and visible.device.type == "cpu" and not traced() and bool(visible)


def precise(scores: Scores) -> Scores:
    """float32 at least: what thresholds and sums over a row need."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
