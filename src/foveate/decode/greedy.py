"""Greedy decoding: the most probable token at every step."""

from dataclasses import dataclass

from foveate.decode.candidate import best
from foveate.decode.constraint import Constraints
from foveate.decode.request import Request
from foveate.decode.stepper import Hypothesis, State, Stepper
from foveate.decode.walk import walk


@dataclass(frozen=True, kw_only=True)
class GreedyConfig(Constraints):
    """Greedy decoding has no settings of its own."""


def greedy(stepper: Stepper, state: State, request: Request, config: GreedyConfig) -> list[Hypothesis]:
    """tokenₜ = argmaxᵥ p(v | token₁ … tokenₜ₋₁), the smallest id among equals; one hypothesis a sentence."""
    return walk(stepper, state, request, config, lambda scores, sentence, position: best(scores))
