"""Pools blocks of weights to cells, by peak or by mass, without hidden pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foveate.inspect.trace.track import Span


@dataclass(frozen=True, eq=False)
class Cells:
    """A map of cells with both poolings, and whether each contains a visible pair (None: all do)."""

    peak: Float[Tensor, "rows columns"]
    mass: Float[Tensor, "rows columns"]
    visible: Bool[Tensor, "rows columns"] | None

    def of(self, pool: str) -> Tensor:
        return self.peak if pool == "peak" else self.mass

    def cut(self, rows: slice, columns: slice) -> "Cells":
        visible = None if self.visible is None else self.visible[rows, columns]
        return Cells(self.peak[rows, columns], self.mass[rows, columns], visible)


def blocks(x: Tensor, size: int, axis: int, how: str) -> Tensor:
    """Reduce blocks along one axis to one number each; the last block may be smaller.

    >>> blocks(torch.tensor([[1.0, 2.0, 3.0]]), 2, 1, "sum")
    tensor([[3., 3.]])
    """
    if size == 1:
        return x
    length = x.shape[axis]
    whole = length // size * size
    parts = []
    if whole:
        parts.append(_reduced(x.narrow(axis, 0, whole).unflatten(axis, (-1, size)), axis + 1, how))
    if whole < length:
        parts.append(_reduced(x.narrow(axis, whole, length - whole), axis, how).unsqueeze(axis))
    return torch.cat(parts, axis) if len(parts) != 1 else parts[0]


def _reduced(x: Tensor, axis: int, how: str) -> Tensor:
    if how == "max":
        return x.amax(axis)
    return x.any(axis) if how == "any" else x.sum(axis) if how == "sum" else x.mean(axis)


def pool(weights: Tensor, visible: Tensor | None, size: int, how: str) -> Tensor:
    """Pool blocks of size × size. Rows are first, because they are far apart in memory, unlike columns."""
    if how == "peak":
        return blocks(blocks(weights, size, 0, "max"), size, 1, "max")
    return blocks(blocks(weights, size, 0, "mean"), size, 1, "sum")


def any_visible(visible: Tensor | None, size: int) -> Tensor | None:
    return None if visible is None else blocks(blocks(visible, size, 0, "any"), size, 1, "any")


def coarser(cells: Cells, factor: int, rows: Sequence[int]) -> Cells:
    """Pool cells to larger cells. `rows` are the numbers of queries in each row of cells: the last may have fewer."""
    weight = torch.tensor(rows, dtype=torch.float32)[:, None]
    total = blocks(weight, factor, 0, "sum")
    mass = blocks(blocks(cells.mass * weight, factor, 0, "sum") / total, factor, 1, "sum")
    peak = blocks(blocks(cells.peak, factor, 0, "max"), factor, 1, "max")
    return Cells(peak, mass, any_visible(cells.visible, factor))


def by_spans(weights: Tensor, visible: Tensor | None, rows: Sequence[Span], columns: Sequence[Span]) -> Cells:
    """Pool to cells of different sizes: rows and columns are spans, counted from the first of each."""
    top, left = ([begin - spans[0][0] for begin, _ in spans] for spans in (rows, columns))
    count = torch.tensor([[end - begin] for begin, end in rows], dtype=torch.float32)
    mass = runs(runs(weights, left, 1, np.add), top, 0, np.add) / count
    peak = runs(runs(weights, top, 0, np.maximum), left, 1, np.maximum)
    if visible is None:
        return Cells(peak, mass, None)
    return Cells(peak, mass, runs(runs(visible, top, 0, np.logical_or), left, 1, np.logical_or))


def runs(x: Tensor, starts: Sequence[int], axis: int, how: np.ufunc) -> Tensor:
    """Reduce the range from each start to the next to one number."""
    return torch.from_numpy(how.reduceat(x.numpy(), starts, axis=axis))
