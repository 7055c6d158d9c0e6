"""How well a query and a key match: e_ij = score(q_i, k_j).

A score is any callable on `(query, key)`. The ones here also say which part belongs to the key alone
(`key_features`), so that a decoder computes it once per sentence and not once per word:

    score(q, k) = compare(query_features(q), key_features(k))
"""

from typing import Protocol, TypeGuard, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from foveate.attention.check import require_made_for
from foveate.attention.claim import claim, describes
from foveate.attention.position import Positions


@runtime_checkable
class Score(Protocol):
    """Any callable that scores every query against every key."""

    def __call__(
        self, query: Float[Tensor, "batch heads query query_dim"], key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads query key"]: ...


@runtime_checkable
class KeyedScore(Protocol):
    """A score with a part that the key alone decides, to be computed once and kept."""

    def key_features(
        self, key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads key feature"]: ...


@runtime_checkable
class FactoredScore(Score, Protocol):
    """A score whose key part can be computed once and kept."""

    def query_features(
        self, query: Float[Tensor, "batch heads query query_dim"]
    ) -> Float[Tensor, "batch heads query feature"]: ...

    def key_features(
        self, key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads key feature"]: ...

    def compare(
        self,
        query_features: Float[Tensor, "batch heads query feature"],
        key_features: Float[Tensor, "batch heads key feature"],
    ) -> Float[Tensor, "batch heads query key"]: ...


@runtime_checkable
class PlacedScore(Protocol):
    """A score that also depends on where queries and keys stand.

    One that is a `KeyedScore` too is handed what it made of the keys as `key_features=`.
    """

    def scores_at(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch heads key key_dim"],
        at: Positions,
    ) -> Float[Tensor, "batch heads query key"]: ...


def is_placed(score: object) -> TypeGuard[PlacedScore]:
    """Whether a score is a `PlacedScore`, in a tenth of the time of `isinstance`: every call asks."""
    return hasattr(type(score), "scores_at") or "scores_at" in getattr(score, "__dict__", ())


CALLED = ("__call__", "forward")
FEATURES = ("query_features", "key_features")
SCORED = (*CALLED, "compare", "scores_at", "pairs")
"""Methods that compute scores."""


def is_factored(score: object) -> TypeGuard[FactoredScore]:
    """Whether `compare` of the features is the score: no subclass has overridden the score itself, and no hook may
    change it.

    >>> from foveate.attention import Dot
    >>> class Capped(Dot):
    ...     def __call__(self, query, key):
    ...         return super().__call__(query, key).tanh()
    >>> is_factored(Dot()), is_factored(Capped())
    (True, False)
    """
    kind = type(score)
    return all(hasattr(kind, part) and describes(score, part, CALLED) for part in (*FEATURES, "compare"))


def symbol_of(score: object, head_dim: int) -> str:
    """A score in a formula: by its own `symbol`, else by the name of its class."""
    symbol = claim(score, "symbol")
    return str(symbol(head_dim)) if callable(symbol) else type(score).__name__


def project(x: Tensor, weight: Tensor) -> Tensor:
    """x · W with a matrix per head; one matrix for all heads makes one product instead of one per example."""
    require_made_for(x, weight)
    return x @ (weight.reshape(weight.shape[-2:]) if weight.shape[0] == 1 else weight)
