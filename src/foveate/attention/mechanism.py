"""What every attention offers, whatever its formula: three verbs, and a configuration that builds it."""

from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from foveate.attention.attention import Explanation, Plan
from foveate.attention.position import Positions
from foveate.attention.visibility import Visibility


@runtime_checkable
class Mechanism(Protocol):
    """An `Attention`, or another formula with the same verbs.

    One whose weights reach only so many positions says how many in an attribute `max_length`, and so does its
    configuration: longer examples are then left out of the data, and longer texts refused, before anything runs.
    """

    visibility: Visibility

    def key_features(self, key: Float[Tensor, "batch heads key key_dim"]) -> Tensor | None: ...

    def explain(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions | None = None,
    ) -> Explanation: ...

    def run(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        value: Float[Tensor, "batch kv_heads key value_head_dim"],
        *,
        at: Positions | None = None,
        key_features: Float[Tensor, "batch #heads key feature"] | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch heads query value_head_dim"]: ...

    def plan(
        self,
        query: Float[Tensor, "batch heads query query_dim"],
        key: Float[Tensor, "batch kv_heads key key_dim"],
        *,
        at: Positions | None = None,
    ) -> Plan: ...


@runtime_checkable
class MechanismConfig(Protocol):
    """Chooses a mechanism and builds it for one place in a model.

    `visibility` is what the place demands (a decoder's `causal()`); who cannot honour it raises ValueError.
    """

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility,
        kind: Literal["self", "cross"],
    ) -> Mechanism: ...
