"""Queries in blocks, one after the other: what a block needs on its way is gone before the next one begins.

Nothing small is kept of a block either. It would lie in the middle of the memory that the block leaves behind, which
then has no room for the next one, and the process would grow with the square of the length after all. So blocks leave
no graph: they write into one result, and run once more on the way back.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint

from foveate.attention.position import Positions, traced

Block = Callable[..., Tensor]
"""block(query, at, *shared): the context of some queries. What it reads and is to learn stands in `shared`, or is a
parameter."""


def by_rows(
    block: Block,
    query: Float[Tensor, "batch heads query query_dim"],
    at: Positions,
    rows: int,
    *shared: Tensor | None,
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """`block` for so many queries at a time; when training, it runs once more on the way back, with the same noise."""
    if query.shape[2] <= rows:
        return block(query, at, *shared)
    if traced():
        return _kept(block, query, at, rows, shared)
    if not torch.is_grad_enabled():
        return _joined(block, query, at, rows, shared)
    leaves = _leaves(block, query, at, shared)
    if leaves is None:
        return _kept(block, query, at, rows, shared)
    context: Tensor = _Blocks.apply(block, at, rows, len(shared), query, *shared, *leaves)
    return context


def _cuts(query: Tensor, rows: int) -> Iterator[slice]:
    for start in range(0, query.shape[2], rows):
        yield slice(start, min(start + rows, query.shape[2]))


def _joined(block: Block, query: Tensor, at: Positions, rows: int, shared: Sequence[Tensor | None]) -> Tensor:
    context = None
    for here in _cuts(query, rows):
        part = block(query[:, :, here], at.rows(here), *shared)
        if context is None:
            context = part.new_empty(*part.shape[:2], query.shape[2], part.shape[3])
        context[:, :, here] = part
    assert context is not None
    return context


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, block: Block, at: Positions, rows: int, count: int, query: Tensor, *others: Tensor | None
    ) -> Tensor:
        ctx.block, ctx.at, ctx.rows, ctx.count, ctx.again = block, at, rows, count, _again(query.device)
        ctx.save_for_backward(query, *others)
        return _joined(block, query, at, rows, others[:count])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, *others = ctx.saved_tensors
        shared = _all_alone(others[: ctx.count])
        inputs = [*shared, *others[ctx.count :]]
        learning = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
        # A sum of many blocks in half precision would lose the small ones.
        sums = [torch.zeros_like(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32)) for tensor in learning]
        grad_query = torch.zeros_like(query) if query.requires_grad else None
        with ctx.again():
            for here in _cuts(query, ctx.rows):
                part = _alone(query[:, :, here])
                with torch.enable_grad():
                    context = ctx.block(part, ctx.at.rows(here), *shared)
                _require_known(context, [part, *learning])
                if not context.requires_grad:
                    continue
                wanted = [part, *learning] if part.requires_grad else learning
                found = list(torch.autograd.grad(context, wanted, grad[:, :, here], allow_unused=True))
                mine = found.pop(0) if part.requires_grad else None
                if grad_query is not None and mine is not None:
                    grad_query[:, :, here] = mine
                for total, one in zip(sums, found, strict=True):
                    if one is not None:
                        total += one
        totals = iter(sums)
        grads = [next(totals).to(x.dtype) if x is not None and x.requires_grad else None for x in inputs]
        return None, None, None, None, grad_query, *grads


def _kept(block: Block, query: Tensor, at: Positions, rows: int, shared: Sequence[Tensor | None]) -> Tensor:
    """By torch's own checkpoints: any graph, but each block keeps some of it."""
    parts = []
    for here in _cuts(query, rows):
        given = (query[:, :, here], at.rows(here), *shared)
        parts.append(checkpoint(block, *given, use_reentrant=False) if torch.is_grad_enabled() else block(*given))
    return torch.cat(parts, dim=2)


def _alone(tensor: Tensor) -> Tensor:
    """The same numbers at the root of a graph."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _all_alone(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [None if tensor is None else _alone(tensor) for tensor in tensors]


def _leaves(block: Block, query: Tensor, at: Positions, shared: Sequence[Tensor | None]) -> tuple[Tensor, ...] | None:
    """What the block reads and is to learn beside its arguments, found by one query. None where such a tensor was
    computed before: what led to it cannot be run once more.
    """
    if query.device.type not in ("cpu", "cuda"):
        return None
    one, given = _alone(query[:, :, :1]), _all_alone(shared)
    with torch.random.fork_rng(_others(query.device)):
        first = _number(torch.zeros((), requires_grad=True) + 0)
        context = block(one, at.rows(slice(0, 1)), *given)
    found = []
    for node in _graph(context):
        if _is_leaf(node):
            if not any(node.variable is mine for mine in (one, *given)):
                found.append(node.variable)
        elif node._sequence_nr() < first:
            return None
    return tuple(found)


def _require_known(context: Tensor, known: Sequence[Tensor]) -> None:
    # Saved tensors may come back as others, as after a checkpoint around it all; where their gradients go is the same.
    ends = {get_gradient_edge(tensor).node for tensor in known if tensor.requires_grad}
    for node in _graph(context):
        if _is_leaf(node) and node not in ends:
            raise RuntimeError(
                f"A tensor of shape {tuple(node.variable.shape)} that is to learn takes part in some queries' scores "
                "only, not in the first query's, and its gradient would be lost. Let it take part in all (by 0 * "
                "tensor), or choose the path: paths=(MaterialisedPath(),)."
            )


def _graph(tensor: Tensor) -> Iterator[Any]:
    """Every node that led to it."""
    met, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in met:
            met.add(node)
            yield node
            waiting += [before for before, _ in node.next_functions]


def _is_leaf(node: Any) -> bool:
    return type(node).__name__ == "AccumulateGrad"


def _number(tensor: Tensor) -> int:
    """Nodes are counted as they are made."""
    number: int = tensor.grad_fn._sequence_nr()  # type: ignore[union-attr]
    return number


def _others(device: torch.device) -> list[torch.device]:
    return [] if device.type == "cpu" else [device]


def _again(device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """A context in which random numbers and the precision of autocast are what they are now."""
    noise, there = torch.get_rng_state(), [torch.cuda.get_rng_state(other) for other in _others(device)]
    casts = [
        torch.autocast(kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind))
        for kind in {"cpu", device.type}
    ]

    @contextmanager
    def again() -> Iterator[None]:
        with torch.random.fork_rng(_others(device)), ExitStack() as stack:
            torch.set_rng_state(noise)
            for other, state in zip(_others(device), there, strict=True):
                torch.cuda.set_rng_state(state, other)
            for cast in casts:
                stack.enter_context(cast)
            yield

    return again
