"""Learning from choices: the gradient that sampled attention does not have, estimated by REINFORCE."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.normaliser.hard import Choice, listener


@contextmanager
def choices() -> Iterator[list[Choice]]:
    """Every choice that sampled attention (`Hard(mode="sample")`, training) makes inside the block, in order.

    >>> from foveate.attention import Attention, Hard
    >>> attention, x = Attention(normaliser=Hard(mode="sample")), torch.zeros(1, 1, 4, 2)
    >>> with choices() as made:
    ...     context = attention.run(x, x, x)
    >>> made[0].log_probability.exp().flatten(), made[0].entropy.shape
    (tensor([0.2500, 0.2500, 0.2500, 0.2500]), torch.Size([1, 1, 4]))
    """
    made: list[Choice] = []
    token = listener.set(made.append)
    try:
        yield made
    finally:
        listener.reset(token)


class Reinforce(nn.Module):
    """−Σ_n [ λ_r (log p(y|s̃ⁿ) − b) log p(s̃ⁿ) + λ_e H[s̃ⁿ] ]: what sampled attention adds to the loss −Σ_n log p(y|s̃ⁿ)

    With λ_r = 1 and λ_e = 0 the gradient of the whole is an unbiased estimate of that of −Σ_s p(s) log p(y|s). The
    factor log p(y|s̃) − b is held constant. The baseline follows b ← 0.9 b + 0.1 · mean of log p(y|s̃), from the first
    mean on, and takes in a batch after it has been judged: one that depended on the draw would bias the estimate.

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
