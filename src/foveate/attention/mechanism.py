"""What every attention offers, whatever its formula: three verbs, and a configuration that builds it."""

from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from foveate.attention.attention import Explanation
from foveate.attention.plan import Plan
from foveate.attention.position import Positions
from foveate.attention.visibility import Visibility, same_segment


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


def shortest(*parts: object) -> int | None:
    """The smallest `max_length` of several modules or configurations; None if none has a limit.

    >>> from foveate.attention import AttentionConfig
    >>> from foveate.attention.efficient import LinformerConfig
    >>> shortest(AttentionConfig(), LinformerConfig(max_length=40), LinformerConfig(max_length=60))
    40
    """
    limits = (getattr(part, "max_length", None) for part in parts)
    return min((limit for limit in limits if limit is not None), default=None)


def require_no_segments(**attentions: object) -> None:
    """Raise ValueError naming an attention whose rule separates the texts of one row, because a model's rows hold one
    text each, or whose rule contains the lengths of one batch, because a model processes many batches.
    """
    for name, attention in attentions.items():
        rule = str(getattr(attention, "visibility", ""))
        if str(same_segment()) in rule:
            raise ValueError(
                f"{name}.visibility cannot be {rule!r}: a model's batch holds one text a row, without segments. "
                "Leave same_segment() out; where you pack texts yourself, give it to an Attention with "
                "at=Positions(..., query_segment=..., key_segment=...)"
            )
        if "padding([" in rule or "prefix([" in rule:
            raise ValueError(
                f"{name}.visibility cannot be {rule!r}: it contains the lengths of one batch, and a model processes "
                "many. padding() takes lengths from each batch; prefix(3) is the same prefix for all rows"
            )
