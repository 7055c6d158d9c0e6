"""Selecting the best entries of wide rows, with ties decided by position.

On a CPU torch's `argmax` and `topk` read a row one number at a time, about ten times slower than `amax`. Therefore all
functions here first take the maxima of blocks and then search only the best blocks.
"""

import ctypes
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate import native

# Tokens per block. Multiples of 64 vectorise; 64 and 128 measured alike on 8,000 tokens, odd sizes up to five times
# slower.
BLOCK = 64


def best(scores: Float[Tensor, "rows vocab"]) -> Int[Tensor, " rows"]:
    """The position of each row's maximum; of equal maxima, the first.

    >>> best(torch.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]])).tolist()
    [1, 0]
    """
    vocab = scores.shape[1]
    if vocab <= 4 * BLOCK or scores.device.type != "cpu":
        return scores.argmax(dim=-1)
    block = _block_maxima(scores).argmax(dim=-1, keepdim=True)
    # The last block may extend beyond the row; its surplus repeats the last token, which does not change the maximum.
    positions = (block * BLOCK + torch.arange(BLOCK)).clamp_(max=vocab - 1)
    place = scores.gather(1, positions).argmax(dim=-1, keepdim=True)
    return positions.gather(1, place)[:, 0]


def top(
    scores: Float[Tensor, "sentences beam vocab"], total: Float[Tensor, "sentences beam"], count: int
) -> tuple[Float[Tensor, "sentences count"], Int[Tensor, "sentences count"], Int[Tensor, "sentences count"]]:
    """The `count` best of `scores + total` in each sentence, best first, with their place in the beam and their token.

    Equal values are ordered by place, then by token. If there are fewer than `count`, the rest are −∞.

    >>> values, beam, token = top(torch.tensor([[[-1.0, -2.0], [-1.0, -3.0]]]), torch.tensor([[-1.0, -0.5]]), count=3)
    >>> values.tolist(), beam.tolist(), token.tolist()
    ([[-1.5, -2.0, -3.0]], [[1, 0, 0]], [[0, 0, 1]])
    """
    vocab = scores.shape[-1]
    if vocab <= 4 * BLOCK:
        values = (scores + total[:, :, None]).flatten(1)
        flat = torch.arange(values.shape[1], device=values.device).expand_as(values)
    else:
        values, flat = _shortlist(scores, total, count)
    values, flat = ordered(values, flat, count)
    return values, flat // vocab, flat % vocab


def leaders(
    logits: Float[Tensor, "rows vocab"], hidden: Sequence[int], count: int
) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]] | None:
    """The `count` largest of log softmax(logits) in each row without the hidden tokens, best first, and their tokens.

    Equal values are ordered by token. Surplus entries are −∞. Returns None without the kernel, which reads each row
    once instead of writing a softmax to memory and reading it again.
    """
    library = native.load("foveate.decode", "candidate.cpp").library
    if library is None or logits.device.type != "cpu" or logits.dtype is not torch.float32 or not logits.numel():
        return None
    logits, (rows, vocab) = logits.contiguous(), logits.shape
    banned = torch.tensor(hidden, dtype=torch.int64)
    values = torch.empty(rows, count, dtype=torch.float32)
    tokens = torch.empty(rows, count, dtype=torch.int64)
    maxima = torch.empty(rows, -(-vocab // BLOCK), dtype=torch.float32)
    library.leaders(
        native.address(logits),
        *map(ctypes.c_int64, (rows, vocab)),
        native.address(banned),
        *map(ctypes.c_int64, (len(banned), count)),
        *map(native.address, (maxima, values, tokens)),
        native.threads(),
    )
    return values, tokens


def joined(
    values: Float[Tensor, "rows count"],
    tokens: Int[Tensor, "rows count"],
    total: Float[Tensor, "sentences beam"],
    vocab: int,
) -> tuple[Float[Tensor, "sentences count"], Int[Tensor, "sentences count"], Int[Tensor, "sentences count"]]:
    """The result of `top`, computed from the `count` best entries of every row instead of all."""
    sentences, beam = total.shape
    sums = values.view(sentences, beam, -1) + total[:, :, None]
    place = torch.arange(beam)[:, None] * vocab
    sums, flat = ordered(sums.flatten(1), (tokens.view(sentences, beam, -1) + place).flatten(1), values.shape[1])
    return sums, flat // vocab, flat % vocab


def _block_maxima(scores: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows blocks"]:
    whole = scores.shape[-1] // BLOCK * BLOCK
    maxima = scores[..., :whole].unflatten(-1, (-1, BLOCK)).amax(-1)
    if whole == scores.shape[-1]:
        return maxima
    return torch.cat([maxima, scores[..., whole:].amax(-1, keepdim=True)], dim=-1)


def _shortlist(
    scores: Float[Tensor, "sentences beam vocab"], total: Float[Tensor, "sentences beam"], count: int
) -> tuple[Float[Tensor, "sentences short"], Int[Tensor, "sentences short"]]:
    """The values and flat positions of the `count` best blocks of each sentence, which hold its `count` best entries.

    This is exact: rounded addition is monotone, hence max(scores) + total is max(scores + total); and every entry
    outside these blocks is preceded by `count` blocks that each have an entry that is larger, or equal and earlier.
    """
    vocab = scores.shape[-1]
    maxima = _block_maxima(scores) + total[:, :, None]
    blocks = maxima.shape[-1]
    every = torch.arange(maxima[0].numel(), device=scores.device).expand(len(scores), -1)
    _, block = ordered(maxima.flatten(1), every, min(count, every.shape[1]))
    beam = block // blocks
    token = (block % blocks * BLOCK)[:, :, None] + torch.arange(BLOCK, device=scores.device)
    beyond = token >= vocab
    flat = ((beam * vocab)[:, :, None] + token.clamp(max=vocab - 1)).flatten(1)
    values = scores.flatten(1).gather(1, flat).view_as(token) + total.gather(1, beam)[:, :, None]
    return values.masked_fill(beyond, -torch.inf).flatten(1), flat


def ordered(
    values: Float[Tensor, "sentences short"], flat: Int[Tensor, "sentences short"], count: int
) -> tuple[Float[Tensor, "sentences count"], Int[Tensor, "sentences count"]]:
    """The `count` largest values; of equal values, the earlier flat position first (`topk` of floats leaves this open).

    The bits of float32 numbers, as integers, have the order of the floats after those of negative numbers are inverted;
    the position is stored in the lower half of an int64.
    """
    # NaN sorts first, so that a broken hypothesis is not hidden behind valid ones.
    bits = torch.where(values.isnan(), torch.inf, values).view(torch.int32)
    rank = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    missing = count - values.shape[1]
    key = (rank.to(torch.int64) << 32) - flat
    place = key.argsort(dim=1, descending=True) if missing >= 0 else key.topk(count).indices
    values, flat = values.gather(1, place), flat.gather(1, place)
    if missing > 0:
        values = torch.nn.functional.pad(values, (0, missing), value=-torch.inf)
        flat = torch.nn.functional.pad(flat, (0, missing))
    return values, flat
