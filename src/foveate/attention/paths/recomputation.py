"""Blocks of queries one after the other, computed again in the backward pass, in the memory of one block.

A block leaves no graph. Even small tensors that outlive it would split the memory that it frees, so that the next block
could not use it, and the memory of the process would grow with the square of the length. Therefore blocks write into
one result, and run again in the backward pass.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint

from foveate.attention.paths.derivative import refused
from foveate.attention.position import Positions, traced, transformed

Block = Callable[..., Tensor]
"""block(query, at, *shared): the context of some queries. A tensor that it reads and that needs gradients is in
`shared`, or is a parameter."""


def by_rows(
    block: Block,
    query: Float[Tensor, "batch heads query query_dim"],
    at: Positions,
    rows: int,
    *shared: Tensor | None,
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """`block` for `rows` queries at a time; in training it runs again in the backward pass, with the same noise."""
    if query.shape[2] <= rows:
        return block(query, at, *shared)
    if traced():
        return _checkpointed(block, query, at, rows, shared)
    if not torch.is_grad_enabled():
        return _joined(block, query, at, rows, shared)
    leaves = _leaves(block, query, at, shared)
    if leaves is None:
        return _checkpointed(block, query, at, rows, shared)
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


@dataclass(frozen=True, eq=False)
class _Work:
    """A block function with its inputs, for the backward pass."""

    block: Block
    at: Positions
    rows: int
    count: int
    """Number of shared tensors; the leaves that the block reads follow them."""
    again: Callable[[], AbstractContextManager[None]]
    """A context with the random numbers and the autocast of the forward pass."""

    def inputs(self, others: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Shared tensors as leaves of a new graph, and the leaves."""
        return [*_all_alone(others[: self.count]), *others[self.count :]]


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, block: Block, at: Positions, rows: int, count: int, query: Tensor, *others: Tensor | None
    ) -> Tensor:
        ctx.work = _Work(block, at, rows, count, _again(query.device))
        ctx.save_for_backward(query, *others)
        return _joined(block, query, at, rows, others[:count])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes = _Slopes.apply if torch.is_grad_enabled() else _slopes
        return None, None, None, None, *slopes(ctx.work, grad, *ctx.saved_tensors)


def _slopes(work: _Work, grad: Tensor, query: Tensor, *others: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients of the queries and of the others."""
    inputs = work.inputs(others)
    sums = _sums(inputs)
    grad_query = torch.zeros_like(query) if query.requires_grad else None
    with work.again():
        for here in _cuts(query, work.rows):
            part = _alone(query[:, :, here])
            _, gradients = _slopes_of(work, part, here, inputs, grad[:, :, here])
            if part.requires_grad and (mine := gradients.pop(0)) is not None:
                grad_query[:, :, here] = mine  # type: ignore[index]
            _add(sums, gradients)
    return grad_query, *_spread(sums, inputs)


class _Slopes(torch.autograd.Function):
    """`_slopes`, with gradients of their own: block by block, too."""

    @staticmethod
    def forward(
        ctx: Any, work: _Work, grad: Tensor, query: Tensor, *others: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        ctx.work = work
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(grad, query, *others)
        return _slopes(work, grad, query, *others)

    @staticmethod
    def backward(ctx: Any, above_query: Tensor | None, *above: Tensor | None) -> tuple[Tensor | None, ...]:
        grad, query, *others = ctx.saved_tensors
        work: _Work = ctx.work
        inputs = work.inputs(others)
        sums = _sums(inputs)
        over = [slope for x, slope in zip(inputs, above, strict=True) if x is not None and x.requires_grad]
        grad_query, grad_grad = torch.zeros_like(query), torch.zeros_like(grad)
        with work.again():
            for here in _cuts(query, work.rows):
                part, slope = _alone(query[:, :, here]), grad[:, :, here].detach().requires_grad_()
                learning, gradients = _slopes_of(work, part, here, inputs, slope, graph=True)
                mine = [None if above_query is None else above_query[:, :, here]] if part.requires_grad else []
                pairs = [
                    (one, weight)
                    for one, weight in zip(gradients, [*mine, *over], strict=True)
                    if one is not None and weight is not None and one.requires_grad
                ]
                if not pairs:
                    continue
                ones, weights = zip(*pairs, strict=True)
                second = list(torch.autograd.grad(ones, [slope, *learning], weights, allow_unused=True))
                for total, one in ((grad_grad, second.pop(0)), *([(grad_query, second.pop(0))] if mine else [])):
                    if one is not None:
                        total[:, :, here] = one
                _add(sums, second)
        grads = [grad_grad, grad_query if query.requires_grad else None, *_spread(sums, inputs)]
        return None, *refused(grads, THIRD)


THIRD = (
    "An attention that computes block by block has first and second derivatives, and a third is asked for. Let it "
    "keep everything: Attention(..., paths=(MaterialisedPath(),))."
)


def _slopes_of(
    work: _Work, part: Tensor, here: slice, inputs: list[Tensor | None], grad: Tensor, *, graph: bool = False
) -> tuple[list[Tensor], list[Tensor | None]]:
    """The tensors of one block that need gradients, with their gradients."""
    learning = _learning(inputs)
    with torch.enable_grad():
        context = work.block(part, work.at.rows(here), *inputs[: work.count])
    _require_all(context, [part, *learning])
    learning = [part, *learning] if part.requires_grad else learning
    if not context.requires_grad:
        return learning, [None] * len(learning)
    return learning, list(torch.autograd.grad(context, learning, grad, create_graph=graph, allow_unused=True))


def _learning(inputs: list[Tensor | None]) -> list[Tensor]:
    return [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]


def _sums(inputs: list[Tensor | None]) -> list[Tensor]:
    """A sum for each tensor that needs gradients; in half precision, a sum over many blocks would lose small ones."""
    return [torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32)) for x in _learning(inputs)]


def _add(sums: list[Tensor], gradients: Sequence[Tensor | None]) -> None:
    for total, one in zip(sums, gradients, strict=True):
        if one is not None:
            total += one


def _spread(sums: list[Tensor], inputs: list[Tensor | None]) -> list[Tensor | None]:
    """For each input its gradient, or None."""
    totals = iter(sums)
    return [next(totals).to(x.dtype) if x is not None and x.requires_grad else None for x in inputs]


def _checkpointed(block: Block, query: Tensor, at: Positions, rows: int, shared: Sequence[Tensor | None]) -> Tensor:
    """By torch's checkpoints, which support any graph, but keep a part of it for each block."""
    kinds = [None if tensor is None else tensor.dtype for tensor in shared]
    # Gradients of blocks are added in the type of what they share.
    wide = [None if x is None else x.to(torch.promote_types(x.dtype, torch.float32)) for x in shared]

    def part(query: Tensor, at: Positions, *wide: Tensor | None) -> Tensor:
        return block(query, at, *(None if x is None else x.to(kind) for x, kind in zip(wide, kinds, strict=True)))

    parts = []
    for here in _cuts(query, rows):
        inputs = query[:, :, here], at.rows(here)
        if torch.is_grad_enabled() and not transformed():  # torch.func has no checkpoints: all blocks are kept
            parts.append(checkpoint(part, *inputs, *wide, use_reentrant=False))
        else:
            parts.append(part(*inputs, *wide))
    return torch.cat(parts, dim=2)


def _alone(tensor: Tensor) -> Tensor:
    """A leaf of a new graph with the same numbers."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _all_alone(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [None if tensor is None else _alone(tensor) for tensor in tensors]


def _leaves(block: Block, query: Tensor, at: Positions, shared: Sequence[Tensor | None]) -> tuple[Tensor, ...] | None:
    """The parameters that the block reads beside its arguments, from a run with one query. None where it reads a tensor
    that needs gradients and was computed before the block, because that computation cannot run again.
    """
    if query.device.type not in ("cpu", "cuda"):
        return None
    one, inputs = _alone(query[:, :, :1]), _all_alone(shared)
    with torch.random.fork_rng(_others(query.device)):
        newest: Any = (torch.zeros((), requires_grad=True) + 0).grad_fn
        context = block(one, at.rows(slice(0, 1)), *inputs)
    leaves = []
    for node in _graph(context):
        if _is_leaf(node):
            if not any(node.variable is mine for mine in (one, *inputs)):
                leaves.append(node.variable)
        elif node._sequence_nr() < newest._sequence_nr():  # nodes are numbered in order of creation
            return None
    return tuple(leaves)


def _require_all(context: Tensor, learning: Sequence[Tensor]) -> None:
    # Saved tensors may return as other objects, as inside a checkpoint, but with the same gradient edge.
    ends = {get_gradient_edge(tensor).node for tensor in learning if tensor.requires_grad}
    for node in _graph(context):
        if _is_leaf(node) and node not in ends:
            raise RuntimeError(
                f"A tensor of shape {tuple(node.variable.shape)} that needs gradients takes part in some queries' "
                "scores only, not in the first query's, and its gradient would be lost. Let it take part in all (by "
                "0 * tensor), or choose the path: paths=(MaterialisedPath(),)."
            )


def _graph(tensor: Tensor) -> Iterator[Any]:
    """All nodes of its graph."""
    met, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in met:
            met.add(node)
            yield node
            waiting += [before for before, _ in node.next_functions]


def _is_leaf(node: Any) -> bool:
    return type(node).__name__ == "AccumulateGrad"


def _others(device: torch.device) -> list[torch.device]:
    return [] if device.type == "cpu" else [device]


def _again(device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """A context with the present state of random numbers and of autocast."""
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
