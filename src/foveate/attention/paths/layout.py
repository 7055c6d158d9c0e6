"""The keys that a tile of queries needs by the reach of its rule: spans of positions become pieces of the keys."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.attention.position import Positions
from foveate.attention.visibility import Visibility
from foveate.attention.visibility.reach import Span

GAP = 16
"""Pieces of the keys with at most so many keys between them become one: to join pieces, they are copied."""
FINE = 16
"""Rows over which a span counts as one piece."""


@dataclass(frozen=True)
class Tile:
    """Some neighbouring queries, and every key that one of them may see."""

    rows: slice
    columns: tuple[slice, ...]
    """Disjoint and in order; empty where nothing is visible."""

    @property
    def pairs(self) -> int:
        return (self.rows.stop - self.rows.start) * sum(piece.stop - piece.start for piece in self.columns)

    def places(self) -> Iterator[tuple[slice, slice]]:
        """Each piece of the keys, and its place where all pieces are joined."""
        stop = 0
        for piece in self.columns:
            start, stop = stop, stop + piece.stop - piece.start
            yield piece, slice(start, stop)


def tiles(visibility: Visibility, at: Positions, size: int) -> list[Tile]:
    """Tiles of `size` queries with their keys."""
    if not visibility.lasting:
        return _tiles(visibility, at, size)
    return at.known((visibility, size), lambda: _tiles(visibility, at, size))


def _tiles(visibility: Visibility, at: Positions, size: int) -> list[Tile]:
    queries, keys = at.query.shape[2], at.key.shape[-1]
    reach = visibility.reach(at)
    starts = range(0, queries, size)
    # Spans are taken over a few rows at a time: blocks that differ between queries leave gaps in a tile.
    fine = math.gcd(size, FINE)
    pieces: list[list[tuple[int, int]]] = [[] for _ in starts]
    for span in reach.spans:
        for number, bounds in enumerate(_columns(span, at, fine)):
            pieces[number * fine // size].append(bounds)
    return [
        Tile(slice(start, min(start + size, queries)), _merged(piece, keys))
        for start, piece in zip(starts, pieces, strict=True)
    ]


def joined(tensor: Float[Tensor, "batch heads key dim"], columns: tuple[slice, ...]) -> Tensor:
    """The pieces of a tensor in one; a single piece is not copied."""
    if len(columns) == 1:
        return tensor[:, :, columns[0]]
    return torch.cat([tensor[:, :, piece] for piece in columns] or [tensor[:, :, :0]], dim=2)


def over_tile(part: Callable[[Positions], Tensor], at: Positions, tile: Tile) -> Tensor:
    """The answer of a rule or a bias for the pairs of a tile: `#batch #heads query key`."""
    here, rows, answers = at.rows(tile.rows), tile.rows.stop - tile.rows.start, []
    for piece in tile.columns:
        answer = part(here.columns(piece))
        answers.append(answer.expand(-1, -1, rows, piece.stop - piece.start))
    if len(answers) == 1:
        return answers[0]
    batch, heads = (max(answer.shape[axis] for answer in answers) for axis in (0, 1))
    return torch.cat([answer.expand(batch, heads, -1, -1) for answer in answers], dim=-1)


def pieces_between(
    tensor: Float[Tensor, "batch heads key dim"], layout: list[Tile]
) -> tuple[tuple[Tensor, ...], list[int]]:
    """The tensor, cut wherever a tile begins or ends, so that its gradients are pieces and not of full length."""
    cuts = {0, tensor.shape[2]}
    for tile in layout:
        cuts.update(*((piece.start, piece.stop) for piece in tile.columns))
    places = sorted(cuts)
    return tensor.split([stop - start for start, stop in pairwise(places)], dim=2), places


def between(cut: tuple[tuple[Tensor, ...], list[int]], columns: tuple[slice, ...]) -> Tensor:
    """The result of `joined`, from a tensor that was cut."""
    parts, places = cut
    chosen: list[Tensor] = []
    for piece in columns:
        chosen += parts[places.index(piece.start) : places.index(piece.stop)]
    return chosen[0] if len(chosen) == 1 else torch.cat(chosen, dim=2)


def _columns(span: Span, at: Positions, size: int) -> list[tuple[int, int]]:
    """For each tile, the first key of the span over all its queries, and the key after the last."""
    queries = at.query.shape[2]
    count = -(-queries // size)
    keys = at.key.shape[-1]
    first, last = _filled(span.first, at), _filled(span.last, at)
    if not (first.numel() and keys):
        return [(0, 0)] * count
    empty = first > last
    first = _by_tile(first.masked_fill(empty, math.inf), count, size, math.inf).amin(-1)
    last = _by_tile(last.masked_fill(empty, -math.inf), count, size, -math.inf).amax(-1)
    if at.key.shape[:2] == (1, 1) and consecutive(at.key):
        low = float(at.key[0, 0, 0, 0])
        start = (first - low).ceil().clamp(0, keys).flatten(0, 1).amin(0)
        stop = ((last - low).floor() + 1).clamp(0, keys).flatten(0, 1).amax(0)
        return [(int(a), int(b)) for a, b in zip(start.tolist(), stop.tolist(), strict=True)]
    inside = (at.key >= first[..., None]) & (at.key <= last[..., None])  # batch heads tile key
    any_inside = inside.flatten(0, 1).any(0)
    place = torch.arange(keys, device=at.device)
    start = torch.where(any_inside, place, keys).amin(-1)
    stop = torch.where(any_inside, place + 1, 0).amax(-1)
    return list(zip(start.tolist(), stop.tolist(), strict=True))


def _filled(bound: Tensor | float, at: Positions) -> Tensor:
    value = bound.double() if isinstance(bound, Tensor) else torch.tensor(bound, dtype=torch.float64, device=at.device)
    # torch.broadcast_shapes imports sympy: half a second and 50 MB.
    return value.expand(np.broadcast_shapes(value.shape, (1, 1, at.query.shape[2], 1)))


def _by_tile(bound: Float[Tensor, "#batch #heads query 1"], count: int, size: int, fill: float) -> Tensor:
    padded = torch.nn.functional.pad(bound[..., 0], (0, count * size - bound.shape[2]), value=fill)
    return padded.unflatten(-1, (count, size))


def _merged(pieces: list[tuple[int, int]], keys: int) -> tuple[slice, ...]:
    """The pieces in order, with overlapping and neighbouring ones joined."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(piece for piece in pieces if piece[0] < piece[1]):
        if merged and start <= merged[-1][1] + GAP:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return tuple(slice(start, stop) for start, stop in merged)


def consecutive(key: Int[Tensor, "#batch #heads 1 key"]) -> bool:
    """Whether keys stand one after the other."""
    return bool((key.diff() == 1).all())
