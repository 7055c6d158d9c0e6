"""Attentions whose rule, scale and bias come from each call of a guest model."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention import Attention, Explanation, Plan, Positions, ScaledDot, Visibility
from foveate.attention.bias import Bias
from foveate.attention.normaliser import softmax_temperature
from foveate.attention.normaliser.normaliser import Rows, Scores, Visible, Weights, precise
from foveate.errors import UsageError
from foveate.hugging_face.standing import Demand, Standing


@dataclass(frozen=True)
class Given(Visibility):
    """A rule with precomputed values for all pairs, from `Standing.shown`."""

    def __call__(self, at: Positions) -> Tensor:
        if not isinstance(at, Standing) or at.shown is None:
            raise ValueError("given() reads what a call was given: pass at=Standing(..., shown=...).")
        return at.shown

    def __repr__(self) -> str:
        return "given()"


@dataclass(frozen=True, kw_only=True)
class SoftCapped:
    """score(q, k) = c tanh(µ q·k / c), which is between −c and c

    Bello et al. 2017, section 3.2, squeeze logits so; the Gemma 2 models squeeze scores, with c = 50.

    >>> q = torch.tensor([[[[300.0, 400.0]]]])
    >>> SoftCapped(cap=50.0)(q, q).item()
    50.0
    """

    cap: float
    scale: float | None = None

    def __call__(
        self, query: Float[Tensor, "batch heads query dim"], key: Float[Tensor, "batch heads key dim"]
    ) -> Float[Tensor, "batch heads query key"]:
        products = ScaledDot(scale=self.scale)(query, key)
        return torch.tanh(products / self.cap) * self.cap


@dataclass(frozen=True, eq=False)
class Sunk:
    """α_ij = exp(e_ij) / (exp(s_h) + Σ_j' exp(e_ij')) over the visible j'; the weight of the sink s_h is lost

    Reference: the learned sinks of gpt-oss (OpenAI 2025); Xiao et al. 2024 describe what they are for.

    >>> scores, visible = torch.zeros(1, 1, 1, 3), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> Sunk(torch.zeros(1))(scores, visible).flatten()
    tensor([0.2500, 0.2500, 0.2500])
    """

    sinks: Float[Tensor, " heads"]

    def __call__(self, scores: Scores, visible: Visible) -> Weights:
        joined = torch.cat([torch.where(visible, scores, -torch.inf), self._column(scores)], -1)
        return torch.where(visible, joined.softmax(-1)[..., :-1], 0.0)

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        scores = precise(scores)
        return torch.cat([torch.where(visible, scores, -torch.inf), self._column(scores)], -1).logsumexp(-1)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        return torch.where(visible, (scores - statistic[..., None]).exp(), 0.0).to(scores.dtype)

    def _column(self, scores: Tensor) -> Tensor:
        return self.sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:3], 1)

    def __repr__(self) -> str:
        return "Sunk()"


class Beside(nn.Module):
    """The floats of a call, added to the attention's own bias."""

    def __init__(self, own: Bias | None) -> None:
        super().__init__()
        self.own = own

    def forward(self, at: Positions) -> Tensor:
        assert isinstance(at, Standing)
        assert at.added is not None
        return at.added if self.own is None else at.added + self.own(at).to(at.added.dtype)


FORMULAS = 64
"""The number of attentions, for different demands of calls, that one guest keeps."""


class Guest(Attention):
    """An attention inside another library's model. The `Standing` of a call contains its rule, scale and bias, which
    are combined with this attention's parts:

    * the rule is the call's rule & `visibility`; biases are summed;
    * `ScaledDot()` without its own scale uses the scale and cap of the call; any other score uses neither;
    * `Softmax()` uses the call's sinks; any other normaliser does not.

    Other combinations are refused. Records have this module's name.
    """

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._formulas: dict[tuple[object, ...], tuple[Attention, tuple[object, ...]]] = {}

    @classmethod
    def of(cls, attention: Attention, kind: Literal["self", "cross"] = "self") -> "Guest":
        """A guest that shares the parts of an attention."""
        return cls(
            score=attention.score,
            visibility=attention.visibility,
            bias=attention.bias,
            transforms=attention.transforms,
            normaliser=attention.normaliser,
            centre=attention.centre,
            reweight=attention.reweight,
            kind=kind,
            paths=attention.paths,
        )

    def run(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        at: Positions | None = None,
        key_features: Tensor | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        formula = self.formula(at)
        return formula.run(query, key, value, at=at, key_features=key_features, dropout=dropout)

    def explain(self, query: Tensor, key: Tensor, value: Tensor, *, at: Positions | None = None) -> Explanation:
        return self.formula(at).explain(query, key, value, at=at)

    def plan(self, query: Tensor, key: Tensor, *, at: Positions | None = None) -> Plan:
        return self.formula(at).plan(query, key, at=at)

    def formula(self, at: Positions | None) -> Attention:
        """The attention for the demands of a call, made once for equal demands."""
        if not isinstance(at, Standing):
            at = Standing.between(0, 0)
        parts = (self.score, self.normaliser, self.bias, self.reweight, self.centre, self.paths, *self.transforms)
        kind = (at.demand, self.visibility, *map(id, parts))
        if kind not in self._formulas:
            if len(self._formulas) >= FORMULAS:  # sinks that are new in each call would accumulate
                self._formulas.clear()
            attention = self._combined(at.demand, at.sinks)
            object.__setattr__(attention, "_site", self)  # not a submodule; records get the name of this site
            self._formulas[kind] = (attention, parts)  # the parts stay alive, so that their ids are not reused
        return self._formulas[kind][0]

    def _combined(self, demand: Demand, sinks: Tensor | None) -> Attention:
        return Attention(
            self._score(demand),
            visibility=demand.rule & self.visibility,
            bias=Beside(self.bias) if demand.biased else self.bias,
            transforms=self.transforms,
            normaliser=self.normaliser if sinks is None else self._sunk(sinks),
            centre=self.centre,
            reweight=self.reweight,
            kind=self.kind,
            paths=self.paths,
        )

    def _score(self, demand: Demand) -> Any:
        scaled = type(self.score) is ScaledDot and self.score.scale is None
        if demand.cap is None:
            return ScaledDot(scale=demand.scale) if scaled else self.score
        if not scaled:
            raise UsageError(
                f"The model caps its scores at {demand.cap:g}, and {type(self.score).__name__} is another score. "
                "Give this layer ScaledDot(), or another layer the new score."
            )
        return SoftCapped(cap=demand.cap, scale=demand.scale)

    def _sunk(self, sinks: Tensor) -> Sunk:
        if softmax_temperature(self.normaliser) != 1.0:
            raise UsageError(
                f"The model has sinks beside its keys, which {self.normaliser} does not know. "
                "Leave this layer its softmax, or give another layer the new normaliser."
            )
        return Sunk(sinks)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_formulas": {}}
