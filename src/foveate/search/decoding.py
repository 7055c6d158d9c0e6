"""The settings of all decoders."""

from dataclasses import dataclass

from foveate.config import setting
from foveate.search.length_penalty import Average, Wu, divisor_of

LONGEST = 2**20
"""The limit on `max_length` in tokens, because a model that never ends would run for days."""


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """The common settings of all decoders. Lengths count generated tokens."""

    max_length: int = setting(256, "maximum number of tokens of a sentence, including the end token")
    min_length: int = setting(0, "minimum number of tokens before the end token")
    no_repeat_ngram: int = setting(0, "length of n-grams that may not occur twice in a sentence; 0 allows all")
    forbid: tuple[int, ...] = setting((0, 1), "token ids that are never generated; by default padding and begin")

    def __post_init__(self) -> None:
        if not 1 <= self.max_length <= LONGEST:
            raise ValueError(f"max_length must be at least 1 token and at most {LONGEST:,}, got {self.max_length}")
        if not 0 <= self.min_length < self.max_length:
            raise ValueError(
                f"min_length must leave room for the end within max_length={self.max_length}, got {self.min_length}"
            )
        if self.no_repeat_ngram < 0:
            raise ValueError(
                f"no_repeat_ngram is a number of tokens and cannot be negative, got {self.no_repeat_ngram}"
            )
        if any(token < 0 for token in self.forbid):
            raise ValueError(f"forbid names token ids, which are not negative, got {self.forbid}")


@dataclass(frozen=True, kw_only=True)
class GreedyConfig(Constraints):
    """Greedy decoding has only the common settings."""


AVERAGE = Average()
WIDEST = 4096
"""The largest beam; memory and time grow with it."""


@dataclass(frozen=True, kw_only=True)
class BeamConfig(Constraints):
    """score = log p(tokens) / divisor(length); the end token counts in both.

    The default penalty is the mean log-probability of a token; None is the plain sum, which favours short hypotheses.
    """

    beam: int = setting(4, "hypotheses that are extended side by side; 1 is greedy decoding")
    num_best: int = setting(1, "hypotheses returned a sentence, best first")
    length_penalty: Average | Wu | None = setting(
        AVERAGE, "how hypotheses of different lengths are compared: average, wu or none"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.beam <= WIDEST:
            raise ValueError(f"beam must be at least 1 hypothesis and at most {WIDEST:,}, got {self.beam}")
        if not 1 <= self.num_best <= self.beam:
            raise ValueError(f"num_best must be between 1 and beam={self.beam}, got {self.num_best}")

    def divisor(self, length: int) -> float:
        return divisor_of(self.length_penalty, length)


@dataclass(frozen=True, kw_only=True)
class SampleConfig(Constraints):
    """p(v) ∝ exp(logitᵥ / temperature), then the `top_k` most probable tokens, then of these the nucleus.

    The nucleus is the smallest set of most probable tokens whose probabilities sum to at least `top_p`: a token is in
    it if those before it sum to less than `top_p`, so that the most probable token always is. Equally probable tokens
    are ordered by id.

    Reference: Holtzman et al. 2020, §3.1, equation 2 (nucleus); Fan et al. 2018, §5.1 (top-k).
    """

    temperature: float = setting(1.0, "below 1 sharpens, above 1 flattens")
    top_k: int | None = setting(None, "draw only from this many most probable tokens")
    top_p: float | None = setting(None, "draw only from the most probable tokens that sum to this probability")
    seed: int = setting(0, "the noise is a function of seed, sentence and position")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}; for the limit 0 decode greedily")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1 token, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is a probability above 0 and up to 1, got {self.top_p}")


DecodeConfig = GreedyConfig | BeamConfig | SampleConfig


def beam_size(config: DecodeConfig) -> int:
    """The number of rows per sentence, which the model's initial state must have.

    >>> beam_size(GreedyConfig()), beam_size(BeamConfig(beam=5))
    (1, 5)
    """
    return config.beam if isinstance(config, BeamConfig) else 1
