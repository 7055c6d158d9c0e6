"""What every attention offers, whatever its formula: three verbs, and a configuration that builds it."""

import inspect
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from foveate.attention.attention import Attention, Explanation
from foveate.attention.bias import BiasConfig
from foveate.attention.efficient import EfficientConfig
from foveate.attention.local import LocalMonotonicConfig, LocalPredictiveConfig
from foveate.attention.normaliser import NormaliserConfig, Softmax
from foveate.attention.path_plan import Plan
from foveate.attention.position import Positions
from foveate.attention.score import ScaledDot, ScoreConfig
from foveate.attention.transform import TransformConfig
from foveate.attention.visibility import Visibility, causal, everything, same_segment
from foveate.config import chosen


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


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """score → bias → visibility → normaliser → context."""

    score: ScoreConfig = ScaledDot()
    normaliser: NormaliserConfig = Softmax()
    visibility: Visibility = everything()
    """Who may look at whom, as code, beside what the model demands: "window(left=128, right=0)"."""
    bias: BiasConfig | None = None
    transforms: tuple[TransformConfig, ...] = ()
    """What happens to queries and keys before they are scored, in this order."""

    def __post_init__(self) -> None:
        """Kinds by name, as configurations on disk say them: AttentionConfig(normaliser="sparsemax")."""
        for field in fields(self):
            object.__setattr__(self, field.name, chosen(type(self), field.name, getattr(self, field.name)))

    @property
    def max_length(self) -> int | None:
        """The most positions that the score has numbers for; None where there is no limit."""
        return getattr(self.score, "max_length", None)

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility | None = None,
        kind: Literal["self", "cross"] = "self",
    ) -> Attention:
        if self.transforms and query_dim != key_dim:
            names = " and ".join(type(transform).__name__.removesuffix("Config") for transform in self.transforms)
            raise ValueError(
                f"{names} changes queries and keys alike and needs one width, got {query_dim} and {key_dim}. "
                "Choose equal widths, or leave the transforms out."
            )
        demanded = everything() if visibility is None else visibility
        if kind == "self" and self.visibility.reads_length and demanded & causal() == demanded:
            raise ValueError(
                f"{self.visibility} needs the length of the whole sequence, which a decoder has not written yet. "
                "Choose a rule that counts from its own position, such as window(left=64, right=0), or another site."
            )
        return Attention(
            built(self.score, query_dim=query_dim, key_dim=key_dim, num_heads=num_heads),
            visibility=demanded & self.visibility,
            bias=None if self.bias is None else built(self.bias, num_heads=num_heads, head_dim=key_dim),
            transforms=[built(transform, head_dim=key_dim, num_heads=num_heads) for transform in self.transforms],
            normaliser=built(self.normaliser),
            kind=kind,
        )


def built(part: Any, **sizes: int) -> Any:
    """What a part's configuration builds. Raises ValueError for a user's class that builds nothing, or cannot."""
    kind = type(part)
    if kind.__module__.partition(".")[0] == "foveate":
        return part.build(**sizes)
    arguments = ", ".join(f"{name}=" for name in sizes)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not callable(getattr(part, "build", None)):
        raise ValueError(f"{name} has no method build({arguments}), which returns the part itself. Write one.")
    try:
        inspect.signature(part.build).bind(**sizes)
    except TypeError as error:
        raise ValueError(f"{name}.build cannot be called as build({arguments}): {error}. Let it take these.") from None
    result = part.build(**sizes)
    if result is None:
        raise ValueError(f"{name}.build returned nothing. Let it return the part itself, which is called or has verbs.")
    return result


AnyMechanismConfig = AttentionConfig | LocalMonotonicConfig | LocalPredictiveConfig | EfficientConfig
"""The mechanisms that a configuration can name."""


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
