"""Positions of a graph's edges, from those of its nodes."""

from typing import Any

from jaxtyping import Int
from torch import Tensor

from foveate.attention.position import Positions


def by_edge(at: Positions, source: Tensor, target: Tensor) -> Positions:
    """Each edge (of each example, where examples differ) as an example with one query and one key."""
    parts = (at.real, at.centre, at.query_segment, at.key_segment)
    batch = max([1, *(part.shape[0] for part in parts if part is not None)])

    def end(part: Tensor, node: Tensor) -> Tensor:
        chosen = part.expand(batch, *part.shape[1:]).flatten(2)[:, :, node]  # batch #heads edges
        return chosen.transpose(1, 2).flatten(0, 1)[..., None, None]

    return at.changed(of_query=lambda part: end(part, target), of_key=lambda part: end(part, source), uncut_real=None)


def of_edges(answer: Tensor, edges: int) -> Tensor:
    """An answer for edges as examples, rearranged to `#batch #heads edges`."""
    if not edges:
        return answer.new_zeros(1, 1, 0)
    examples = max(answer.shape[0] // edges, 1)
    return answer[..., 0, 0].expand(examples * edges, -1).unflatten(0, (examples, edges)).transpose(1, 2)


def chosen_places(at: Positions, targets: Int[Tensor, " rows"], sources: Int[Tensor, " columns"]) -> Positions:
    """Some of the queries, and some of the keys."""
    uncut: dict[str, Any] = {"uncut_keys": at.all_keys, "uncut_real": at.all_real}
    return at.changed(of_query=lambda part: part[:, :, targets], of_key=lambda part: part[..., sources], **uncut)


def lined_up(places: Int[Tensor, "#batch #heads length"]) -> bool:
    """Whether places follow each other, in the same way in all examples and heads."""
    return places.shape[:2] == (1, 1) and bool((places.diff() == 1).all())
