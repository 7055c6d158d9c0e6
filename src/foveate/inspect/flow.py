"""Attention rollout: the share of each input that reaches a position if every layer mixes by its weights.

It shows where information could flow. Whether it did has to be tested by switching a token off.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from foveate.errors import UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace
from foveate.inspect.view import head_of
from foveate.suggestion import counted

ROWS = 512
Flow = Float[Tensor, "*rows positions"]


def rollout(
    trace: Trace, query: int = -1, *, track: str | None = None, residual: float = 0.5
) -> Float32[np.ndarray, " keys"]:
    """r ← ρ r + (1 − ρ) mean_h A_hᵀ r, from the last layer to the first, beginning with 1 at the query.

    This is the product of the matrices ρ I + (1 − ρ) Ā with a vector: no matrix is computed, and memory is linear in
    the length. `residual` is ρ, the share of the residual connection.

    >>> from foveate.inspect.trace import given
    >>> first, last = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]), torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> from foveate.inspect.trace import Track
    >>> tracks = {"source": Track.numbered(2)}
    >>> trace = Trace(tracks=tracks, sites=(given(first, name="0"), given(last, name="1", layer=1)))
    >>> rollout(trace, query=1)
    array([0.625, 0.375], dtype=float32)

    Reference: Abnar & Zuidema 2020, section 3. Raises UsageError for a trace without self-attention along one track.
    """
    sites = _layers(trace, track)
    queries = sites[-1].queries
    if not -queries <= query < queries:
        raise UsageError(f"There is no query {query}: there are {queries}, counted from 0.")
    flow = torch.zeros(queries)
    flow[query] = 1.0
    return _through(sites, flow, residual).numpy()


def rollout_to_keys(
    trace: Trace, site: int, queries: Sequence[int], *, residual: float = 0.5
) -> Float32[np.ndarray, "queries keys"]:
    """The rollout from some queries of a site to its keys' track, through all layers, also those of an encoder.

    Without layers before a cross-attention that has no residual connection, such as one that pools, these are its
    weights. A decoder's layer sends the share 1 − ρ of its flow across and continues with ρ, then does the same along
    itself; what crosses goes on from layer to layer of the encoder. Flow that ends in the decoder's own beginning is
    left out, so that rows sum to less than 1.

    Reference: Abnar & Zuidema 2020, section 3, for self-attention; the crossing follows their rule of residuals.
    """
    here = trace.sites[site]
    flow = torch.zeros(len(queries), here.queries)
    flow[torch.arange(len(queries)), torch.tensor(queries, dtype=torch.long)] = 1.0
    if here.query == here.key:
        return _through(_layers(trace, here.key), flow, residual).numpy()
    like = (here.kind, here.queries, here.key)
    across = [each for each in trace.sites if (each.kind, each.queries, each.key) == like and not each.posterior]
    within = [each for each in trace.sites if _is_own(each) and each.key != here.key and each.queries == here.queries]
    within = sorted(within, key=lambda each: each.layer)
    if within and len(within) != len(across):
        raise UsageError(
            f"Rollout needs a self-attention for each cross-attention, and there are {len(within)} and {len(across)}."
        )
    crossed = torch.zeros(len(queries), here.keys)
    if not within:
        crossed = _carried(here, flow)
    for look, look_across in zip(reversed(within), sorted(across, key=lambda each: -each.layer), strict=False):
        crossed += (1 - residual) * _carried(look_across, flow)
        flow = residual * flow
        flow = residual * flow + (1 - residual) * _carried(look, flow)
    if any(_is_own(each) and each.key == here.key for each in trace.sites):
        crossed = _through(_layers(trace, here.key), crossed, residual)
    return crossed.numpy()


def class_view(trace: Trace, *, site: int | str | None = None, head: int | None = None) -> Alignment | None:
    """The view of each class token of a ViT: its weights in the last layer, as the mean of the heads, and its rollout
    through all layers. With a `site` or a `head` it is this token's row alone, of that layer and head; the last layer
    and the mean of the heads stand for what is not chosen.

    None for a trace whose layers do not attend from patches with class tokens before them, and where the chosen site,
    or the one that the trace opens with, is another. Raises UsageError for a site or head that does not exist.
    """
    own = [each for each in trace.sites if _is_own(each)]
    track = trace.tracks.get(own[0].query) if own else None
    if track is None or track.grid is None or len(track) == track.grid[0] * track.grid[1]:
        return None
    layers, alone = _layers(trace, own[0].query), site is not None or head is not None
    opening = trace.sites[trace.opening[0] if site is None else trace.index(site)]
    here = layers[-1] if site is None and opening.query == opening.key else opening
    if not any(here is each for each in layers):
        return None
    heads = range(here.heads) if head is None else [head_of(here, head)]
    which = f"mean of {here.heads} heads" if head is None else f"head {head}"
    titles, rows = list[str](), list[np.ndarray]()
    for number, token in enumerate(track.labels[: len(track) - track.grid[0] * track.grid[1]]):
        weights = [here.weights(each, slice(number, number + 1))[0][0].float() for each in heads]
        titles.append(f"{token} in {here.title}, {which}")
        rows.append(torch.stack(weights).mean(0).numpy())
        if not alone:
            titles.append(f"{token}, rollout of {counted(len(layers), 'layer')}")
            rows.append(rollout(trace, number, track=own[0].query))
    return Alignment.of(track.labels, titles, np.stack(rows), grid=track.grid)


def _layers(trace: Trace, track: str | None) -> list[Site]:
    own = [site for site in trace.sites if _is_own(site)]
    name = track or (own[0].query if own else None)
    sites = sorted((site for site in own if site.query == name), key=lambda site: site.layer)
    if not sites:
        raise UsageError(
            "Rollout follows self-attention from layer to layer, and this trace has none"
            + (f" along {track!r}." if track else ". Record a model that attends to itself.")
        )
    return sites


def _is_own(site: Site) -> bool:
    """Whether positions attend to positions of the same track."""
    return site.query == site.key and site.queries == site.keys


def _through(sites: Sequence[Site], flow: Flow, residual: float) -> Flow:
    """The flow before the first of some layers, from that after the last."""
    for site in reversed(sites):
        flow = residual * flow + (1 - residual) * _carried(site, flow)
    return flow


def _carried(site: Site, flow: Flow) -> Float[Tensor, "*rows keys"]:
    """mean_h A_hᵀ r, computed for a few rows at a time."""
    carried = torch.zeros(*flow.shape[:-1], site.keys)
    for head in range(site.heads):
        for start in range(0, site.queries, ROWS):
            rows = slice(start, start + ROWS)
            if not bool(flow[..., rows].any()):
                continue
            first, last = site.reach(slice(start, min(start + ROWS, site.queries)))
            weights, _ = site.weights(head, rows, slice(first, last))
            carried[..., first:last] += flow[..., rows] @ weights
    return carried / site.heads
