"""Greedy decoding takes the most probable token at every step."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.decode.candidate import best, leaders
from foveate.decode.request import Request
from foveate.decode.stepper import State, Stepper
from foveate.decode.walk import Walk, walk
from foveate.decode.whole_loop import greedy_loop
from foveate.search import GreedyConfig, Hypothesis


@torch.no_grad()
def greedy(stepper: Stepper, state: State, request: Request, config: GreedyConfig) -> list[Hypothesis]:
    """tokenₜ = argmaxᵥ p(v | token₁ … tokenₜ₋₁), of equal tokens the smallest id; one hypothesis per sentence."""
    hypotheses = greedy_loop(stepper, state, request, config)
    return walk(stepper, state, request, greedy_walk(config, request.end)) if hypotheses is None else hypotheses


def greedy_walk(config: GreedyConfig, end: int) -> Walk:
    """The walk that takes the best token."""
    return Walk(config, lambda scores, rows: best(scores), _first, end=end)


def _first(
    logits: Float[Tensor, "rows vocab"], hidden: tuple[int, ...]
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]] | None:
    """The best token and its log-probability, without computing the others; None without the kernel."""
    best = leaders(logits, hidden, 1)
    return None if best is None else (best[1][:, 0], best[0][:, 0])
