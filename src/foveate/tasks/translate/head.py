"""The cross-attention that serves as alignment, and a loss that teaches it to follow known links."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import Attention, AttentionRecord
from foveate.attention.claim import restriction
from foveate.attention.record import Recording
from foveate.data.batch import PairBatch, Rejection
from foveate.errors import UsageError
from foveate.inspect.trace.site import titled
from foveate.tasks.translate.alignment_head import Head

SMALLEST = 1e-9
"""A weight counts as no less: a link outside of a window costs something and teaches nothing, instead of infinity."""


def crossings(records: Iterable[AttentionRecord], shape: tuple[int, int] | None = None) -> list[AttentionRecord]:
    """The records of a decoder's attention to the source, in the order of layers.

    An encoder may look across at something of its own. With `shape`, only maps of that size: projected keys stand for
    no token.
    """
    sites = [site for site in records if site.kind == "cross" and not site.name.startswith("encoder.")]
    return [site for site in sites if shape is None or site.shape[2:] == shape]


def choose(records: Sequence[AttentionRecord], head: Head) -> Float[Tensor, "batch target source"]:
    """One map for each sentence, with a row for every step, regardless of `head.when`.

    Raises UsageError when there is no such head.
    """
    if not records:
        raise UsageError("This model has no attention to look at: it reads the source through one fixed vector.")
    layer = max(len(records) - 2, 0) if head.layer is None else head.layer
    if not -len(records) <= layer < len(records):
        raise UsageError(f"There is no layer {layer}: the model has {len(records)}, counted from 0.")
    weights = records[layer].weights()
    if head.head is None:
        return weights.mean(1)
    if not -weights.shape[1] <= head.head < weights.shape[1]:
        raise UsageError(
            f"There is no head {head.head}: layer {layer} ({titled(records[layer].name)}) has {weights.shape[1]}, "
            "counted from 0."
        )
    return weights[:, head.head]


def guidance(
    weights: Float[Tensor, "batch target source"], links: Int[Tensor, "links 3"], head: Head
) -> Float[Tensor, ""]:
    """−Σ_t 1/|S_t| Σ_{s ∈ S_t} ln α_ts, with S_t the source tokens that target token t is linked with

    The cross-entropy between each row and an even share of its links; tokens without links teach nothing.

    >>> weights = torch.tensor([[[0.5, 0.25, 0.25]]])
    >>> guidance(weights, torch.tensor([[0, 1, 0], [0, 2, 0]]), Head())
    tensor(1.3863)

    Differs from Chen et al. in that it is summed, and divided with the words' own loss by the number of target tokens.
    Reference: Chen et al. 2016, equation 6; Garg et al. 2019, equations 3 and 4.
    """
    sentence, source, target = links.unbind(1)
    row = target + (head.when == "consuming")
    precise = torch.promote_types(weights.dtype, torch.float32)
    chosen = weights[sentence, row, source].to(precise).clamp(min=SMALLEST)
    place = sentence * weights.shape[1] + row
    count = torch.bincount(place, minlength=weights.shape[0] * weights.shape[1])
    return -(chosen.log() / count[place]).sum()


def linked_tokens(links: Int[Tensor, "links 3"]) -> int:
    """The number of target tokens with links, by which a sum of `guidance` is divided for its mean."""
    return len(links[:, ::2].unique(dim=0))


def guided_weights(
    recording: Recording, batch: PairBatch | Rejection, head: Head
) -> Float[Tensor, "batch target source"]:
    """The chosen map of every pair in a batch that the model has just read."""
    return choose(crossings(recording, (batch.target.length - 1, batch.source.length)), head)


def require_guidable(model: nn.Module) -> None:
    """Raises UsageError where there are no weights that a gradient could move."""
    sites = [
        site
        for name, site in model.named_modules()
        if getattr(site, "kind", "") == "cross" and not name.startswith("encoder.")
    ]
    if not sites:
        raise UsageError("There are links, but this model has no attention to guide. Choose another, or no links.")
    for site in sites:
        if not isinstance(site, Attention) or site.shows != "exact" or restriction(site.normaliser, "is_hard"):
            raise UsageError(
                "Links can guide attention whose weights are exact and soft. Here they are implied, projected or "
                "drawn: choose another cross-attention, or no links."
            )
