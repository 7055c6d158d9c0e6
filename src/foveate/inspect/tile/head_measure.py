"""Measures of heads, with one number per query. All providers use these definitions.

p is α / Σ α of a row; rows without visible keys, and rows with a weight that is not finite, are left out (NaN).

entropy      −Σ p ln p, in nats
distance     Σ p |key position − query position|
sink         p of the first key
diagonality  Σ p (1 − |i / (n − 1) − j / (m − 1)|): 1 follows the diagonal from corner to corner
previous     p of the key just before the query; rows without this key are left out
induction    Σ p of the keys that follow an earlier occurrence of the query's label; rows without such keys are left out
itself       p of the key at the query's position; rows without this key are left out
next         p of the key just after the query; rows without this key are left out
near         Σ p of these three; rows without any of them are left out
delimiter    Σ p of the keys that are punctuation or special tokens; rows without such keys are left out
same         Σ p of the other keys with the query's label; rows without such keys are left out
evenness     entropy / ln(number of visible keys): 1 for equal weights; rows with fewer than two keys are left out

One number for a head, over all visible pairs:

position     R² of the weights by the offset d = key position − query position, adjusted for the D offsets that occur:
             1 − (Σ (α − ᾱ_d)² / (N − D)) / (Σ (α − ᾱ)² / (N − 1)). 1 if the offset alone determines the weights, 0 if
             it tells nothing

A head has one behaviour, the first that holds: flat if its mean evenness is at least 0.9; previous, itself, next, first
(by `sink`), delimiter, same, induction or near if the mean of this measure is at least 0.5; position if R² is at least
0.25 (a correlation of 0.5); else content. A measure counts only if it is defined in at least a quarter of the rows that
see a key.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace

NOTHING = 1e-12
"""The limit on the sum of a row without visible keys."""
MEASURES = (
    "entropy",
    "distance",
    "sink",
    "diagonality",
    "previous",
    "induction",
    "itself",
    "next",
    "delimiter",
    "same",
    "near",
    "evenness",
)
Behaviour = Literal[
    "previous", "itself", "next", "first", "delimiter", "same", "induction", "near", "position", "content", "flat"
]
BEHAVIOURS: tuple[Behaviour, ...] = (
    "previous",
    "itself",
    "next",
    "first",
    "delimiter",
    "same",
    "induction",
    "near",
    "position",
    "content",
    "flat",
)
"""In the order of the overview."""
NAMED: Mapping[Behaviour, str] = {name: "sink" if name == "first" else name for name in BEHAVIOURS[:8]}
"""The measure by which a behaviour has its name."""
EVEN, MOST, EXPLAINED, COVERED = 0.9, 0.5, 0.25, 0.25
OFFSETS = 1 << 22
"""The largest range of offsets for which R² is computed."""
_SPECIAL = re.compile(r"<.+>|\[[A-Za-z]+\]")


def along(count: int) -> Float[Tensor, " count"]:
    """Positions from 0 for the first to 1 for the last."""
    return torch.arange(count, dtype=torch.float32) / max(count - 1, 1)


def numbered(trace: Trace, site: Site) -> Int[Tensor, " keys"] | None:
    """The labels of a self-attention as numbers; None if queries and keys have different positions."""
    track = trace.tracks[site.key]
    if site.kind != "self" or site.query != site.key or len(track) != site.queries or site.queries != site.keys:
        return None
    numbers = {label: number for number, label in enumerate(dict.fromkeys(track.labels))}
    return torch.tensor([numbers[label] for label in track.labels])


def is_delimiter(label: str) -> bool:
    """Whether a piece is punctuation or a special token.

    >>> [label for label in ("▁the", ".", "▁,", "</s>", "[SEP]", "##n", "▁") if is_delimiter(label)]
    ['.', '▁,', '</s>', '[SEP]']
    """
    piece = re.sub(r"^(▁|Ġ|##)|@@$", "", label)
    marks = (unicodedata.category(character) for character in piece)
    return bool(_SPECIAL.fullmatch(piece)) or (piece != "" and all(mark[0] in "PSZ" or mark == "Cc" for mark in marks))


def delimiters(trace: Trace, site: Site) -> Bool[Tensor, " keys"] | None:
    """The keys that are punctuation or special tokens; None if the keys are not the tokens of a text."""
    track = trace.tracks[site.key]
    if track.kind != "tokens" or site.shows == "projected" or len(track) != site.keys:
        return None
    return torch.tensor([is_delimiter(label) for label in track.labels], dtype=torch.bool)


class OffsetSums:
    """Sums by offset, from which R² follows. With `native`, all pairs of these offsets are visible, and no other."""

    def __init__(
        self,
        query: Int[Tensor, " queries"],
        key: Int[Tensor, " keys"],
        native: tuple[int | float, int | float] | None = None,
    ) -> None:
        self.first = int(key.min() - query.max()) if len(query) and len(key) else 0
        size = int(key.max() - query.min()) - self.first + 1 if len(query) and len(key) else 0
        size = size if size <= OFFSETS else 0
        self.total, self.count = torch.zeros(2, size, dtype=torch.float64)
        self.squares = 0.0
        self.counted = native is not None and size > 0 and _consecutive(query) and _consecutive(key)
        if native is not None and self.counted:
            offset = torch.arange(self.first, self.first + size)
            shortest = torch.full_like(offset, min(len(query), len(key)))
            count = torch.minimum(torch.minimum(offset - self.first + 1, self.first + size - offset), shortest)
            self.count += torch.where((offset >= -native[0]) & (offset <= native[1]), count, 0)

    def add(
        self,
        weights: Float[Tensor, "rows columns"],
        visible: Bool[Tensor, "rows columns"] | None,
        query: Int[Tensor, " rows"],
        key: Int[Tensor, " columns"],
    ) -> None:
        """Add a block of weights, which are 0 where they are hidden."""
        if not len(self.total):
            return
        self.squares += float(torch.linalg.vecdot(weights, weights).sum(dtype=torch.float64))
        parts = [(self.total, weights)]
        if not self.counted:
            shown = torch.ones_like(weights) if visible is None else visible.to(weights.dtype)
            parts.append((self.count, shown))
        if _consecutive(query) and _consecutive(key):
            start = int(key[0] - query[-1]) - self.first
            for sums, part in parts:
                by_offset = _diagonals(part)
                sums[start : start + len(by_offset)] += by_offset
            return
        place = (key - query[:, None]).long().sub_(self.first).flatten()
        for sums, part in parts:
            sums.index_add_(0, place, part.flatten().double())

    def share(self) -> float:
        """R², adjusted, at least 0; NaN if no weight differs from the others, or too few pairs are visible."""
        there = self.count > 0
        pairs, offsets = float(self.count.sum()), int(there.sum())
        if pairs <= offsets:
            return float("nan")
        everything = self.squares - float(self.total.sum()) ** 2 / pairs
        within = self.squares - float((self.total[there].square() / self.count[there]).sum())
        if not everything > 1e-6 * self.squares:
            return float("nan")
        return max(0.0, 1 - within / (pairs - offsets) / (everything / (pairs - 1)))


def _consecutive(position: Int[Tensor, " length"]) -> bool:
    return int(position[-1] - position[0]) == len(position) - 1 and bool((position.diff() == 1).all())


def _diagonals(block: Float[Tensor, "rows columns"]) -> Float[Tensor, " offsets"]:
    """The sums of all diagonals, from the lower left corner to the upper right one."""
    rows, columns = block.shape
    width = rows + columns - 1
    # Rows that are written with a stride less by one than the width are read one place further left each.
    shifted = block.new_zeros(rows * width)
    shifted.as_strided((rows, columns), (max(width - 1, 1), 1), rows - 1).copy_(block)
    return shifted.view(rows, width).sum(0)


def behaviour(rows: Mapping[str, Sequence[float] | np.ndarray], position: float) -> Behaviour:
    """The behaviour of a head, from the measures of its rows (NaN where undefined) and its R²."""
    seeing = int((~np.isnan(np.asarray(rows["entropy"]))).sum())
    means = {}
    for name, row in rows.items():
        numbers = np.asarray(row)[~np.isnan(np.asarray(row))]
        counts = len(numbers) > 0 and len(numbers) >= COVERED * seeing
        means[name] = float(numbers.mean(dtype=np.float64)) if counts else 0.0
    if means["evenness"] >= EVEN:
        return "flat"
    for name, measure in NAMED.items():
        if means[measure] >= MOST:
            return name
    return "position" if position >= EXPLAINED else "content"
