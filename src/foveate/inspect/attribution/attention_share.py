"""Attributions by attention: its weights, the lengths of what they carry, and rollout."""

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from foveate.errors import UsageError
from foveate.inspect.attribution.answer import NOBODY, Answer, View
from foveate.inspect.attribution.attribution import Attribution
from foveate.inspect.flow import rollout_to_keys
from foveate.inspect.trace.site import Site
from foveate.nn.multihead import MultiHeadAttention


def attention_weights(answer: Answer) -> Attribution:
    """α_ij of the head, or of the mean of heads, that `look` shows: the sum over the pieces of an input word, the mean
    over the pieces of an output word. Weights of begin and end are left out.

    Raises UsageError for a model without attention to the pieces of the input.
    """
    view = _view(answer)
    site, heads = _heads(view)
    rows = np.zeros((len(view.rows), site.keys))
    for piece, row in enumerate(view.rows):
        for head in heads if row >= 0 else ():
            rows[piece] += site.weights(head, slice(row, row + 1))[0][0].double().numpy() / len(heads)
    return Attribution.of(answer, "attention", _mean(answer, rows, view.rows), note=_place(view))


def attention_norms(answer: Answer) -> Attribution:
    """‖Σ_h α^h_ij W_O^h v^h_j‖ of the same heads: the length of the vector that is added for position j, not only its
    share. Without an output projection, as in recurrent models, ‖α_ij v_j‖.

    Lengths are summed over the pieces of an input word, and averaged over those of an output word. Reference: Kobayashi
    et al. 2020, "Attention is Not Only a Weight", equations 4 to 8, whose W_O and heads are meant here; biases are left
    out of W_O, which does not depend on j. Raises UsageError as `attention_weights`, and for a trace without values.
    """
    view = _view(answer)
    site, heads = _heads(view)
    if "value" not in site.tensors:
        raise UsageError(f"{site.title} stores no values of this text, so that their lengths are not known.")
    carried = _carried(answer.model, site, heads)
    rows = np.zeros((len(view.rows), site.keys))
    for piece, row in enumerate(view.rows):
        if row >= 0:
            weights = torch.stack([site.weights(head, slice(row, row + 1))[0][0] for head in heads])
            rows[piece] = torch.einsum("hk,hkd->kd", weights, carried).norm(dim=-1).double().numpy() / len(heads)
    return Attribution.of(answer, "attention × norm", _mean(answer, rows, view.rows), note=_place(view))


def attention_rollout(answer: Answer) -> Attribution:
    """The share of each word that reaches the answer if every layer mixes by the mean of its heads, half and half with
    its residual connection: from the output through the decoder, across, and through the encoder.

    The rule is `foveate.inspect.flow.rollout_to_keys`. A position that no path of attention joins to the answer gets
    0; one that does not matter may still get a share. Reference: Abnar & Zuidema 2020, section 3. Raises UsageError for
    a model without self-attention, and for one without attention to the pieces of the input.
    """
    view = _view(answer)
    site = view.trace.sites[view.site]
    if not any(each.key == site.key and each.query == each.key for each in view.trace.sites):
        raise UsageError("Rollout follows self-attention from layer to layer, and this model reads without it.")
    real = view.origins >= 0
    rows = np.zeros((len(view.origins), site.keys))
    rows[real] = rollout_to_keys(view.trace, view.site, view.origins[real].tolist())
    return Attribution.of(answer, "rollout", _mean(answer, rows, view.origins), note="all layers, half residual")


def _view(answer: Answer) -> View:
    """Raises UsageError for attention to something else than the pieces of the input."""
    view = answer.view
    site = view.trace.sites[view.site]
    if site.keys != len(answer.row) or site.shows == "projected":
        raise UsageError(f"{site.title} does not attend to the {len(answer.row)} pieces of the input one by one.")
    return view


def _heads(view: View) -> tuple[Site, list[int]]:
    site = view.trace.sites[view.site]
    return site, list(range(site.heads)) if view.head is None else [view.head]


def _place(view: View) -> str:
    site = view.trace.sites[view.site]
    which = "mean of heads" if view.head is None else f"head {view.head}"
    return site.title if site.heads == 1 else f"{site.title}, {which}"


def _mean(
    answer: Answer, rows: Float64[np.ndarray, "pieces positions"], queries: np.ndarray
) -> Float64[np.ndarray, "outputs inputs"]:
    """Sums over an input word's positions, means over an output word's pieces with a query; NaN without one."""
    scores = np.full((len(answer.outputs), len(answer.inputs)), np.nan)
    real = answer.places != NOBODY
    for output in range(len(answer.outputs)):
        here = rows[(answer.pieces == output) & (queries >= 0)]
        if len(here):
            scores[output] = np.bincount(answer.places[real], here.mean(0)[real], len(answer.inputs))
    return np.where(answer.possible, scores, 0.0)


def _carried(model: nn.Module, site: Site, heads: list[int]) -> Float[Tensor, "heads keys dim"]:
    """The vector that each head adds for each key if its weight is 1."""
    values = [site.tensors["value"][head // (site.heads // site.kv_heads)].float() for head in heads]
    parent = model.get_submodule(site.name.rpartition(".")[0])
    if not isinstance(parent, MultiHeadAttention):
        return torch.stack(values)
    parts = parent.output.weight.detach().float().split(values[0].shape[-1], dim=1)
    return torch.stack([value @ parts[head].T for head, value in zip(heads, values, strict=True)])
