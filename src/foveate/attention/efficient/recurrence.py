"""Attention by a kernel as a recurrence: all that came before is one sum, which does not grow."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.attention.efficient.demand import demand_of
from foveate.attention.efficient.kernel import KernelAttention, KernelScore, divided, divides_by_sum, without_largest
from foveate.attention.mechanism import Mechanism
from foveate.attention.paths.path import share_heads


@dataclass(frozen=True, eq=False)
class RunningSum:
    """S_i = S_{i−1} + φ(k_i) [v_i; 1]ᵀ,  context_i = φ(q_i) S_i, over its last entry

    What a decoder keeps in place of keys and values: a token costs as much after a million others as after one. The
    paper's s and z are one here. A sum is a value: adding to it makes another.

    >>> from foveate.attention import causal
    >>> from foveate.attention.efficient import LinearAttention
    >>> attention, x = LinearAttention(visibility=causal()), torch.randn(1, 1, 9, 4)
    >>> past = running_sum(attention, x[:, :, :8], x[:, :, :8])
    >>> past.total.shape                                                      # 4 features; 4 numbers of a value, and 1
    torch.Size([1, 1, 4, 5])
    >>> step = past.and_then(x[:, :, 8:], x[:, :, 8:]).context(x[:, :, 8:])
    >>> torch.allclose(step, attention.run(x, x, x)[:, :, 8:], atol=1e-6)
    True

    Differs from the paper: features that are exponentials (Performer's) are divided by exp(shift), each by its largest
    so far, and what was summed before is rescaled as that grows, so that nothing overflows or is rounded away.

    Reference: Katharopoulos et al. 2020, section 3.4, equations 16 to 20.
    """

    attention: KernelAttention
    total: Float[Tensor, "rows kv_heads feature value_and_one"]
    shift: Float[Tensor, "rows kv_heads feature 1"]
    """The logarithm of what features were divided by; −∞ before the first, 0 where they are no exponentials."""

    def and_then(
        self, key: Float[Tensor, "rows kv_heads key key_dim"], value: Float[Tensor, "rows kv_heads key value_head_dim"]
    ) -> "RunningSum":
        """The sum over these keys, too."""
        if not key.shape[2]:
            return self
        score, shift, total = _score(self.attention), self.shift, self.total
        phi = score.key_features(key).to(total.dtype).mT
        if score.logarithmic:
            shift = torch.maximum(shift, phi.detach().amax(-1, keepdim=True))
            phi, total = (phi - shift).exp(), total * (self.shift - shift).exp()
        with_ones = torch.nn.functional.pad(value.to(total.dtype), (0, 1), value=1.0)
        return replace(self, total=total + phi @ with_ones, shift=shift)

    def context(
        self, query: Float[Tensor, "rows heads query query_dim"]
    ) -> Float[Tensor, "rows heads query value_head_dim"]:
        """What queries find that see all keys of the sum; nothing where there are none."""
        score, heads = _score(self.attention), query.shape[1]
        phi = score.query_features(query).to(self.total.dtype)
        if score.logarithmic:
            phi = without_largest(phi + share_heads(self.shift, heads).mT).exp()
        return divided(phi @ share_heads(self.total, heads), self.attention.normaliser).to(query.dtype)

    def select(self, rows: Int[Tensor, " new_rows"]) -> "RunningSum":
        return replace(self, total=self.total[rows], shift=self.shift[rows])


def running_sum(
    attention: Mechanism,
    key: Float[Tensor, "rows kv_heads key key_dim"],
    value: Float[Tensor, "rows kv_heads key value_head_dim"],
) -> RunningSum | None:
    """The sum over some keys, for queries that come after them; None where a decoder has to keep the keys.

    They are kept by every attention that is not by a kernel, does not see all that came before, or was given another
    normaliser.
    """
    if not isinstance(attention, KernelAttention):
        return None
    score, demand = _score(attention), demand_of(attention.visibility)
    usual = divides_by_sum(attention.normaliser, score)
    if not usual or not demand.causal or demand.of_keys or demand.others:
        return None
    precise = torch.promote_types(key.dtype, torch.float32)
    features = score.num_features(key.shape[-1])
    total = key.new_zeros(*key.shape[:2], features, value.shape[-1] + 1, dtype=precise)
    first = -torch.inf if score.logarithmic else 0.0
    shift = key.new_full((*key.shape[:2], features, 1), first, dtype=precise)
    return RunningSum(attention, total, shift).and_then(key, value)


def _score(attention: KernelAttention) -> KernelScore:
    assert isinstance(attention.score, KernelScore)
    return attention.score
