"""Converts records of this package's attention to sites: scores become features, rules become data.

A score with a `form` is stored as features of queries and keys. Every other score is stored pair by pair.
"""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, UInt8
from torch import Tensor

from foveate.attention import AttentionRecord, Positions, Visibility
from foveate.attention.bias import Bias, is_by_distance
from foveate.attention.claim import claim
from foveate.attention.normaliser import Normaliser, softmax_temperature, tells_place
from foveate.attention.paths.materialised import biased_scores
from foveate.attention.paths.path import Formula, share_heads
from foveate.attention.score import PairNetwork, Product, form_of, symbol_of
from foveate.errors import DataError, UsageError
from foveate.inspect.trace.site import Site, SiteKind

Stored = Literal["float16", "float32"]
Count = int | float
DENSE = 4096 * 4096
"""The limit on the number of pairs of scores and biases that are stored pair by pair."""
BITS = 4 * DENSE
ROWS, COLUMNS = 256, 4096


@torch.no_grad()
def site_of(
    record: AttentionRecord,
    *,
    layer: int = 0,
    example: int = 0,
    queries: int | None = None,
    keys: int | None = None,
    tracks: tuple[str, str] = ("target", "source"),
    value: Tensor | None = None,
    stored: Stored = "float16",
) -> Site:
    """One example of a record as a site. `queries` and `keys` are their numbers without padding.

    Raises UsageError for a map that has to be stored pair by pair and is too large.
    """
    record.require_unchanged()
    at, query, key = _example(record, example, queries, keys)
    formula = record.formula
    normaliser = formula.normaliser
    while hasattr(normaliser, "inner"):  # for switched-off heads, the map shows the weights that they would have
        normaliser = normaliser.inner
    header = None if (stated := claim(normaliser, "header")) is None else stated()
    score, tensors = _features(formula, query, key, at, getattr(torch, stored))
    heads, kv_heads = query.shape[0], tensors["key"].shape[0] if "key" in tensors else query.shape[0]
    visibility, visible = _visibility(formula.visibility, at, heads)
    bias, added = _bias(formula.bias, at, "bias") if score["kind"] != "dense" else (None, {})
    reweight, weighed = _reweight(formula.reweight, at)
    positions = {
        "query_position": at.query[0, 0, :, 0].int().cpu(),
        "key_position": at.key[0, 0, 0].int().cpu(),
    }
    values = {} if value is None else {"value": _fitting(value[example, :, : key.shape[1]], getattr(torch, stored))}
    if header is None:
        header, score, tensors, reweight, weighed = _given(record, example, query.shape[1], key.shape[1])
        bias, added = None, {}
    site = Site(
        name=record.name,
        kind=_kind(record, formula.visibility),
        layer=layer,
        heads=heads,
        kv_heads=kv_heads,
        queries=query.shape[1],
        keys=key.shape[1],
        query=tracks[0],
        key=tracks[1],
        score=score,
        visibility=visibility,
        bias=bias,
        normaliser=header,
        reweight=reweight,
        shows=getattr(formula, "shows", "exact"),
        formula=describe(formula, normaliser, query.shape[-1]),
        drawn=bool(claim(normaliser, "is_drawn", False)),
        tensors={**tensors, **visible, **added, **weighed, **positions, **values},
    )
    try:
        _ = site.built
    except DataError as error:
        raise UsageError(
            f"{type(normaliser).__name__}.header() gives {header}, which names no kind of normaliser that traces know. "
            "Leave `header` out: the trace then keeps weights one by one."
        ) from error
    return site.with_statistic(statistic(site))


def statistic(site: Site) -> Tensor:
    """The normaliser's statistic of every row, from the stored features, so that displayed rows sum to 1."""
    rows = torch.empty(site.heads, site.queries)
    for head in range(site.heads):
        for start in range(0, site.queries, ROWS):
            here = slice(start, min(start + ROWS, site.queries))
            first, last = site.reach(here)
            if (temperature := softmax_temperature(site.built)) is not None:
                rows[head, here] = _logsumexp(site, head, here, (first, last), temperature)
                continue
            scores = site.scores(head, here, slice(first, last))
            visible = site.visible(head, here, slice(first, last))
            shown = torch.ones_like(scores, dtype=torch.bool) if visible is None else visible
            rows[head, here] = _of_rows(site, scores, shown, first)
    return rows


def _logsumexp(site: Site, head: int, rows: slice, reach: tuple[int, int], temperature: float) -> Tensor:
    """log Σ exp(e / T), for a few keys at a time, which fit into the cache of the processor."""
    tops, sums = [], []
    for start in range(*reach, COLUMNS):
        columns = slice(start, min(start + COLUMNS, reach[1]))
        scores, visible = site.scores(head, rows, columns), site.visible(head, rows, columns)
        scores = scores.div_(temperature)
        if visible is not None:
            scores = scores.masked_fill_(~visible, -torch.inf)
        top = scores.amax(1)
        finite = torch.where(top.isinf(), 0.0, top)
        tops.append(finite)
        sums.append(scores.sub_(finite[:, None]).exp_().sum(1))
    if not tops:
        return torch.full((len(range(*rows.indices(site.queries))),), -torch.inf)
    return (torch.stack(tops) + torch.stack(sums).log()).logsumexp(0)


def _of_rows(site: Site, scores: Tensor, visible: Tensor, first: int) -> Tensor:
    if not scores.shape[1]:  # a row without reachable keys has the statistic of an empty row
        scores, visible = scores.new_zeros(len(scores), 1), torch.zeros(len(scores), 1, dtype=torch.bool)
    statistic = site.built.statistic(scores[None, None], visible[None, None])[0, 0]
    return torch.where(statistic >= 0, statistic + first, statistic) if tells_place(site.built) else statistic


def _example(
    record: AttentionRecord, example: int, queries: int | None, keys: int | None
) -> tuple[Positions, Tensor, Tensor]:
    at = record.at.select(torch.tensor([example], device=record.query.device))
    query, key = record.query[example], record.key[example]
    if queries is not None and queries < query.shape[1]:
        at, query = at.rows(slice(0, queries)), query[:, :queries]
    if keys is not None and keys < key.shape[1]:
        at, key = at.columns(slice(0, keys)), key[:, :keys]
    if at.query.shape[1] > 1 or at.key.shape[1] > 1:
        raise UsageError(
            f"{record.name}: its heads have different positions of queries and keys, which a trace cannot store."
        )
    return at, query.detach(), key.detach()


def _features(
    formula: Formula, query: Tensor, key: Tensor, at: Positions, dtype: torch.dtype
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    score = formula.score
    weight = next(score.parameters(), None) if isinstance(score, torch.nn.Module) else None
    precise = torch.float32 if weight is None else weight.dtype
    q, k = query[None].to(precise), key[None].to(precise)
    form = form_of(score)
    if form is None or (isinstance(form, PairNetwork) and form.between is not None):
        return _dense(formula, q, k, at, dtype)
    if isinstance(form, Product) and form.features_at is not None:
        k = form.features_at(at).expand(1, len(query), -1, -1)
    elif form.key_features is not None:
        k = form.of_key(share_heads(k, len(query)))
    q = form.of_query(q)
    return form.header(q.shape[-1]), {**_kept(q, k, dtype), **form.tensors()}


def _kept(query: Tensor, key: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    tensors = {"query": query[0].detach().to(dtype).cpu(), "key": key[0].detach().to(dtype).cpu()}
    if not all(bool(part.isfinite().all()) for part in tensors.values()):
        raise UsageError(
            f"Queries or keys are not finite, or too large for {dtype}. "
            'Record with stored="float32", or look for the NaN with `attention.explain`.'
        )
    return tensors


def _fitting(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Values in a type, or in float32 if some of them are too large for it."""
    narrow = values.to(dtype)
    return (values.float() if bool((narrow.isinf() & values.isfinite()).any()) else narrow).cpu()


def _dense(
    formula: Formula, query: Tensor, key: Tensor, at: Positions, dtype: torch.dtype
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Scores pair by pair, including the bias."""
    require_small(f"The score {type(formula.score).__name__}", query.shape[2], key.shape[2])
    keys = share_heads(key, query.shape[1])
    parts = []
    for start in range(0, query.shape[2], ROWS):
        rows = slice(start, start + ROWS)
        parts.append(biased_scores(formula, query[:, :, rows], keys, at=at.rows(rows)).detach().float())
    scores = torch.cat(parts, 2)[0].cpu()
    small = scores.isfinite().all() and float(scores.abs().max()) < torch.finfo(dtype).max
    return {"kind": "dense"}, {"scores": scores.to(dtype if small else torch.float32)}


def _given(record: AttentionRecord, example: int, queries: int, keys: int) -> tuple[Any, ...]:
    """Weights of a normaliser without a header, stored pair by pair."""
    require_small(f"The normaliser {type(record.formula.normaliser).__name__}", queries, keys)
    weights = record.weights()[example, :, :queries, :keys].detach().cpu()
    tensors = {"scores": weights.float()}
    return {"kind": "relu", "normalised": False}, {"kind": "dense"}, tensors, None, {}


def require_small(what: str, queries: int, keys: int, limit: int = DENSE) -> None:
    """Raise UsageError if a map is too large to be stored pair by pair."""
    if queries * keys > limit:
        raise UsageError(
            f"{what} has to be stored pair by pair, but {queries:,} queries by {keys:,} keys are more than "
            f"{limit:,} pairs. Record a part: fewer rows, or a shorter input."
        )


def _kind(record: AttentionRecord, rule: Visibility) -> SiteKind:
    return "graph" if any(part.graph is not None for part in rule.parts) else record.kind


def _visibility(rule: Visibility, at: Positions, heads: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    (left, right), pads, rest = rule.simplified(at).split()
    if not rest:
        real = at.real[0, 0, 0].cpu() if pads and at.real is not None and not bool(at.real.all()) else None
        native = {"left": _bound(left), "right": _bound(right)}
        return {"code": str(rule), "native": native}, {} if real is None else {"real": real}
    queries, keys = at.query.shape[2], at.key.shape[3]
    if queries * keys > BITS:
        _require_written(rule, at, queries, keys)
        tensors = {} if at.real is None else {"real": at.real[0, 0, 0].cpu()}
        centre = {} if at.centre is None else {"centre": at.centre[0, :, :, 0].float().cpu()}
        return {"code": str(rule), "native": None}, {**tensors, **centre}
    return {"code": str(rule), "native": None}, {"visible": _packed(rule, at, heads, keys)}


def _bound(count: Count) -> int | None:
    return None if count == float("inf") else int(count)


def _packed(rule: Visibility, at: Positions, heads: int, keys: int) -> Tensor:
    parts = []
    for start in range(0, at.query.shape[2], ROWS):
        here = at.rows(slice(start, start + ROWS))
        visible = rule(here)
        parts.append(bits(visible.expand(1, visible.shape[1], here.query.shape[2], keys)[0]))
    return torch.cat(parts, 1)


def bits(visible: Bool[Tensor, "heads query key"]) -> UInt8[Tensor, "heads query byte"]:
    """One bit for each pair, with the first key in the highest bit of a byte."""
    return torch.from_numpy(np.packbits(visible.cpu().numpy(), axis=-1))


def _require_written(rule: Visibility, at: Positions, queries: int, keys: int) -> None:
    """Raise an error unless the rule can be restored from its code and the data of a trace."""
    try:
        known = Visibility.parse(str(rule)) == rule
    except ValueError:
        known = False
    if not known or at.query_segment is not None or at.first_key:
        require_small(f"The visibility {rule}", queries, keys, BITS)


def _bias(bias: Bias | None, at: Positions, name: str) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    if bias is None:
        return None, {}
    if is_by_distance(bias, at):
        query, key = at.query[0, 0, :, 0], at.key[0, 0, 0]
        first = min(int(key.min() - query.max()), 1 - len(query))
        last = max(int(key.max() - query.min()), len(key) - 1)
        place = torch.arange(first, last + 1, device=query.device)
        along = Positions(query=torch.zeros_like(query[:1])[None, None, :, None], key=place[None, None, None])
        numbers = bias(along)
        table = numbers.expand(*numbers.shape[:3], len(place))[0, :, 0]
        return {"kind": "distance", "first": first}, {name: table.detach().float().cpu()}
    return _pairwise(bias, at, name)


def _pairwise(bias: Bias, at: Positions, name: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    queries, keys = at.query.shape[2], at.key.shape[3]
    require_small("This bias", queries, keys)
    values = bias(replace(at, aligned=False))
    return {"kind": "dense"}, {name: values.expand(1, values.shape[1], queries, keys)[0].detach().float().cpu()}


def _reweight(reweight: Bias | None, at: Positions) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    if reweight is None:
        return None, {}
    if (header := claim(reweight, "header")) is not None:
        centre = {} if at.centre is None else {"centre": at.centre[0, :, :, 0].detach().float().cpu()}
        return header(), centre
    return _pairwise(reweight, at, "reweight")


def describe(formula: Formula, normaliser: Normaliser, width: int) -> str:
    """The formula of an attention in one line, in the order of computation: `softmax(q·k / √64) over causal()`."""
    score = symbol_of(formula.score, width)
    if formula.bias is not None:
        score += f" + {_symbol(formula.bias)}"
    written = f"{claim(normaliser, 'symbol', type(normaliser).__name__.lower())}({score})"
    if formula.reweight is not None:
        reweight = formula.reweight
        header = claim(reweight, "header")
        sigma = "" if header is None else f", σ = {header()['sigma']:g}"
        written += f" · exp({_symbol(reweight)}{sigma})"
    return f"{written} over {formula.visibility}" if formula.visibility.hides else written


def _symbol(bias: Bias) -> str:
    """The symbol of a bias, or its name."""
    return str(claim(bias, "symbol", getattr(bias, "__name__", type(bias).__name__)))
