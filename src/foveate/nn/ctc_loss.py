"""The loss of connectionist temporal classification (CTC), which sums over all alignments of a text with its frames."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.errors import DataError
from foveate.nn.packing import Packing

BLANK = 0
"""The id of the blank, which is also that of padding: neither is ever part of a text."""
FLOOR = -1e30
"""A log-probability that stands for −∞: below the sum of any real path, and a million of it are still a float32."""
NAMED = 8
"""The number of rows that a message lists."""


def ctc_loss(
    logits: Float[Tensor, "batch frames vocab"],
    lengths: Int[Tensor, " batch"],
    target: Int[Tensor, " tokens"],
    target_lengths: Int[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """−log p(target | frames) in nats, summed over the rows: the training loss. See `ctc_losses`."""
    return ctc_losses(logits, lengths, target, target_lengths).sum()


def ctc_losses(
    logits: Float[Tensor, "batch frames vocab"],
    lengths: Int[Tensor, " batch"],
    target: Int[Tensor, " tokens"],
    target_lengths: Int[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """−log p(target | frames) of each row, in nats, float32 at least.

        p(y | x) = Σ_π Π_t p(π_t | x),  over all paths π of labels and blanks that collapse to y

    A path collapses to a text when its repeats are merged and its blanks (id 0) are removed. `lengths` are the true
    numbers of frames; `target` holds the rows one after another without padding and without begin and end, as
    `without_ends` returns them. Log-probabilities are logits too: log softmax leaves them as they are. What stands in
    padding has no influence and the gradient 0.

    A logit of −∞ makes its label impossible on its frame, and has the gradient 0. A target that only impossible labels
    could spell has the loss ∞, and its row has the gradient 0. A frame whose labels are all impossible makes its row
    NaN.

    >>> even = torch.zeros(1, 2, 3)  # two frames, three labels of probability 1/3
    >>> ctc_losses(even, torch.tensor([2]), torch.tensor([1]), torch.tensor([1])).neg().exp() * 9  # 11, 01 and 10
    tensor([3.0000])

    Raises `DataError` for rows with fewer frames than `frames_needed`, which no path can spell, and for a target with
    the blank or an id that is not among the labels.

    Reference: Graves et al. 2006, equations 3 to 8.
    """
    require_possible(lengths, target, target_lengths)
    _require_labels(target, logits.shape[-1])
    padding = torch.arange(logits.shape[1], device=logits.device) >= lengths[:, None]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).masked_fill(padding[:, :, None], 0.0)
    log_probabilities = logits.log_softmax(-1)
    hidden = log_probabilities == -torch.inf
    if not bool(hidden.any()):
        return _losses(log_probabilities, lengths, target, target_lengths)
    with torch.no_grad():
        hopeless = _losses(log_probabilities, lengths, target, target_lengths) == torch.inf
    # torch's gradient subtracts −∞ from −∞. A floor leaves the sums as they are, because every path below it has the
    # probability 0; rows without a path over it are taken out, as differences of large numbers have no digits there.
    floored = log_probabilities.masked_fill(hidden, FLOOR).masked_fill(hopeless[:, None, None], 0.0)
    return _losses(floored, lengths, target, target_lengths).masked_fill(hopeless, torch.inf)


def _losses(log_probabilities: Tensor, lengths: Tensor, target: Tensor, target_lengths: Tensor) -> Tensor:
    losses: Tensor = torch.nn.functional.ctc_loss(
        log_probabilities.transpose(0, 1), target, lengths, target_lengths, blank=BLANK, reduction="none"
    )
    return losses


def frames_needed(target: Int[Tensor, " tokens"], target_lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """The least number of frames of each row: its tokens, and a blank between any two neighbours that are equal.

    >>> frames_needed(torch.tensor([5, 6, 7, 7, 7]), torch.tensor([2, 3, 0])).tolist()
    [2, 5, 0]
    """
    row = torch.repeat_interleave(torch.arange(len(target_lengths), device=target.device), target_lengths)
    repeats = torch.zeros_like(target)
    repeats[1:] = (target[1:] == target[:-1]) & (row[1:] == row[:-1])
    return target_lengths.new_zeros(len(target_lengths)).index_add_(0, row, (1 + repeats).to(target_lengths.dtype))


def without_ends(
    ids: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]
) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " batch"]]:
    """The tokens of rows of begin + tokens + end, one row after another, and the number of each row's tokens.

    >>> without_ends(torch.tensor([[1, 5, 6, 2], [1, 2, 0, 0]]), torch.tensor([4, 2]))
    (tensor([5, 6]), tensor([2, 0]))
    """
    return Packing(lengths - 2, ids.shape[1] - 2).pack(ids[:, 1:-1]), lengths - 2


def require_possible(
    lengths: Int[Tensor, " batch"], target: Int[Tensor, " tokens"], target_lengths: Int[Tensor, " batch"]
) -> None:
    """Raise `DataError` for rows that no path spells and for targets with the blank."""
    needed = frames_needed(target, target_lengths)
    if bool((impossible := needed > lengths).any()):
        rows = impossible.nonzero()[:, 0].tolist()
        examples = "; ".join(
            f"row {row} has {int(lengths[row])} frames for {int(target_lengths[row])} tokens, "
            f"which need {int(needed[row])}"
            for row in rows[:NAMED]
        )
        more = f"; and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
        raise DataError(
            f"CTC gives each token a frame of its own, and a blank between equal neighbours: {examples}{more}. "
            "Leave these rows out, reduce the subsampling of frames, or use larger pieces of text."
        )
    if bool((target == BLANK).any()):
        raise DataError(f"A target contains the id {BLANK}, which is CTC's blank and padding. Give tokens other ids.")


def _require_labels(target: Int[Tensor, " tokens"], vocab: int) -> None:
    """Raise `DataError` for ids without a logit, where torch's kernel would read other memory."""
    if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < vocab:
        raise DataError(
            f"A target has ids from {int(target.min()):,} to {int(target.max()):,}, but there are logits for 0 to "
            f"{vocab - 1:,}. Use the tokeniser that the model was built for."
        )
