"""From scores to weights: softmax, ReLU and sigmoid. A hidden key weighs exactly 0; a row that sees nothing is zeros.

A visible key whose score is −∞ weighs 0, too, and a row of such keys is a row that sees nothing. A score of +∞ or NaN
makes its row NaN under every normaliser that compares the scores of a row.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.check import require_real
from foveate.attention.claim import claim, describes, restriction
from foveate.attention.onnx import Graph
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
    """The numbers of visible pairs, and `otherwise` for hidden ones. A single True for all pairs changes nothing."""
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
    """Whether the statistic of a row is the number of a key, or −1: the normaliser states it."""
    return restriction(getattr(normaliser, "inner", normaliser), "tells_place", about=("statistic", "tile"))


def makes_tiles(normaliser: Normaliser) -> bool:
    """Whether `tile` still makes the weights: no subclass overrides the call without it, and no hook changes it."""
    return describes(getattr(normaliser, "inner", normaliser), "tile", ("__call__", "forward"))


def undecided(weights: Float[Tensor, "*rows key"]) -> bool:
    """Whether a softmax of finite scores and −∞ may have rows of NaN: those of −∞ alone. One number of each row
    suffices, because a row of a softmax is NaN everywhere or nowhere.
    """
    if not weights.shape[-1]:
        return False
    return traced() or math.isnan(weights.detach().select(-1, 0).sum().item())


def _all_are(visible: Visible) -> bool:
    return visible.numel() == 1 and visible.device.type == "cpu" and not traced() and bool(visible)


def precise(scores: Scores) -> Scores:
    """float32 at least: what thresholds and sums over a row need."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


@dataclass(frozen=True)
class Softmax:
    """α_ij = exp(e_ij / T) / Σ_j' exp(e_ij' / T) over the visible j'; 0 when nothing is visible.

    A temperature T below 1 sharpens, above 1 flattens. The lectures print softmax([2, 4, 4]) as [0.0, 0.5, 0.5]; the
    true values are

    >>> scores, visible = torch.tensor([[[[2.0, 4.0, 4.0]]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> Softmax()(scores, visible).flatten()
    tensor([0.0634, 0.4683, 0.4683])
    >>> Softmax(temperature=0.5)(scores, visible).flatten()         # nearer to the printed values
    tensor([0.0091, 0.4955, 0.4955])
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        require_real(positive=True, temperature=self.temperature)

    def build(self) -> "Softmax":
        return self

    @property
    def softmax_temperature(self) -> float:
        return self.temperature

    @property
    def symbol(self) -> str:
        return "softmax" if self.temperature == 1.0 else f"softmax_T={self.temperature:g}"

    def header(self) -> dict[str, str | float]:
        return {"kind": "softmax", "temperature": self.temperature}

    def onnx(self, graph: Graph, scores: str) -> str:
        if self.temperature != 1.0:
            scores = graph.op("Div", scores, graph.number(self.temperature))
        return graph.op("Softmax", scores, axis=-1)

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        tempered = self.tempered(scores)
        weights = closed(tempered, visible).softmax(-1)
        if undecided(weights):
            visible = possible(tempered, visible)
            weights = closed(tempered, visible).softmax(-1)
        return shown(weights, visible)

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """log Σ_j exp(e_ij / T); −∞ for an empty row, and for one of −∞ alone."""
        return shown(self.tempered(precise(scores)), visible, -torch.inf).logsumexp(-1)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        shift = statistic.nan_to_num(nan=torch.nan, posinf=torch.nan, neginf=0.0)
        return shown((self.tempered(scores) - shift[..., None]).exp(), visible).to(scores.dtype)

    def tempered(self, scores: Scores) -> Scores:
        return scores if self.temperature == 1.0 else scores / self.temperature

    def __repr__(self) -> str:
        return "Softmax()" if self.temperature == 1.0 else f"Softmax(temperature={self.temperature!r})"


def softmax_temperature(normaliser: Normaliser) -> float | None:
    """T where the weights are softmax(e / T); None for every other formula."""
    if type(normaliser) is Softmax:  # every call asks, and `claim` takes ten times as long
        return normaliser.temperature
    temperature: float | None = claim(normaliser, "softmax_temperature")
    return temperature


@dataclass(frozen=True)
class ReLU:
    """α_ij = max(0, e_ij) / Σ_j' max(0, e_ij'); with `normalised=False` simply max(0, e_ij).

    The lectures remark that softmax may be replaced, for example by ReLU. The weights of a row without a positive score
    are 0, like those of a row that sees nothing.

    >>> scores, visible = torch.tensor([[[[2.0, 4.0, -4.0]]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> ReLU()(scores, visible).flatten(), ReLU(normalised=False)(scores, visible).flatten()
    (tensor([0.3333, 0.6667, 0.0000]), tensor([2., 4., 0.]))
    """

    kind: ClassVar[str] = "relu"
    normalised: bool = True

    def build(self) -> "ReLU":
        return self

    @property
    def sums_to_one(self) -> bool:
        return self.normalised

    @property
    def symbol(self) -> str:
        return "relu / Σ" if self.normalised else "relu"

    def header(self) -> dict[str, str | bool]:
        return {"kind": "relu", "normalised": self.normalised}

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        positive = shown(scores, visible).relu()
        # In float16 a row of large scores would sum to infinity.
        return _divided(positive, precise(positive).sum(-1)) if self.normalised else positive

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """Σ_j max(0, e_ij); nothing is needed, and 0 is kept, when the weights are not normalised."""
        total = shown(precise(scores), visible).relu().sum(-1)
        return total if self.normalised else torch.zeros_like(total)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        positive = shown(scores, visible).relu()
        return _divided(positive, statistic) if self.normalised else positive


@dataclass(frozen=True)
class Sigmoid:
    """α_ij = 1 / (1 + exp(−e_ij − b)): every key is weighed on its own, and a row need not sum to 1.

    With b = −log(number of keys) the weights of a row start near a sum of 1 (Ramapuram et al. 2025, "sigmoid
    attention"); b is a number here because the number of keys varies.

    >>> scores, visible = torch.tensor([[[[0.0, 2.0, 2.0]]]]), torch.tensor([[[[True, True, False]]]])
    >>> Sigmoid()(scores, visible).flatten()
    tensor([0.5000, 0.8808, 0.0000])
    """

    sums_to_one: ClassVar[bool] = False
    symbol: ClassVar[str] = "sigmoid"
    bias: float = 0.0

    def __post_init__(self) -> None:
        require_real(bias=self.bias)

    def build(self) -> "Sigmoid":
        return self

    def header(self) -> dict[str, str | float]:
        return {"kind": "sigmoid", "bias": self.bias}

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        return shown((shown(scores, visible) + self.bias).sigmoid(), visible)

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """Nothing: a score gives its weight alone."""
        return torch.zeros_like(precise(scores[..., :1]).sum(-1))

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        return self(scores, visible)


@dataclass(frozen=True, kw_only=True)
class Proportional:
    """α_ij = e_ij / (Σ_j' e_ij' + ε) over the visible j', for scores that are nowhere negative.

    >>> Proportional()(torch.tensor([[[[1.0, 2.0, 5.0]]]]), torch.tensor([[[[True, True, False]]]])).flatten()
    tensor([0.3333, 0.6667, 0.0000])

    With ε = 0 rows sum to 1; published code adds 1e-6. A row without any score to divide by is zero.
    """

    sums_to_one: ClassVar[bool] = False
    symbol: ClassVar[str] = "proportional"
    eps: float = 0.0

    def __post_init__(self) -> None:
        require_real(eps=self.eps)
        if self.eps < 0:
            raise ValueError(f"eps={self.eps} must not be negative.")

    def build(self) -> "Proportional":
        return self

    def header(self) -> dict[str, str | float]:
        return {"kind": "proportional", "eps": self.eps}

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        return self.tile(scores, visible, self.statistic(scores, visible))

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """Σ_j e_ij"""
        return torch.where(possible(scores, visible), precise(scores), 0.0).sum(-1)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        return _divided(torch.where(possible(scores, visible), scores, 0.0), statistic + self.eps)


def _divided(numbers: Scores, total: Rows) -> Weights:
    """Numbers over the total of their row; 0 where that is 0."""
    total = total[..., None]
    return (numbers / torch.where(total > 0, total, 1.0)).to(numbers.dtype)
