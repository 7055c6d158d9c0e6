"""Hard attention: each query looks at one key."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention.check import require_choice, require_real
from foveate.attention.normaliser.normaliser import (
    Rows,
    Scores,
    Softmax,
    Visible,
    Weights,
    closed,
    possible,
    precise,
)
from foveate.config import require_choices

HardMode = Literal["argmax", "sample", "straight_through", "gumbel"]


class Choice(NamedTuple):
    """The log probabilities and the entropy of one call's choices, with gradients, which the choice itself lacks."""

    log_probability: Float[Tensor, "batch heads query"]
    """log p of the key that was drawn; 0 where no key was drawn."""
    entropy: Float[Tensor, "batch heads query"]
    """The entropy of the distribution, in nats."""


class _Listener:
    """The choices inside `choices()`, and the examples that use the distribution: the same at every step."""

    def __init__(self) -> None:
        self.taken: list[Choice] = []
        self._chance: Float[Tensor, " batch"] | None = None

    def chance(self, like: Tensor) -> Float[Tensor, " batch"]:
        """A number in [0, 1) for each example, drawn once."""
        if self._chance is None or len(self._chance) != len(like):
            self._chance = torch.rand(len(like), device=like.device)
        return self._chance


_listener: ContextVar[_Listener | None] = ContextVar("foveate_choices", default=None)


class Hard(nn.Module):
    """α_i is 1 at one key and 0 elsewhere; in evaluation always at the key with the largest score.

    While training, by `mode`:

    * `argmax`: the same. Scores get no gradient.
    * `sample`: the key is drawn from softmax(e / T). Scores get no gradient through the weights; `choices()` returns
      log p of the drawn keys, from which `Reinforce` makes a loss. With probability `expectation`, an example uses the
      distribution in place of a draw, as Xu et al. do to steady training (there 0.5).
    * `straight_through`: the largest score, with the gradient of softmax(e / T).
    * `gumbel`: the key is drawn by argmax(e + Gumbel noise), with the gradient of softmax((e + noise) / T).

    Records of `sample` and `gumbel` show the distribution; those of the other modes show the choice. The first of equal
    scores counts as the largest.

    >>> scores, visible = torch.tensor([[[[2.0, 5.0, 9.0]]]]), torch.tensor([[[[True, True, False]]]])
    >>> Hard(mode="argmax")(scores, visible).flatten()
    tensor([0., 1., 0.])

    Reference: Xu et al. 2015, section 4.1 (sampling); Jang et al. 2017 (straight-through Gumbel-softmax).
    """

    symbol, is_hard = "hard", True

    def __init__(
        self,
        *,
        mode: HardMode = "argmax",
        temperature: float = 1.0,
        expectation: float = 0.0,
        reward_weight: float = 1.0,
        entropy_weight: float = 0.0,
    ) -> None:
        super().__init__()
        require_choice("mode", mode, get_args(HardMode))
        _require_expectation(expectation)
        self.mode, self.temperature, self.expectation = mode, temperature, expectation
        self.reward_weight, self.entropy_weight = reward_weight, entropy_weight
        self._softmax = Softmax(temperature=temperature)
        # A draw by the largest of e + noise follows softmax(e), whatever the temperature of its gradient.
        self._distribution = Softmax() if mode == "gumbel" else self._softmax

    def forward(self, scores: Scores, visible: Visible) -> Weights:
        if not scores.shape[-1]:
            return scores
        visible = possible(scores, visible)
        if not self.training or self.mode == "argmax":
            return _one_hot(_largest(scores, visible), scores, visible)
        if self.mode == "sample":
            return self._sampled(scores, visible)
        if self.mode == "gumbel":
            scores = scores - torch.empty_like(precise(scores)).exponential_().log().to(scores.dtype)
        chosen = _one_hot(_largest(scores, visible), scores, visible)
        weights: Tensor = _StraightThrough.apply(self._softmax(scores, visible), chosen)
        return weights

    def _sampled(self, scores: Scores, visible: Visible) -> Weights:
        distribution = self._softmax(precise(scores), visible)
        sees_some = visible.any(-1)
        with torch.no_grad():
            # An empty row draws among all keys, and nothing of it is kept.
            drawn_from = torch.where(sees_some[..., None], distribution, 1.0).flatten(0, -2)
            place = drawn_from.multinomial(1).view(scores.shape[:-1])
            chosen = _one_hot(place, scores, visible)
        listener = _listener.get() or _Listener()
        soft = torch.zeros(len(scores), 1, 1, dtype=torch.bool, device=scores.device)
        if self.expectation:
            soft = (listener.chance(scores) < self.expectation)[:, None, None]
        if _listener.get() is not None:
            logs = torch.where(distribution > 0, distribution, 1.0).log()
            log_probability = torch.where(sees_some & ~soft, logs.gather(-1, place[..., None])[..., 0], 0.0)
            listener.taken.append(Choice(log_probability, -(distribution * logs).sum(-1)))
        return torch.where(soft[..., None], distribution.to(scores.dtype), chosen)

    @property
    def is_drawn(self) -> bool:
        return self.mode in ("sample", "gumbel")

    @property
    def tells_place(self) -> bool:
        return not self.is_drawn

    @property
    def undivided(self) -> bool:
        """A draw makes one `Choice`, and its `expectation` decides for whole examples; Gumbel noise is per pair."""
        return self.training and self.learns_from_reward

    @property
    def learns_from_reward(self) -> bool:
        return self.mode == "sample"

    def header(self) -> dict[str, str | float]:
        return self._distribution.header() if self.is_drawn else {"kind": "hard"}

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        """log Σ_j exp(e_ij / T) of a distribution; otherwise the number of the chosen key, and −1 for an empty row."""
        if self.is_drawn:
            return self._distribution.statistic(scores, visible)
        if not scores.shape[-1]:
            return precise(scores).new_full(scores.shape[:-1], -1.0)
        visible = possible(scores, visible)
        return torch.where(visible.any(-1), _largest(scores, visible), -1).to(precise(scores).dtype)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        if self.is_drawn:
            return self._distribution.tile(scores, visible, statistic)
        place = first + torch.arange(scores.shape[-1], device=scores.device)
        return (visible & (place == statistic[..., None])).to(scores.dtype)

    def extra_repr(self) -> str:
        return f"mode={self.mode!r}, temperature={self.temperature:g}, expectation={self.expectation:g}"


@dataclass(frozen=True, kw_only=True)
class HardConfig:
    """One key instead of a mixture (Xu et al. 2015)."""

    mode: HardMode = "straight_through"
    """The way it learns: not at all, by REINFORCE on draws, by softmax's gradient, or by Gumbel noise."""
    temperature: float = 1.0
    expectation: float = 0.0
    """The probability that "sample" uses the distribution in place of a draw; the paper's value is 0.5."""
    reward_weight: float = 1.0
    """λ_r: how much "sample" learns from the rewards of its draws, in recurrent decoders."""
    entropy_weight: float = 0.0
    """λ_e: how much entropy "sample" keeps, against deciding early."""

    def __post_init__(self) -> None:
        require_choices(self)
        require_real(positive=True, temperature=self.temperature)
        _require_expectation(self.expectation)

    @property
    def learns_from_reward(self) -> bool:
        return self.mode == "sample"

    def build(self) -> Hard:
        return Hard(
            mode=self.mode,
            temperature=self.temperature,
            expectation=self.expectation,
            reward_weight=self.reward_weight,
            entropy_weight=self.entropy_weight,
        )


def _require_expectation(expectation: float) -> None:
    require_real(expectation=expectation)
    if not 0 <= expectation < 1:
        raise ValueError(f"expectation={expectation} must be at least 0 and below 1")


class _StraightThrough(torch.autograd.Function):
    """Forward the choice, backward the mixture."""

    @staticmethod
    def forward(ctx: Any, soft: Tensor, chosen: Tensor) -> Tensor:
        return chosen.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


def _largest(scores: Scores, visible: Visible) -> Int[Tensor, "batch heads query"]:
    """The number of the key with the largest visible score."""
    return closed(scores.detach(), visible).argmax(-1)


def _one_hot(place: Int[Tensor, "batch heads query"], scores: Scores, visible: Visible) -> Weights:
    """1 at one key of each row that sees something, else 0."""
    return torch.where(visible, torch.zeros_like(scores).scatter(-1, place[..., None], 1.0), 0.0)


@contextmanager
def choices() -> Iterator[list[Choice]]:
    """Every choice that sampled attention (`Hard(mode="sample")`, training) makes inside the block, in order.

    An example that uses the distribution in place of a draw does so at each call inside the block.

    >>> from foveate.attention import Attention, Hard
    >>> attention, x = Attention(normaliser=Hard(mode="sample")), torch.zeros(1, 1, 4, 2)
    >>> with choices() as taken:
    ...     context = attention.run(x, x, x)
    >>> taken[0].log_probability.exp().flatten(), taken[0].entropy.shape
    (tensor([0.2500, 0.2500, 0.2500, 0.2500]), torch.Size([1, 1, 4]))
    """
    listener = _Listener()
    token = _listener.set(listener)
    try:
        yield listener.taken
    finally:
        _listener.reset(token)


class Reinforce(nn.Module):
    """−Σ_n [ λ_r (log p(y|s̃ⁿ) − b) log p(s̃ⁿ) + λ_e H[s̃ⁿ] ], which sampled attention adds to the loss −Σ_n log p(y|s̃ⁿ)

    With λ_r = 1 and λ_e = 0 the gradient of the whole is an unbiased estimate of that of −Σ_s p(s) log p(y|s). The
    factor log p(y|s̃) − b is held constant. The baseline follows b ← 0.9 b + 0.1 · mean of log p(y|s̃), from the first
    mean on, and is updated after the batch was rewarded: one that depended on the draw would bias the estimate.

    Reference: Xu et al. 2015, equations 12 and 13.
    """

    baseline: Tensor
    started: Tensor

    def __init__(self, *, reward_weight: float = 1.0, entropy_weight: float = 0.0, decay: float = 0.9) -> None:
        super().__init__()
        self.reward_weight, self.entropy_weight, self.decay = reward_weight, entropy_weight, decay
        self.register_buffer("baseline", torch.zeros(()))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def forward(self, log_likelihood: Float[Tensor, " batch"], made: Sequence[Choice]) -> Float[Tensor, ""]:
        """`log_likelihood` is log p(y|s̃) of each example, `made` the choices on the way there."""
        reward = log_likelihood.detach()
        baseline = torch.where(self.started, self.baseline, reward.mean())
        advantage = self.reward_weight * (reward - baseline)
        if self.training:
            self.baseline.copy_(self.decay * baseline + (1 - self.decay) * reward.mean())
            self.started.fill_(True)
        total = torch.zeros_like(advantage)
        for choice in made:
            total = total + advantage * choice.log_probability.flatten(1).sum(-1)
            total = total + self.entropy_weight * choice.entropy.flatten(1).sum(-1)
        return -total.sum()

    def extra_repr(self) -> str:
        return f"reward_weight={self.reward_weight:g}, entropy_weight={self.entropy_weight:g}, decay={self.decay:g}"
