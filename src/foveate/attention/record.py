"""Records of attentions, small enough to keep at any length: queries, keys and one number per row.

Any tile of any map follows: weights = normalise(score(q_i, k_j) + bias_ij, statistic_i) on the visible keys.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from foveate.attention import display
from foveate.attention.bias import bias_values
from foveate.attention.normaliser.normaliser import makes_tiles
from foveate.attention.paths.edges import EdgesPath, edge_statistic
from foveate.attention.paths.layout import tiles
from foveate.attention.paths.materialised import biased_scores, reweighing, visible_keys
from foveate.attention.paths.path import Formula, share_heads
from foveate.attention.paths.tiled import row_statistic
from foveate.attention.position import Positions, traced

LISTED = 24
"""Attentions that a recording names when it is printed."""
ROWS, NEAR = 256, 64
"""Query rows per tile when statistics are computed, in general and under narrow rules: memory is O(ROWS · key)."""
AT_ONCE = 2**16
"""The most pairs of a head for which statistics are computed without tiles."""


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """One attention of one forward pass, with its exact weights on demand."""

    name: str
    """The dotted name of the module, its place in the model."""
    kind: Literal["self", "cross"]
    formula: Formula
    at: Positions
    query: Float[Tensor, "batch heads query query_dim"]
    key: Float[Tensor, "batch kv_heads key key_dim"]
    statistic: Float[Tensor, "batch heads query"] | None
    """One number per row from the normaliser: log-sum-exp for softmax. None where weights carry gradients, which are
    made from whole rows.
    """
    writes: tuple[tuple[Tensor, int], ...] | None = None
    """The tensors behind the weights, and how often each had been written to when they were recorded; None: unknown."""

    def __getstate__(self) -> dict[str, Any]:
        """Without the counts, because the tensors of a copy count anew; a copy of a changed record stays changed."""
        return {**self.__dict__, "writes": () if self._changed else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.writes is None:
            self.__dict__["writes"] = _writes(self)

    def __repr__(self) -> str:
        return f"<AttentionRecord {', '.join(self._facts())}>"

    def _repr_html_(self) -> str:
        """Name, sizes and parts, with small maps of the first example's heads where its weights can be computed."""
        shown = display.table([self._facts()])
        batch, _, queries, keys = self.shape
        if not batch or max(queries, keys) > display.CELLS or self.statistic is None:
            return shown
        try:
            weights = self.weights()[0].float()
        except ValueError:  # written to since: then there is nothing to show but the sizes
            return shown
        visible = self.formula.visibility(self.at)[0].expand(weights.shape)
        return shown + display.maps(weights, visible)

    def _facts(self) -> tuple[str, str, str, str]:
        score, normaliser = (type(part).__name__ for part in (self.formula.score, self.formula.normaliser))
        formula = f"{score} and {normaliser} over {self.formula.visibility}"
        return self.name or "attention", self.kind, display.sizes(self.shape), formula

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """batch, heads, query, key."""
        return (*self.query.shape[:3], self.key.shape[2])

    def weights(
        self, rows: slice = slice(None), columns: slice = slice(None)
    ) -> Float[Tensor, "batch heads query key"]:
        """The weights (before dropout) of some queries over some keys; by default all of them, materialised.

        Raises ValueError when weights of the score or the positions were written to since they were recorded.
        """
        self.require_unchanged()
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.statistic is None):
            if self.statistic is None or not makes_tiles(self.formula.normaliser):
                return self._tile(rows, slice(None), None)[..., columns]
            return self._tile(rows, columns, self.statistic)

    def require_unchanged(self) -> None:
        """Raise ValueError where a tensor behind the weights has changed."""
        if self._changed:
            raise ValueError(
                f"{self.name or 'The attention'} was recorded before its parameters, its positions or its keys were "
                "written to (by a step of training, for example), so that its weights can no longer be computed. "
                "Take the weights first, or record again."
            )

    @property
    def _changed(self) -> bool:
        """Whether a tensor behind the weights was written to since, or another took its place."""
        if self.writes is None:
            return False
        now = _writes(self)
        same = (a is b and before == after for (a, before), (b, after) in zip(self.writes, now, strict=False))
        return len(now) != len(self.writes) or not all(same)

    def _tile(self, rows: slice, columns: slice, statistic: Tensor | None) -> Float[Tensor, "batch heads query key"]:
        """Weights from the statistics of the rows; without them by the definition, through which gradients flow."""
        with _without_autocast(self.query.device.type):
            at = self.at.rows(rows).columns(columns)
            precise = _precise(self.formula, self.query)
            query = self.query[:, :, rows].to(precise)
            key = share_heads(self.key[:, :, columns], self.query.shape[1]).to(precise)
            scores, visible = biased_scores(self.formula, query, key, at=at), self.formula.visibility(at)
            if statistic is None:
                weights = self.formula.normaliser(scores, visible)
            else:
                first = columns.indices(self.key.shape[2])[0]
                weights = self.formula.normaliser.tile(scores, visible, statistic[:, :, rows], first=first)
        if self.formula.reweight is None:
            return weights
        return weights * bias_values(self.formula.reweight, at, reweighing(weights)).exp().to(weights.dtype)


@dataclass(eq=False)
class _Last:
    """The latest record of a site, and the very tensor its keys came from."""

    index: int
    source: Tensor
    visible: Bool[Tensor, "#batch #heads 1 key"] | None = None
    """The keys that some query of the record sees; None until they are needed."""


@dataclass(eq=False)
class Recording:
    """The records of the passes made under `record`, in the order of the calls."""

    names: dict[int, str]
    dtype: torch.dtype | None
    gradient: bool = False
    records: list[AttentionRecord] = field(default_factory=list)
    last: dict[str, _Last] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        lines = [", ".join(entry._facts()) for entry in self.records[:LISTED]]
        if len(self.records) > LISTED:
            lines.append(f"and {len(self.records) - LISTED} more")
        return "\n    ".join([f"<Recording of {display.counted(len(self.records), 'attention')}", *lines]) + ">"

    def _repr_html_(self) -> str:
        """A row for each attention. A `Trace` of the recording shows its maps."""
        head = ("site", "kind", "size", "parts")
        return display.table((entry._facts() for entry in self.records), head)

    def __iter__(self) -> Iterator[AttentionRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, name: str) -> AttentionRecord:
        """The latest record of a site, by its dotted name."""
        for entry in reversed(self.records):
            if entry.name == name:
                return entry
        sites = ", ".join(dict.fromkeys(entry.name for entry in self.records)) or "none"
        raise KeyError(f"No attention {name!r} was recorded. Recorded: {sites}.")

    def of_kind(self, kind: Literal["self", "cross"]) -> list[AttentionRecord]:
        return [entry for entry in self.records if entry.kind == kind]


_active: ContextVar[Recording | None] = ContextVar("foveate_recording", default=None)


@contextmanager
def record(model: nn.Module, *, dtype: torch.dtype | None = None, gradient: bool = False) -> Iterator[Recording]:
    """Record every attention of `model` that runs inside the block. The answers stay bit for bit the same.

    A decoder that attends step by step to the same keys yields one record with a row per step. `dtype` (for example
    `torch.float16`) is how queries and keys are kept; by default as they are. Statistics are float32 at least.

    With `gradient`, the weights of a record carry gradients into the model, so that a loss may teach where to look.
    Steps are joined at the end of the block.

    >>> from foveate.attention import Attention, record
    >>> site = Attention()
    >>> x = torch.eye(3)[None, None]
    >>> with record(site) as recording:
    ...     context = site.run(query=x, key=x, value=x)
    >>> recording.records[0].shape, torch.allclose(recording.records[0].weights() @ x, context)
    ((1, 1, 3, 3), True)
    """
    recording = Recording({id(module): name for name, module in model.named_modules()}, dtype, gradient)
    token = _active.set(recording)
    try:
        yield recording
    finally:
        _active.reset(token)
        recording.last.clear()
        if gradient:
            recording.records[:] = _joined_steps(recording.records)


def active() -> Recording | None:
    """The recording that is on in this thread, the innermost one."""
    return _active.get()


def is_recording() -> bool:
    """Whether some recording is on: shortcuts that bypass attentions then call `note` themselves."""
    return _active.get() is not None


def is_recorded(attention: nn.Module) -> bool:
    """Whether a recording is on whose model holds this attention."""
    recording = _active.get()
    return recording is not None and _name(recording, attention) is not None


def _name(recording: Recording, attention: nn.Module) -> str | None:
    """The name of an attention in the model of a recording, or that of the attention that it is a view of."""
    part: nn.Module | None = attention
    while part is not None:
        if (name := recording.names.get(id(part))) is not None:
            return name
        part = part.__dict__.get("_site")
    return None


def note(
    attention: nn.Module,
    kind: Literal["self", "cross"],
    query: Tensor,
    key: Tensor,
    at: Positions,
    *,
    source: Tensor | None = None,
) -> None:
    """Record a call of `attention`, if a recording is on and the module belongs to its model.

    `source` is the tensor that the keys were made from, by which a decoder's next step is recognised; by default the
    keys.
    """
    recording = _active.get()
    if recording is None or (name := _name(recording, attention)) is None:
        return
    assert isinstance(attention, Formula)
    at = replace(at)  # without the facts that are kept with them, which a record does not need
    formula = _as_it_stands(attention)
    if recording.gradient:
        recording.records.append(_counted(AttentionRecord(name, kind, formula, at, query, key, None)))
    else:
        _keep(recording, AttentionRecord(name, kind, formula, at, query.detach(), key.detach(), None), source)


def _as_it_stands(attention: nn.Module) -> Formula:
    """A copy of the attention with its present parts, which may be exchanged as soon as it has run."""
    copy = object.__new__(type(attention))
    inner = {name: dict(attention.__dict__[name]) for name in ("_parameters", "_buffers", "_modules")}
    copy.__dict__.update(attention.__dict__, **inner)
    assert isinstance(copy, Formula)
    return copy


def _writes(entry: AttentionRecord) -> tuple[tuple[Tensor, int], ...]:
    """The tensors behind the weights, and how often each was written to, as far as torch counts it."""
    formula = entry.formula
    own = [*formula.parameters(), *formula.buffers()] if isinstance(formula, nn.Module) else []
    tensors = (*own, *entry.at.tensors(), entry.query, entry.key)
    return tuple((each, -1 if each.is_inference() else each._version) for each in tensors if each is not None)


def _counted(entry: AttentionRecord) -> AttentionRecord:
    return replace(entry, writes=_writes(entry))


@torch.no_grad()
def _keep(recording: Recording, entry: AttentionRecord, source: Tensor | None) -> None:
    with _without_autocast(entry.query.device.type):
        rows = statistic(entry.formula, entry.query, entry.key, entry.at)
    source = entry.key if source is None else source.detach()
    # Copies: buffers may be filled anew as soon as the attention has run.
    query, key = (part.to(recording.dtype or part.dtype, copy=True) for part in (entry.query, entry.key))
    entry = replace(entry, query=query, key=key, at=entry.at.private(), statistic=rows)
    last = recording.last.get(entry.name)
    if last is not None and _continues(recording.records[last.index], last, source, entry):
        recording.records[last.index] = _joined([recording.records[last.index], entry])
        if last.visible is not None:
            last.visible = last.visible | _visible_keys(entry.formula, entry.at)
    else:
        recording.last[entry.name] = _Last(len(recording.records), source)
        recording.records.append(_counted(entry))


def statistic(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch kv_heads key key_dim"],
    at: Positions,
) -> Float[Tensor, "batch heads query"]:
    """The normaliser's number for every row, from the keys that the rule may show: along edges, or in tiles."""
    precise = _precise(formula, query)
    queries, keys = query.to(precise), share_heads(key, query.shape[1]).to(precise)
    if queries.shape[2] * keys.shape[2] <= AT_ONCE or traced():
        everything = biased_scores(formula, queries, keys, at=at)
        return formula.normaliser.statistic(everything, formula.visibility(at))
    if not EdgesPath().refuses(formula, queries, keys, at):
        return edge_statistic(formula, queries, keys, at)
    width = formula.visibility.width
    rows = ROWS if math.isinf(width) else NEAR if width <= ROWS else 2 * NEAR
    return row_statistic(formula, queries, keys, at, tiles(formula.visibility, at, rows))


def _without_autocast(device: str) -> AbstractContextManager[object]:
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _precise(formula: Formula, query: Tensor) -> torch.dtype:
    """float32 at least, unless the score's own weights are kept in less."""
    weight = next(formula.score.parameters(), None) if isinstance(formula.score, nn.Module) else None
    return torch.promote_types(query.dtype, torch.float32) if weight is None else weight.dtype


def _continues(earlier: AttentionRecord, last: _Last, source: Tensor, entry: AttentionRecord) -> bool:
    """Whether a call is a decoder's next step: later queries over the same keys, except for those that no earlier query
    could see.
    """
    key = entry.key
    same = last.source.data_ptr() == source.data_ptr() and earlier.key.shape == key.shape
    if not same or not _follows(earlier, entry):
        return False
    if torch.equal(earlier.key, key):
        return True
    if last.visible is None:
        last.visible = _visible_keys(earlier.formula, earlier.at)
    differs = ((earlier.key != key) & ~(earlier.key.isnan() & key.isnan())).any(-1)
    visible = last.visible.expand(-1, max(last.visible.shape[1], key.shape[1]), -1, -1)[:, :, 0]
    return not bool((differs.repeat_interleave(visible.shape[1] // key.shape[1], 1) & visible).any())


def _follows(earlier: AttentionRecord, entry: AttentionRecord) -> bool:
    """Whether two records have one unchanged formula, and the second has later queries."""
    ours, theirs = entry.formula, earlier.formula
    parts = ("score", "bias", "normaliser", "reweight")
    same = ours.visibility == theirs.visibility and all(getattr(ours, each) is getattr(theirs, each) for each in parts)
    if not (same and earlier.at.query.numel() and entry.at.query.numel()) or earlier._changed or entry._changed:
        return False
    return bool((entry.at.query.amin() > earlier.at.query.amax()).item())


def _visible_keys(formula: Formula, at: Positions) -> Bool[Tensor, "#batch #heads 1 key"]:
    """The keys that some query sees."""
    return visible_keys(formula.visibility, at, ROWS).expand(-1, -1, -1, at.key.shape[-1])


def _joined(steps: list[AttentionRecord]) -> AttentionRecord:
    """Steps as one record with the keys of the last one: a cache that fills up holds more of them at every step."""
    if len(steps) == 1:
        return steps[0]
    at = reduce(lambda earlier, later: earlier.followed_by(later), (step.at for step in steps))
    query = torch.cat([step.query for step in steps], dim=2)
    rows = [step.statistic for step in steps if step.statistic is not None]
    statistics = torch.cat(rows, dim=2) if rows else None
    return _counted(replace(steps[0], at=at, query=query, key=steps[-1].key, statistic=statistics))


def _joined_steps(records: list[AttentionRecord]) -> list[AttentionRecord]:
    """Records of steps that looked at the same keys as one record each, in the order of their first steps."""
    groups: list[list[AttentionRecord]] = []
    latest: dict[tuple[object, ...], list[AttentionRecord]] = {}
    for entry in records:
        place = (entry.name, entry.key.data_ptr(), entry.key.shape)
        if place in latest and _follows(latest[place][-1], entry):
            latest[place].append(entry)
        else:
            latest[place] = [entry]
            groups.append(latest[place])
    return [_joined(steps) for steps in groups]
