"""One attention of one example in compact form: features, one number per row, and rules, which give any tile."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.attention import Positions, Visibility
from foveate.attention.claim import claim
from foveate.attention.normaliser import (
    Normaliser,
    NormaliserConfig,
    Proportional,
    softmax_temperature,
    tells_place,
)
from foveate.attention.score import Form, Product, form_from
from foveate.config import build
from foveate.errors import DataError, UsageError

SiteKind = Literal["self", "cross", "graph", "recurrent"]
Rows = slice | Tensor
"""Selected queries or keys: a range without steps, or a list of indices."""
TERMS = 1 << 22
"""The number of terms that a network over pairs computes at once."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Site:
    """weight_ij = normalise(score(q_i, k_j) + bias_ij, statistic_i) · exp(reweight_ij) on the visible keys."""

    name: str
    """The dotted name of the module; `title` is its name for readers."""
    kind: SiteKind
    layer: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    query: str
    """The name of the queries' track."""
    key: str
    score: Mapping[str, Any]
    visibility: Mapping[str, Any]
    bias: Mapping[str, Any] | None = None
    normaliser: Mapping[str, Any]
    reweight: Mapping[str, Any] | None = None
    shows: Literal["exact", "implied", "projected"] = "exact"
    formula: str = ""
    drawn: bool = False
    """Whether the weights are a distribution from which one key is sampled."""
    posterior: bool = False
    """Whether the weights are the probabilities of an alignment, such as CTC's, instead of an attention."""
    tensors: Mapping[str, Tensor] = field(repr=False)

    def header(self) -> dict[str, Any]:
        """Plain data for JSON. A site of attention has no field `posterior`, which older readers do not know."""
        absent = {"tensors"} if self.posterior else {"tensors", "posterior"}
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.name not in absent}
        return {name: dict(part) if isinstance(part, Mapping) else part for name, part in parts.items()}

    @property
    def title(self) -> str:
        """The name in viewers, pictures and messages, without the attention's own part of the dotted name.

        The dotted name also selects a site.
        """
        return titled(self.name)

    @cached_property
    def built(self) -> Normaliser:
        """The normaliser as an object."""
        return _built(self.normaliser)

    @cached_property
    def native(self) -> tuple[int | float, int | float] | None:
        """The distances that a query sees to the left and to the right; None if visibility depends on more than
        these.
        """
        window = self.visibility.get("native")
        if window is None:
            return None
        left, right = window["left"], window["right"]
        return (float("inf") if left is None else left, float("inf") if right is None else right)

    @cached_property
    def rule(self) -> Visibility:
        """The visibility rule, for a site without stored bits."""
        return Visibility.parse(self.visibility["code"])

    @property
    def weighs_nothing_else(self) -> bool:
        """Whether every row sums to 1, or to 0 without visible keys."""
        return bool(claim(self.built, "sums_to_one", True)) and self.reweight is None

    @cached_property
    def query_position(self) -> Tensor:
        return self.tensors["query_position"].long()

    @cached_property
    def key_position(self) -> Tensor:
        return self.tensors["key_position"].long()

    @cached_property
    def sorted(self) -> bool:
        """Whether keys are in the order of their positions, so that a window is a range of keys."""
        return bool((self.key_position.diff() > 0).all())

    def scores(self, head: int, rows: Rows = slice(None), columns: Rows = slice(None)) -> Float[Tensor, "query key"]:
        """Score + bias of all pairs, also of hidden ones."""
        if self.score["kind"] == "dense":
            scores = self.tensors["scores"][head][rows][:, columns].to(torch.float32, copy=True)
        else:
            query = self.tensors["query"][head][rows].float()
            key = self.tensors["key"][head // (self.heads // self.kv_heads)][columns].float()
            scores = _compared(self.form(head), query, key)
        bias = self._bias(head, rows, columns)
        return scores if bias is None else scores.add_(bias)

    def form(self, head: int) -> Form:
        """The form of the score of a head, for scores that are not stored pair by pair."""
        vectors = self.tensors.get("vector")
        return form_from(self.score, None if vectors is None else _of_head(vectors, head)[None])

    def visible(
        self, head: int, rows: Rows = slice(None), columns: Rows = slice(None)
    ) -> Bool[Tensor, "query key"] | None:
        """Whether keys are visible to each query; None if all are."""
        if "visible" in self.tensors:
            return self._bits(head, rows, columns)
        if self.native is None:
            return self._ruled(head, rows, columns)
        query, key = self.query_position[rows], self.key_position[columns]
        real = self.tensors["real"][columns] if "real" in self.tensors else None
        if not len(query) or not len(key):
            return torch.zeros(len(query), len(key), dtype=torch.bool)
        left, right = self.native
        visible = None
        if int(query.max()) - int(key.min()) > left:
            visible = query[:, None] - key <= left
        if int(key.max()) - int(query.min()) > right:
            near = key - query[:, None] <= right
            visible = near if visible is None else visible & near
        if real is not None and not bool(real.all()):
            visible = real.expand(len(query), -1) if visible is None else visible & real
        return visible

    def weights(
        self, head: int, rows: Rows = slice(None), columns: Rows = slice(None)
    ) -> tuple[Float[Tensor, "query key"], Bool[Tensor, "query key"] | None]:
        """The weights of some queries over some keys, and the visible pairs (None: all)."""
        visible = self.visible(head, rows, columns)
        first = columns.indices(self.keys)[0] if isinstance(columns, slice) else 0
        statistic = self.tensors["statistic"][head][rows]
        if isinstance(columns, Tensor) and tells_place(self.built):
            shown = (columns == statistic[:, None]).float()
            weights = shown if visible is None else shown * visible
        else:
            scores = self.scores(head, rows, columns)
            weights = _tile(self.built, scores, visible, statistic, first=first)
        reweight = self._reweight(head, rows, columns)
        return (weights if reweight is None else weights.mul_(reweight.exp())), visible

    def logarithms(
        self, head: int, rows: slice, columns: slice
    ) -> tuple[Float[Tensor, "query key"], Bool[Tensor, "query key"] | None] | None:
        """ln of `weights`, −∞ for hidden pairs, for a softmax; None for other formulas. Finding the largest weight then
        does not require exponentials.
        """
        temperature = softmax_temperature(self.built)
        if temperature is None or self.reweight is not None:
            return None
        visible = self.visible(head, rows, columns)
        logs = self.scores(head, rows, columns)
        if temperature != 1:
            logs.div_(temperature)
        logs.sub_(finite(self.tensors["statistic"][head][rows])[:, None])
        return (logs if visible is None else logs.masked_fill_(~visible, -torch.inf)), visible

    def reach(self, rows: slice) -> tuple[int, int]:
        """The range that contains all keys visible to these consecutive queries."""
        if self.native is not None and self.sorted:
            query = self.query_position[rows]
            if not len(query):
                return 0, 0
            left, right = self.native
            low, high = float(query.min()) - left, float(query.max()) + right
            return self._range(low, high)
        if self.native is None and "visible" not in self.tensors and self.sorted:
            first, last = self.rule.bounds(self._at(slice(None)).rows(rows))
            return self._range(float(first.min()), float(last.max()))
        return 0, self.keys

    def with_statistic(self, statistic: Float[Tensor, "heads query"]) -> "Site":
        return replace(self, tensors={**self.tensors, "statistic": statistic.float()})

    def _range(self, low: float, high: float) -> tuple[int, int]:
        if low > high:
            return 0, 0
        position = self.key_position.double()
        first = int(torch.searchsorted(position, low))
        return first, max(first, int(torch.searchsorted(position, high, right=True)))

    def _bias(self, head: int, rows: Rows, columns: Rows) -> Tensor | None:
        if self.bias is None:
            return None
        bias = _of_head(self.tensors["bias"], head)
        if self.bias["kind"] == "dense":
            return bias[rows][:, columns]
        distance = self.key_position[columns] - self.query_position[rows][:, None]
        return bias[distance - self.bias["first"]]

    def _reweight(self, head: int, rows: Rows, columns: Rows) -> Tensor | None:
        if self.reweight is None:
            return None
        if self.reweight["kind"] == "dense":
            return _of_head(self.tensors["reweight"], head)[rows][:, columns]
        centre = _of_head(self.tensors["centre"], head) if "centre" in self.tensors else self.query_position
        away = self.key_position[columns] - centre[rows][:, None]
        return away.float() ** 2 / (-2 * self.reweight["sigma"] ** 2)

    def _bits(self, head: int, rows: Rows, columns: Rows) -> Tensor:
        packed = _of_head(self.tensors["visible"], head)[rows]
        place = torch.arange(self.keys)[columns]
        return (packed[:, place >> 3] >> (7 - (place & 7)).to(torch.uint8)).bitwise_and_(1).bool()

    def _ruled(self, head: int, rows: Rows, columns: Rows) -> Tensor:
        at = self._at(slice(head, head + 1))
        at = at.changed(of_query=lambda part: part[:, :, rows])
        if isinstance(columns, slice):
            visible = self.rule(at.columns(columns))
        else:
            visible = self.rule(at)
            visible = visible.expand(*visible.shape[:3], self.keys)[..., columns]
        width = len(torch.arange(self.keys)[columns])
        return visible[0, 0].expand(at.query.shape[2], width)

    def _at(self, heads: slice) -> Positions:
        centre = self.tensors.get("centre")
        if centre is not None:
            centre = centre[:, :, None] if len(centre) == 1 else centre[heads, :, None]
        real = self.tensors.get("real")
        return Positions(
            query=self.query_position[None, None, :, None],
            key=self.key_position[None, None, None],
            real=None if real is None else real[None, None, None],
            centre=None if centre is None else centre[None],
        )


def titled(name: str) -> str:
    """
    >>> titled("decoder.1.cross_attention.attention"), titled("layer.0.attention.self"), titled("attention")
    ('decoder.1.cross_attention', 'layer.0.attention.self', 'attention')
    """
    return name.removesuffix(".attention") or "attention"


def layer_of(name: str) -> int:
    """The layer of a module: the first number in its dotted name.

    >>> layer_of("decoder.3.cross_attention.attention"), layer_of("attention")
    (3, 0)
    """
    number = re.search(r"(?:^|\.)(\d+)(?:\.|$)", name)
    return int(number[1]) if number else 0


def _of_head(tensor: Tensor, head: int) -> Tensor:
    """The part of a tensor for a head; heads may share one."""
    return tensor[0] if len(tensor) == 1 else tensor[head]


def _compared(form: Form, query: Tensor, key: Tensor) -> Tensor:
    """Scores from features; those of a network are computed for a few rows at a time."""
    if isinstance(form, Product) or not len(query):
        return form.compare(query, key)
    step = max(1, TERMS // max(key.numel(), 1))
    return torch.cat([form.compare(part, key) for part in query.split(step)])


@dataclass(frozen=True, kw_only=True)
class _Weighing:
    """The normalisers that a header can name: those of configurations, and that of kernels."""

    normaliser: NormaliserConfig | Proportional


def _built(header: Mapping[str, Any]) -> Normaliser:
    """The normaliser that a header names; raises DataError for one that this version does not know."""
    try:
        config = build(_Weighing, {"normaliser": header}).normaliser
    except UsageError as error:
        raise DataError(
            f"The trace names the normaliser {dict(header)}, which this version of foveate does not support: {error}"
        ) from error
    normaliser: Normaliser = config.build()
    return normaliser


def _tile(
    normaliser: Normaliser,
    scores: Float[Tensor, "query key"],
    visible: Bool[Tensor, "query key"] | None,
    statistic: Float[Tensor, " query"],
    *,
    first: int = 0,
) -> Float[Tensor, "query key"]:
    """The weights of a tile. `visible` may be None for all pairs. The scores may be overwritten."""
    if (temperature := softmax_temperature(normaliser)) is not None:
        logs = scores.div_(temperature).sub_(finite(statistic)[:, None])
        weights = logs.exp_()
        return weights if visible is None else weights.masked_fill_(~visible, 0.0)
    shown = torch.ones(1, 1, dtype=torch.bool) if visible is None else visible
    return normaliser.tile(scores[None, None], shown[None, None], statistic[None, None], first=first)[0, 0]


def finite(statistic: Float[Tensor, " query"]) -> Float[Tensor, " query"]:
    """The statistic with 0 instead of −∞, so that rows without visible keys get weights of 0; +∞ becomes NaN."""
    return statistic.nan_to_num(nan=torch.nan, posinf=torch.nan, neginf=0.0)
