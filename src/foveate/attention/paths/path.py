"""The protocol of all ways to execute an attention, and what several of them need."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention.bias import Bias
from foveate.attention.claim import restriction
from foveate.attention.normaliser import Normaliser
from foveate.attention.position import Positions, traced
from foveate.attention.score import PlacedScore, Score
from foveate.attention.visibility import Visibility


class Cost(NamedTuple):
    """Arithmetic and memory of one call, for `plan` to show."""

    flops: float
    """Floating-point operations of the forward pass."""
    bytes: float
    """Memory beyond inputs and output, at the peak."""


@runtime_checkable
class Formula(Protocol):
    """The parts of an attention that a path reads."""

    score: Score | PlacedScore
    visibility: Visibility
    bias: Bias | None
    normaliser: Normaliser
    reweight: Bias | None
    """Normalised weights are multiplied by exp(reweight), unless it is None."""


@runtime_checkable
class Path(Protocol):
    """One way to execute an attention: it computes exactly the attention it is given, or says why not. It never drops a
    part.

    Queries and keys are already transformed. Beside the methods below, a path may have

    * `cost(formula, query, key, at)`, a `Cost` for `plan` to show;
    * `pays(formula, query, key, at)`: False where it accepts an attention, but another path takes less time;
    * `by_kind = True`: its refusals depend only on the parts of the formula, shapes, number types, the device and
      whether gradients are wanted, so that it is not asked again for a call of the same kind;
    * `traceable = True`: it consists of torch's operations. Under torch.compile, the first of these that accepts runs.
    """

    name: str

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        """Why this path does not serve this attention; empty when it does."""
        ...

    def run(
        self,
        formula: Formula,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions,
        key_features: Float[Tensor, "batch #heads key feature"] | None,
        dropout: float,
    ) -> Float[Tensor, "batch heads query value_head_dim"]: ...


class Inputs(NamedTuple):
    """The arguments of `run`."""

    formula: Formula
    query: Float[Tensor, "batch heads query query_dim"]
    key: Float[Tensor, "batch kv_heads key key_dim"]
    value: Float[Tensor, "batch kv_heads key value_head_dim"]
    at: Positions
    key_features: Float[Tensor, "batch #heads key feature"] | None = None
    dropout: float = 0.0


class ShippedPath:
    """A base for the paths of this package: each computes the `context` from one value, its `Inputs`."""

    def run(
        self,
        formula: Formula,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions,
        key_features: Float[Tensor, "batch #heads key feature"] | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch heads query value_head_dim"]:
        return self.context(Inputs(formula, query, key, value, at, key_features, dropout))

    def context(self, inputs: Inputs) -> Float[Tensor, "batch heads query value_head_dim"]:
        raise NotImplementedError


def count_pairs(query: Tensor, key: Tensor) -> float:
    """The number of pairs of a query and a key, over all examples and heads."""
    return float(query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2])


def cutting_reasons(formula: Formula) -> list[str]:
    """Why queries may not be taken a few at a time; empty when they may."""
    undivided = restriction(formula.normaliser, "undivided")
    return [f"{formula.normaliser} draws for all queries at once"] if undivided else []


def empty_reasons(query: Tensor, key: Tensor) -> list[str]:
    """Why a path that cuts queries and keys does not serve; empty where there are some of both."""
    return [] if query.numel() and key.numel() else ["there are no queries or no keys"]


def tracing_reasons() -> list[str]:
    """Why a kernel of ours does not serve; empty unless the program is being traced."""
    return ["a native kernel cannot be part of a traced program"] if traced() else []


def context_type(value: Tensor) -> torch.dtype:
    """The number type of the context: autocast's, as of every product of matrices."""
    device = value.device.type
    light = torch.is_autocast_enabled(device) and value.dtype != torch.float64
    return torch.get_autocast_dtype(device) if light else value.dtype


def share_heads(tensor: Float[Tensor, "batch kv_heads key dim"], heads: int) -> Float[Tensor, "batch heads key dim"]:
    """Repeat each key-value head for its group of query heads."""
    groups = heads // tensor.shape[1]
    return tensor if groups == 1 else tensor.repeat_interleave(groups, dim=1)
