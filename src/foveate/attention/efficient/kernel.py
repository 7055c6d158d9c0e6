"""Attention whose scores are products of features: sums over keys come first, and no weight of a pair is computed."""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foveate.attention.attention import Attention
from foveate.attention.check import require_equal_width
from foveate.attention.mechanism import demand_of
from foveate.attention.normaliser import Normaliser, Proportional, softmax_temperature
from foveate.attention.paths.hidden import finite
from foveate.attention.paths.materialised import MaterialisedPath, materialise
from foveate.attention.paths.path import Cost, Formula, Inputs, ShippedPath, share_heads
from foveate.attention.position import Positions
from foveate.attention.score import FactoredScore
from foveate.attention.visibility import Visibility

CHUNK = 64
"""Positions per chunk of a causal pass: inside a chunk weights exist, between chunks only sums do."""


@runtime_checkable
class KernelScore(FactoredScore, Protocol):
    """A score that is κ(q, k) = φ(q) · φ(k) with φ > 0, or its logarithm."""

    @property
    def logarithmic(self) -> bool:
        """Whether the score is log κ, under softmax, rather than κ, under `Proportional`: the weights are the same."""
        ...

    def num_features(self, head_dim: int) -> int: ...


class KernelPath(ShippedPath):
    """context_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / φ(q_i) Σ_j φ(k_j):  O(n · features · value_head_dim), nothing of size n².

    `causal()` turns the sums over j into running sums, chunk by chunk. The materialised form computes with dropout,
    which needs weights to drop, and where something visible is not finite.
    """

    name = "kernel"

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        if not isinstance(formula.score, KernelScore):
            return [f"{type(formula.score).__name__} is not a product of positive features"]
        reasons = []
        if not divides_by_sum(formula.normaliser, formula.score):
            reasons.append(f"{formula.normaliser} does not divide by the row's sum")
        if formula.bias is not None or formula.reweight is not None:
            reasons.append("a bias of pairs is not a product of features")
        demand = demand_of(formula.visibility)
        if query.shape[2] > 1:
            reasons += [f"{rule} is not a sum over all keys, or over all earlier ones" for rule in demand.others]
            if demand.causal and not at.aligned:
                reasons.append("running sums need query i and key i in one place")
        return reasons

    def pays(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> bool:
        """Sums of features pay where there are more keys than features: with fewer, weights are smaller than sums."""
        score, dim = formula.score, query.shape[-1]
        return isinstance(score, KernelScore) and key.shape[2] > max(score.num_features(dim), 1.5 * dim)

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        (batch, heads, queries, dim), keys = query.shape, key.shape[2]
        score = formula.score
        features = score.num_features(dim) if isinstance(score, KernelScore) else dim
        per_feature = 0.0 if features == dim else 2.0 * dim
        flops = batch * heads * features * (queries + keys) * (per_feature + 2.0 * dim)
        states = keys / CHUNK if demand_of(formula.visibility).causal else 1.0
        size = max(query.element_size(), 4)
        return Cost(flops, size * batch * heads * features * (queries + keys + states * (dim + 1.0)))

    def context(self, inputs: Inputs) -> Tensor:
        formula, query, key, value, at, key_features, dropout = inputs
        score, heads = formula.score, query.shape[1]
        assert isinstance(score, KernelScore)
        demand = demand_of(formula.visibility)
        running = demand.causal and query.shape[2] > 1
        visible = formula.visibility(at) if query.shape[2] == 1 else demand.keys(at)
        visible = visible.expand(*visible.shape[:3], key.shape[2])
        if visible.shape[1] > 1:
            key, value = share_heads(key, heads), share_heads(value, heads)
        values = torch.where(visible.mT, value, 0.0)
        features = score.key_features(torch.where(visible.mT, key, 0.0)) if key_features is None else key_features
        features = torch.where(visible.mT, features, 0.0)
        if dropout or not finite(features, values):
            return materialise(*inputs).context
        precise = torch.promote_types(query.dtype, torch.float32)
        phi_q, phi_k = score.query_features(query).to(precise), share_heads(features.to(precise), heads)
        if score.logarithmic:
            phi_q, phi_k = exponentials(phi_q, phi_k, visible)
        require_equal_width(type(score).__name__, phi_q, phi_k)
        weighed = with_one(share_heads(values, heads).to(precise))
        sums = running_sums(phi_q, phi_k, weighed) if running else phi_q @ (phi_k.mT @ weighed)
        if running and score.logarithmic and _washed_out(sums, visible):
            return materialise(*inputs).context
        return divided(sums, formula.normaliser).to(value.dtype)


def exponentials(
    log_q: Float[Tensor, "batch heads query feature"],
    log_k: Float[Tensor, "batch heads key feature"],
    visible: Bool[Tensor, "#batch #heads 1 key"],
) -> tuple[Float[Tensor, "batch heads query feature"], Float[Tensor, "batch heads key feature"]]:
    """φ(q), up to a factor per query, and φ(k), 0 where hidden. Each feature is divided by that of its largest key, and
    queries are multiplied by it instead: then a row over all keys sums to 1 at least, and nothing is rounded away.
    """
    if not log_k.shape[2]:
        return log_q, log_k
    shift = largest(torch.where(visible.mT, log_k, -torch.inf), dim=-2)
    phi_k = torch.where(visible.mT, (torch.where(visible.mT, log_k, shift) - shift).exp(), 0.0)
    log_q = log_q + shift
    return (log_q - largest(log_q)).exp(), phi_k


def largest(logs: Tensor, dim: int = -1) -> Tensor:
    """The largest number along an axis, without a gradient; 0 where it is not finite."""
    most = logs.detach().amax(dim, keepdim=True)
    return torch.where(most.isfinite(), most, 0.0)


def _washed_out(
    sums: Float[Tensor, "batch heads length value_and_one"], visible: Bool[Tensor, "#batch #heads 1 key"]
) -> bool:
    """Whether later keys are so much longer that an earlier row's sum is rounded away beside them."""
    rounded = sums[..., -1:] < torch.finfo(sums.dtype).tiny * 2**27
    return bool((rounded & (visible.cumsum(-1) > 0).mT).any())


def with_one(value: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape value_and_one"]:
    """Values and a 1, whose weighted sum is the sum of the weights."""
    return torch.nn.functional.pad(value, (0, 1), value=1.0)


def divided(
    sums: Float[Tensor, "batch heads query value_and_one"], normaliser: Normaliser
) -> Float[Tensor, "batch heads query value_head_dim"]:
    """Weighted sums of values over the sum of the weights, the last number; 0 where that is 0."""
    total = sums[..., -1:] + (normaliser.eps if isinstance(normaliser, Proportional) else 0.0)
    return torch.where(total > 0, sums[..., :-1] / torch.where(total > 0, total, 1.0), 0.0)


def running_sums(
    phi_q: Float[Tensor, "batch heads length feature"],
    phi_k: Float[Tensor, "batch heads length feature"],
    value: Float[Tensor, "batch heads length dim"],
    chunk: int = CHUNK,
) -> Float[Tensor, "batch heads length dim"]:
    """Σ_{j ≤ i} (φ(q_i) · φ(k_j)) v_j for every i: the recurrence S_i = S_{i−1} + φ(k_i) v_iᵀ, a chunk at a time.

    >>> ones = torch.ones(1, 1, 4, 1)
    >>> running_sums(ones, ones, torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 4, 1), chunk=2).flatten()
    tensor([ 1.,  3.,  6., 10.])
    """
    length = value.shape[2]
    chunk = min(chunk, length)
    parts = [torch.nn.functional.pad(part, (0, 0, 0, -length % chunk)) for part in (phi_q, phi_k, value)]
    q, k, v = (part.unflatten(2, (-1, chunk)) for part in parts)
    sums = (q @ k.mT).tril() @ v
    if q.shape[2] > 1:
        states = (k[:, :, :-1].mT @ v[:, :, :-1]).cumsum(2)
        sums = sums + q @ torch.nn.functional.pad(states, (0, 0, 0, 0, 1, 0))
    return sums.flatten(2, 3)[:, :, :length]


class KernelAttention(Attention):
    """An attention by a kernel. Its weights are implied: `explain` makes them, `run` does not."""

    shows = "implied"
    score: KernelScore

    def __init__(
        self,
        score: KernelScore,
        normaliser: Normaliser | None = None,
        *,
        visibility: Visibility | None = None,
        kind: Literal["self", "cross"] = "self",
    ) -> None:
        paths = (KernelPath(), MaterialisedPath())
        super().__init__(score, visibility=visibility, normaliser=normaliser, kind=kind, paths=paths)


def divides_by_sum(normaliser: Normaliser, score: KernelScore) -> bool:
    """Whether weights are κ over the row's sum of it."""
    return softmax_temperature(normaliser) == 1.0 if score.logarithmic else isinstance(normaliser, Proportional)


@dataclass(frozen=True, eq=False)
class RunningSum:
    """S_i = S_{i−1} + φ(k_i) [v_i; 1]ᵀ,  context_i = φ(q_i) S_i, over its last entry

    A decoder keeps this sum in place of keys and values: a token costs as much after a million others as after one. The
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
    so far, and the earlier sum is rescaled as that grows, so that nothing overflows or is rounded away.

    Reference: Katharopoulos et al. 2020, section 3.4, equations 16 to 20.
    """

    attention: KernelAttention
    total: Float[Tensor, "rows kv_heads feature value_and_one"]
    shift: Float[Tensor, "rows kv_heads feature 1"]
    """The logarithm of what features were divided by; −∞ before the first, 0 for features that are not exponentials."""

    def and_then(
        self, key: Float[Tensor, "rows kv_heads key key_dim"], value: Float[Tensor, "rows kv_heads key value_head_dim"]
    ) -> "RunningSum":
        """The sum over these keys, too."""
        if not key.shape[2]:
            return self
        score, shift, total = self.attention.score, self.shift, self.total
        phi = score.key_features(key).to(total.dtype).mT
        if score.logarithmic:
            shift = torch.maximum(shift, phi.detach().amax(-1, keepdim=True))
            phi, total = (phi - shift).exp(), total * (self.shift - shift).exp()
        return replace(self, total=total + phi @ with_one(value.to(total.dtype)), shift=shift)

    def context(
        self, query: Float[Tensor, "rows heads query query_dim"]
    ) -> Float[Tensor, "rows heads query value_head_dim"]:
        """The context of queries that see all keys of the sum; zeros where there are none."""
        score, heads = self.attention.score, query.shape[1]
        phi = score.query_features(query).to(self.total.dtype)
        if score.logarithmic:
            phi = phi + share_heads(self.shift, heads).mT
            phi = (phi - largest(phi)).exp()
        return divided(phi @ share_heads(self.total, heads), self.attention.normaliser).to(query.dtype)

    def select(self, rows: Int[Tensor, " new_rows"]) -> "RunningSum":
        return replace(self, total=self.total[rows], shift=self.shift[rows])

    def joined(self, later: "RunningSum") -> "RunningSum":
        """The sums of this one's rows, then those of the other."""
        total, shift = (torch.cat(parts) for parts in ((self.total, later.total), (self.shift, later.shift)))
        return replace(self, total=total, shift=shift)


def running_sum(
    attention: object,
    key: Float[Tensor, "rows kv_heads key key_dim"],
    value: Float[Tensor, "rows kv_heads key value_head_dim"],
) -> RunningSum | None:
    """The sum over some keys, for queries that come after them; None where a decoder has to keep the keys.

    It is None for an attention that is not by a kernel, does not see all earlier keys, or has another normaliser.
    """
    if not isinstance(attention, KernelAttention):
        return None
    score, demand = attention.score, demand_of(attention.visibility)
    if not divides_by_sum(attention.normaliser, score) or not demand.causal or demand.of_keys or demand.others:
        return None
    precise = torch.promote_types(key.dtype, torch.float32)
    features = score.num_features(key.shape[-1])
    total = key.new_zeros(*key.shape[:2], features, value.shape[-1] + 1, dtype=precise)
    first = -torch.inf if score.logarithmic else 0.0
    shift = key.new_full((*key.shape[:2], features, 1), first, dtype=precise)
    return RunningSum(attention, total, shift).and_then(key, value)
