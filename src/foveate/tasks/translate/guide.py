"""Guided attention: a loss that teaches one cross-attention to look along known links between words."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import Attention
from foveate.attention.claim import restriction
from foveate.attention.record import Recording
from foveate.config import setting
from foveate.data.batch import PairBatch
from foveate.data.text import Pair
from foveate.data.tokeniser import Tokeniser
from foveate.errors import DataError, UsageError
from foveate.inspect.link import piece_links, require_words, text_spans
from foveate.metrics import parse_pharaoh
from foveate.tasks.translate.head import Head, Moment, choose, crossings

SMALLEST = 1e-9
"""A weight counts as no less: a link outside of a window costs something and teaches nothing, instead of infinity."""


@dataclass(frozen=True, kw_only=True)
class GuideConfig:
    """Which attention follows the links of the data, and how much that matters. Without links it does nothing."""

    weight: float = setting(1.0, "of guidance beside the cross-entropy of the words")
    layer: int | None = setting(None, "the decoder's layer that is guided, from 0; none: the one before the last")
    head: int | None = setting(None, "the head that is guided, from 0; none: the mean of the layer's heads")
    when: Moment = setting("producing", "guide the row that produces a word, or the one that consumes it")

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"weight must be above 0, got {self.weight}. Leave the links out to train without")

    @property
    def place(self) -> Head:
        return Head(self.layer, self.head, self.when)


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
    """How many target tokens have links: what a sum of `guidance` is divided by for their average."""
    return len(links[:, [0, 2]].unique(dim=0))


def guided_weights(recording: Recording, batch: PairBatch, head: Head) -> Float[Tensor, "batch target source"]:
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


class Links:
    """The word links of a file's pairs, line by line, as links between tokens."""

    def __init__(self, lines: Sequence[str], where: str, source: Tokeniser, target: Tokeniser) -> None:
        """`where` names the file in messages."""
        self.lines, self.where = lines, where
        self.source, self.target = source, target

    def __call__(self, pair: Pair, source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
        """Every piece of a word has the links of its word.

        Raises DataError, with the line, for malformed links, for links to words that do not exist, and for text whose
        pieces cross word boundaries.
        """
        (links,) = parse_pharaoh([self.lines[pair.line - 1]], self.where, first=pair.line)
        texts, place = (pair.source, pair.target), f"{self.where}:{pair.line}"
        require_words(links.possible, texts, place)
        try:
            pieces = self.source.pieces(source), self.target.pieces(target)
            spans = [text_spans(side, text) for side, text in zip(pieces, texts, strict=True)]
        except DataError as error:
            raise DataError(f"{place}: {error}") from error
        return piece_links(links.possible, *spans)
