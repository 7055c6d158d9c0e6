"""Sampling draws each token from the model's distribution, sharpened or truncated by the configuration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor
from torch.nn.functional import pad

from foveate.decode.candidate import ordered
from foveate.decode.random_number import uniform
from foveate.decode.request import Request
from foveate.decode.stepper import State, Stepper
from foveate.decode.walk import Rows, Walk, walk
from foveate.search import Hypothesis, SampleConfig

LONGEST = 2**31
"""Stands for a `top_k` that leaves all tokens."""
COLDEST, HOTTEST = 1e-6, 1e30
"""Log-probabilities that are divided by temperatures beyond these may be infinite or not numbers."""
HEAD = 256  # tokens: the nucleus of a trained model is nearly always smaller


def sample(stepper: Stepper, state: State, request: Request, config: SampleConfig) -> list[Hypothesis]:
    """One sample per sentence; its `log_probability` is that of the model, at temperature 1 without truncation.

    The noise is a function of (seed, sentence, position), so that a sentence gets the same tokens in any batch.
    """
    return walk(stepper, state, request, sampling(config, request.end))


def sampling(config: SampleConfig, end: int) -> Walk:
    """The walk that draws tokens."""

    def choose(scores: Float[Tensor, "rows vocab"], rows: Rows) -> Int[Tensor, " rows"]:
        return draw(scores, uniform(config.seed if rows.key is None else rows.key, rows.example, rows.age), config)

    return Walk(config, choose, end=end)


def draw(
    scores: Float[Tensor, "rows vocab"], noise: Float64[Tensor, " rows"], config: SampleConfig
) -> Int[Tensor, " rows"]:
    """The token at which the cumulative distribution passes the noise, a number in [0, 1).

    >>> scores = torch.tensor([[0.5, 0.3, 0.2]]).log().expand(4, 3)
    >>> noise = torch.tensor([0.1, 0.4, 0.6, 0.9], dtype=torch.float64)
    >>> draw(scores, noise, SampleConfig()).tolist(), draw(scores, noise, SampleConfig(top_p=0.6)).tolist()
    ([0, 0, 1, 2], [0, 0, 0, 1])
    """
    return draw_each(scores, noise, Sharpness.of([config]).to(scores.device))


@dataclass(frozen=True)
class Sharpness:
    """Temperature and truncation of the distribution of each row; one row stands for all."""

    temperature: Float[Tensor, "#rows 1"]
    top_k: Int[Tensor, "#rows 1"]
    """A number beyond every vocabulary for a row without."""
    top_p: Float64[Tensor, "#rows 1"]
    """∞ for a row without."""
    largest_k: int
    """The largest `top_k` of a row; 0 if no row has one."""
    nucleus: bool
    """Whether a row has `top_p` alone."""

    @classmethod
    def of(cls, configs: Sequence[SampleConfig]) -> "Sharpness":
        """The settings of some rows, either all truncated or none."""
        top_k = [LONGEST if config.top_k is None else min(config.top_k, LONGEST) for config in configs]
        top_p = [math.inf if config.top_p is None else config.top_p for config in configs]
        return cls(
            torch.tensor([min(max(config.temperature, COLDEST), HOTTEST) for config in configs])[:, None],
            torch.tensor(top_k)[:, None],
            torch.tensor(top_p, dtype=torch.float64)[:, None],
            max([0, *(size for size in top_k if size < LONGEST)]),
            any(config.top_k is None and config.top_p is not None for config in configs),
        )

    def to(self, device: torch.device) -> "Sharpness":
        """The same settings on a device."""
        return replace(
            self, temperature=self.temperature.to(device), top_k=self.top_k.to(device), top_p=self.top_p.to(device)
        )


def draw_each(
    scores: Float[Tensor, "rows vocab"], noise: Float64[Tensor, " rows"], sharpness: Sharpness
) -> Int[Tensor, " rows"]:
    """`draw` with settings for each row. The token of a row does not depend on the other rows."""
    probabilities, tokens = (scores / sharpness.temperature).softmax(dim=-1), None
    if sharpness.largest_k or sharpness.nucleus:
        probabilities, tokens = _truncated(probabilities, sharpness)
    cumulative = _sums(probabilities)
    # The noise is scaled by the actual sum, so that rounding cannot move it past the last token.
    place = torch.searchsorted(cumulative, noise[:, None] * cumulative[:, -1:], right=True)
    place = place.clamp(max=cumulative.shape[1] - 1)
    return (place if tokens is None else tokens.gather(1, place))[:, 0]


def _truncated(
    probabilities: Float[Tensor, "rows vocab"], sharpness: Sharpness
) -> tuple[Float[Tensor, "rows width"], Int[Tensor, "rows width"]]:
    """The most probable tokens of every row, best first, with 0 after those that may be drawn. They are a few, or all
    if a few do not sum to enough, because sorting all is slow.
    """
    vocab, positions = probabilities.shape[1], _positions(probabilities)
    unlimited = sharpness.top_k == LONGEST
    enough = sharpness.top_p * probabilities.sum(dim=-1, keepdim=True, dtype=torch.float64)
    width = max(sharpness.largest_k, HEAD if sharpness.nucleus else 0)
    few, tokens = ordered(probabilities, positions, min(width, vocab))
    if sharpness.nucleus and bool((unlimited & (_sums(few)[:, -1:] < enough)).any()):
        few, tokens = ordered(probabilities, positions, vocab)
    few = few.masked_fill(torch.arange(few.shape[1], device=few.device) >= sharpness.top_k, 0.0)
    sums = _sums(few)
    enough = torch.where(unlimited, enough, sharpness.top_p * sums[:, -1:])
    return few.masked_fill(pad(sums[:, :-1], (1, 0)) >= enough, 0.0), tokens


def _sums(probabilities: Float[Tensor, "rows width"]) -> Float64[Tensor, "rows width"]:
    return probabilities.cumsum(dim=-1, dtype=torch.float64)


def _positions(values: Float[Tensor, "rows vocab"]) -> Int[Tensor, "rows vocab"]:
    return torch.arange(values.shape[1], device=values.device).expand_as(values)
