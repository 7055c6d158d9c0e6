"""Sampling draws each token from the model's distribution, sharpened or truncated by the configuration."""

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
    probabilities, tokens = (scores / config.temperature).softmax(dim=-1), None
    if config.top_k is not None:
        probabilities, tokens = ordered(probabilities, _positions(probabilities), min(config.top_k, scores.shape[1]))
    if config.top_p is not None:
        enough = config.top_p * probabilities.sum(dim=-1, keepdim=True, dtype=torch.float64)
        if tokens is None:
            probabilities, tokens = _head(probabilities, enough)
        before = pad(probabilities.cumsum(dim=-1, dtype=torch.float64)[:, :-1], (1, 0))
        probabilities = probabilities.masked_fill(before >= enough, 0.0)
    cumulative = probabilities.cumsum(dim=-1, dtype=torch.float64)
    # The noise is scaled by the actual sum, so that rounding cannot move it past the last token.
    place = torch.searchsorted(cumulative, noise[:, None] * cumulative[:, -1:], right=True)
    place = place.clamp(max=cumulative.shape[1] - 1)
    return (place if tokens is None else tokens.gather(1, place))[:, 0]


def _head(
    probabilities: Float[Tensor, "rows vocab"], enough: Float64[Tensor, "rows 1"]
) -> tuple[Float[Tensor, "rows kept"], Int[Tensor, "rows kept"]]:
    """The most probable tokens, best first: a few, or all if a few do not sum to enough, because sorting all is
    slow.
    """
    few, tokens = ordered(probabilities, _positions(probabilities), min(HEAD, probabilities.shape[1]))
    if bool((few.cumsum(dim=-1, dtype=torch.float64)[:, -1:] >= enough).all()):
        return few, tokens
    return ordered(probabilities, _positions(probabilities), probabilities.shape[1])


def _positions(values: Float[Tensor, "rows vocab"]) -> Int[Tensor, "rows vocab"]:
    return torch.arange(values.shape[1], device=values.device).expand_as(values)
