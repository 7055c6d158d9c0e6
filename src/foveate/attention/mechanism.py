"""Three verbs that every attention has, whatever its formula, and the configurations that build one."""

import inspect
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention.attention import Attention
from foveate.attention.bias import BiasConfig
from foveate.attention.chooser import Plan
from foveate.attention.explanation import Explanation
from foveate.attention.normaliser import NormaliserConfig, Softmax
from foveate.attention.position import Positions
from foveate.attention.score import ScaledDot, ScoreConfig
from foveate.attention.transform import TransformConfig
from foveate.attention.visibility import TRIANGLE, Visibility, causal, everything, same_segment
from foveate.attention.visibility.rule import require_visibility
from foveate.config import chosen

Query = Float[Tensor, "batch heads query query_dim"]
Key = Float[Tensor, "batch kv_heads key key_dim"]
Value = Float[Tensor, "batch kv_heads key value_head_dim"]
KeyFeatures = Float[Tensor, "batch #heads key feature"]
Context = Float[Tensor, "batch heads query value_head_dim"]


@runtime_checkable
class Mechanism(Protocol):
    """An `Attention`, or another formula with the same verbs.

    A mechanism whose weights are for a limited number of positions has that number as `max_length`, and so has its
    configuration: longer examples are then left out of the data, and longer texts refused, before anything runs.
    """

    visibility: Visibility

    def key_features(self, key: Float[Tensor, "batch heads key key_dim"]) -> Tensor | None: ...

    def explain(self, query: Query, key: Key, value: Value, *, at: Positions | None = None) -> Explanation: ...

    def run(
        self,
        query: Query,
        key: Key,
        value: Value,
        *,
        at: Positions | None = None,
        key_features: KeyFeatures | None = None,
        dropout: float = 0.0,
    ) -> Context: ...

    def plan(self, query: Query, key: Key, *, at: Positions | None = None) -> Plan: ...


@runtime_checkable
class MechanismConfig(Protocol):
    """Chooses a mechanism and builds it for one place in a model.

    `visibility` is what the place demands (a decoder's `causal()`); ValueError is raised where it cannot be honoured.
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
class Site:
    """One place in a model, for which a mechanism is built."""

    query_dim: int
    key_dim: int
    num_heads: int
    visibility: Visibility
    """The rule that the place demands."""
    kind: Literal["self", "cross"]


Built = TypeVar("Built")


class SiteConfig(Generic[Built]):
    """The configuration of a mechanism of this package: `build_for` makes it."""

    @property
    def max_length(self) -> int | None:
        """The most positions that the score has numbers for; None where there is no limit."""
        return getattr(getattr(self, "score", None), "max_length", None)

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility | None = None,
        kind: Literal["self", "cross"] = "self",
    ) -> Built:
        """The mechanism. Raises ValueError where it cannot stand in such a place."""
        rule = everything() if visibility is None else visibility
        require_visibility(rule)
        site = Site(query_dim=query_dim, key_dim=key_dim, num_heads=num_heads, visibility=rule, kind=kind)
        return self.build_for(site)

    def build_for(self, site: Site) -> Built:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(SiteConfig[Attention]):
    """score → bias → visibility → normaliser → context."""

    score: ScoreConfig = ScaledDot()
    normaliser: NormaliserConfig = Softmax()
    visibility: Visibility = everything()
    """The keys that a query sees, as code, beside what the model demands: "window(left=128, right=0)"."""
    bias: BiasConfig | None = None
    transforms: tuple[TransformConfig, ...] = ()
    """Changes of queries and keys before they are scored, in this order."""

    def __post_init__(self) -> None:
        """Kinds by name, as configurations on disk say them: AttentionConfig(normaliser="sparsemax")."""
        for field in fields(self):
            object.__setattr__(self, field.name, chosen(type(self), field.name, getattr(self, field.name)))

    def build_for(self, site: Site) -> Attention:
        widths, heads = {"query_dim": site.query_dim, "key_dim": site.key_dim}, site.num_heads
        if self.transforms and site.query_dim != site.key_dim:
            names = " and ".join(type(transform).__name__.removesuffix("Config") for transform in self.transforms)
            raise ValueError(
                f"{names} changes queries and keys alike and needs one width, got {site.query_dim} and {site.key_dim}. "
                "Choose equal widths, or leave the transforms out."
            )
        if site.kind == "self" and self.visibility.reads_length and site.visibility & causal() == site.visibility:
            raise ValueError(
                f"{self.visibility} needs the length of the whole sequence, which a decoder has not written yet. "
                "Choose a rule that counts from its own position, such as window(left=64, right=0), or another site."
            )
        return Attention(
            built(self.score, **widths, num_heads=heads),
            visibility=site.visibility & self.visibility,
            bias=None if self.bias is None else built(self.bias, num_heads=heads, head_dim=site.key_dim),
            transforms=[built(transform, head_dim=site.key_dim, num_heads=heads) for transform in self.transforms],
            normaliser=built(self.normaliser),
            kind=site.kind,
        )


def built(part: Any, **sizes: int) -> Any:
    """The part that its configuration builds. Raises ValueError for a user's class without a usable `build`."""
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
        require_for_batches(f"{name}.visibility", getattr(attention, "visibility", ""))


def require_for_batches(name: str, rule: object) -> None:
    """Raise ValueError naming a rule that separates the texts of one row, or contains the lengths of one batch."""
    text = str(rule)
    if str(same_segment()) in text:
        raise ValueError(
            f"{name} cannot be {text!r}: a model's batch holds one text a row, without segments. Leave same_segment() "
            "out; where you pack texts yourself, give it to an Attention with at=Positions(..., query_segment=..., "
            "key_segment=...)"
        )
    if "padding([" in text or "prefix([" in text:
        raise ValueError(
            f"{name} cannot be {text!r}: it contains the lengths of one batch, and a model processes many. padding() "
            "takes lengths from each batch; prefix(3) is the same prefix for all rows"
        )


@dataclass(frozen=True)
class Demand:
    """A conjunction, divided into rules that a formula without a weight for each pair can honour, and others.

    >>> from foveate.attention import padding, window
    >>> demand = demand_of(causal() & padding() & window(left=2, right=2))
    >>> demand.causal, demand.others
    (False, (window(left=2, right=0),))
    """

    causal: bool
    of_keys: tuple[Visibility, ...]
    """Rules that hide a key from all queries or from none."""
    others: tuple[Visibility, ...]

    def keys(self, at: Positions) -> Bool[Tensor, "#batch #heads 1 key"]:
        """Keys that these rules hide from no query."""
        visible = torch.ones(1, 1, 1, at.key.shape[-1], dtype=torch.bool, device=at.device)
        for rule in self.of_keys:
            visible = visible & rule(at)
        return visible


def demand_of(rule: Visibility) -> Demand:
    require_visibility(rule)
    of_keys = tuple(part for part in rule.parts if not part.reads_query_position)
    others = tuple(part for part in rule.parts if part.reads_query_position and part.band != TRIANGLE)
    return Demand(any(part.band == TRIANGLE for part in rule.parts), of_keys, others)


def require_demand(mechanism: str, rule: Visibility, *, may_be_causal: bool, way_out: str) -> None:
    """Raise ValueError for a rule that is more than causal() and rules about keys, TypeError for a non-rule."""
    demand = demand_of(rule)
    unmet = [*(["causal()"] if demand.causal and not may_be_causal else []), *map(str, demand.others)]
    if unmet:
        raise ValueError(f"{mechanism} cannot honour {' & '.join(unmet)}: {way_out}")
