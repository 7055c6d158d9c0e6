"""Splitting documents into windows, and joining them again."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad


class Windows:
    """A right-padded batch split into windows of W tokens; the last window of a document may have fewer.

    A last window with fewer than `min_window` tokens is merged into the one before; all windows are then stored wider.

    >>> x = torch.arange(1.0, 11.0).view(2, 5, 1)
    >>> Windows(torch.tensor([5, 2]), 5, window=2).fold(x).squeeze(-1).tolist()
    [[[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]], [[6.0, 7.0], [0.0, 0.0], [0.0, 0.0]]]
    >>> Windows(torch.tensor([5, 2]), 5, window=2, min_window=2).fold(x).squeeze(-1).tolist()
    [[[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]], [[6.0, 7.0, 0.0], [0.0, 0.0, 0.0]]]
    """

    def __init__(
        self,
        lengths: Int[Tensor, " batch"],
        length: int,
        *,
        window: int,
        min_window: int = 1,
        padded: bool = False,
    ) -> None:
        """`lengths` are true lengths in a batch of width `length`. With `padded`, padding counts as text, like in the
        published program.
        """
        cut = torch.full_like(lengths, length) if padded else lengths
        last = (cut - 1) % window + 1  # the number of tokens in the last window; W + 0 for an empty document
        windows = (cut + window - 1) // window
        joins = (windows > 1) & (last < min_window)
        counts, last = windows - joins.long(), last + window * joins.long()
        self.batch, self.length, self.joined = len(lengths), length, bool(joins.any())
        self.count = int(counts.max()) if len(counts) else 0
        widest = last.clamp(min=window) if self.count > 1 else cut
        self.width = int(widest[counts > 0].max()) if self.count else 0
        index, slot = (torch.arange(size, device=lengths.device) for size in (self.count, self.width))
        self.position: Int[Tensor, "windows width"] = index[:, None] * window + slot
        """The index in its document of each slot's token."""
        rest = counts[:, None, None] - index[:, None]
        inside = (self.position < lengths[:, None, None]) & (((slot < window) & (rest > 0)) | (rest == 1))
        self.real: Bool[Tensor, "batch windows width"] = inside
        """Whether a slot holds a token of its window."""
        self.live: Bool[Tensor, "batch windows"] = torch.ones_like(self.real[..., 0]) if padded else self.real.any(-1)
        """Whether a window belongs to its document."""
        place = torch.arange(length, device=lengths.device)
        self.token: Bool[Tensor, "batch length"] = place < lengths[:, None]
        if self.joined:
            home = torch.minimum(place // window, counts[:, None] - 1).clamp(min=0)
            self._slot: Int[Tensor, "batch length"] = home * self.width + (place - home * window)
        self.full = bool(self.real.all()) and bool(self.token.all())
        """Whether the batch has no padding."""

    def fold(self, x: Float[Tensor, "batch length dim"]) -> Float[Tensor, "batch windows width dim"]:
        """Split into windows. Free slots become zero, even if the padding holds other values."""
        if self.joined:
            flat = x.index_select(1, self.position.clamp(max=self.length - 1).flatten())
        else:
            flat = _resized(x, self.count * self.width)
        windows = flat.unflatten(1, (self.count, self.width))
        return windows if self.full else torch.where(self.real[..., None], windows, 0.0)

    def unfold(self, windows: Float[Tensor, "batch windows width dim"]) -> Float[Tensor, "batch length dim"]:
        """Join windows again. Padding becomes zero."""
        flat = windows.flatten(1, 2)
        if self.joined:
            x = flat.gather(1, self._slot.clamp(max=flat.shape[1] - 1)[..., None].expand(-1, -1, flat.shape[-1]))
        else:
            x = _resized(flat, self.length)
        return x if self.full else torch.where(self.token[..., None], x, 0.0)

    def segments(self, prefix: Int[Tensor, " batch"]) -> Int[Tensor, "batch windows width"]:
        """0 for the tokens of the prefix, then 1, 2, 3 …: comparing them shows the whole prefix, then only the past.

        >>> Windows(torch.tensor([5]), 5, window=3).segments(torch.tensor([2])).tolist()
        [[[0, 0, 1], [2, 3, 4]]]
        """
        return (self.position + 1 - prefix[:, None, None]).clamp(min=0)

    def within(self, prefix: Int[Tensor, " batch"]) -> Bool[Tensor, "batch windows"]:
        """Whether all tokens of a window belong to the prefix."""
        return (~self.real | (self.position < prefix[:, None, None])).all(-1)


def _resized(x: Float[Tensor, "batch old dim"], length: int) -> Float[Tensor, "batch length dim"]:
    missing = length - x.shape[1]
    return pad(x, (0, 0, 0, missing)) if missing > 0 else x[:, :length]
