"""Softmax: every visible key weighs something."""

from dataclasses import dataclass

import torch

from foveate.attention.check import require_real
from foveate.attention.claim import claim
from foveate.attention.normaliser.normaliser import (
    Normaliser,
    Rows,
    Scores,
    Visible,
    Weights,
    closed,
    possible,
    precise,
    shown,
    undecided,
)
from foveate.attention.onnx import Graph


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
    if type(normaliser) is Softmax:  # as `claim` would find in ten times the time, and every call asks
        return normaliser.temperature
    temperature: float | None = claim(normaliser, "softmax_temperature")
    return temperature
