"""Softmax over the pairs that a pattern of positions leaves: local attention, and the patterns of long sequences."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.attention import Attention
from foveate.attention.bias import Gaussian
from foveate.attention.check import require_hidden, require_self, require_whole
from foveate.attention.mechanism import Site, SiteConfig, demand_of
from foveate.attention.position import Positions
from foveate.attention.score import GeneralConfig, ScaledDot, ScoreConfig
from foveate.attention.score.form import project
from foveate.attention.visibility import Visibility, around, bigbird, block, longformer, sparse, window


@dataclass(frozen=True, kw_only=True)
class PatternConfig(SiteConfig[Attention]):
    """Scaled dot-product attention within a pattern, beside what the model demands."""

    def __post_init__(self) -> None:
        self.pattern  # noqa: B018 -- numbers that no pattern has are refused where they are given

    @property
    def pattern(self) -> Visibility:
        raise NotImplementedError

    def build_for(self, site: Site) -> Attention:
        require_self(f"{self.pattern} compares positions of one sequence", site.kind)
        score = ScaledDot().build(query_dim=site.query_dim, key_dim=site.key_dim)
        return Attention(score, visibility=site.visibility & self.pattern, kind=site.kind)


@dataclass(frozen=True, kw_only=True)
class LocalBlockConfig(PatternConfig):
    """context_i = softmax over {j : ⌊j/b⌋ = ⌊i/b⌋} of q_i · k_j / √d, times v_j: blocks of b neighbouring positions

    The "local attention" of the Long Range Arena (Tay et al. 2021), repaired: O(n · b). Its published code puts
    positions j, j + n/b, j + 2n/b … into one block, which is not local; as a rule, that is `block(b, strided=True)`.

    >>> print(LocalBlockConfig(block=2).pattern.picture(4, 4))
    # # . .
    # # . .
    . . # #
    . . # #
    """

    block: int = 32

    @property
    def pattern(self) -> Visibility:
        return block(self.block)


@dataclass(frozen=True, kw_only=True)
class SparseConfig(PatternConfig):
    """context_i = softmax over P_i of q_i · k_j / √d, times v_j,  P_i = {j : ⌊j/b⌋ = ⌊i/b⌋} ∪ {j : j mod b ≥ b − c}

    The query's own block of b positions, and the last c of every block, into which the others may write summaries.
    `strided`: P_i = {j : |i − j| ≤ b} ∪ {j : (i − j) mod b = 0}. Pairs grow as n · (b + n/b):
    with b = √n, as in the paper, as n√n.

    Differs from the paper: a head looks at both sets at once, where the paper also gives each a head or a layer of
    its own; and without a decoder's `causal()` it looks both ways.

    >>> from math import isqrt
    >>> from foveate.attention import Positions
    >>> for n in (64, 256, 1024):                                                  # pairs, divided by n√n
    ...     fixed, strided = (SparseConfig(block=isqrt(n), strided=strided).pattern for strided in (False, True))
    ...     print(n, *(f"{rule.pairs(Positions.of(n, n)) / n**1.5:.2f}" for rule in (fixed, strided)))
    64 1.88 2.64
    256 1.94 2.82
    1024 1.97 2.91

    Reference: Child et al. 2019, section 4.3.
    """

    block: int = 32
    summaries: int = 1
    """The number of positions at the end of each block that everybody sees."""
    strided: bool = False
    """The last `block` positions and every `block`-th before them, instead."""

    @property
    def pattern(self) -> Visibility:
        return sparse(block=self.block, summaries=self.summaries, strided=self.strided)


@dataclass(frozen=True, kw_only=True)
class LongformerConfig(PatternConfig):
    """context_i = softmax over P_i of q_i · k_j / √d, times v_j,  P_i = {j : |i − j| ≤ w/2 or i < g or j < g}

    A sliding window of w neighbours and g global positions: O(n · (w + g)), each further layer reaches w/2 farther, and
    a global position connects any two in two steps.

    Differs from the paper: global positions share the projections of the others and are the first ones, and no window
    is dilated; `visibility = "global_tokens([…]) | dilated(…)"` sets both for any attention.

    >>> print(LongformerConfig(window=2, tokens=1).pattern.picture(5, 5))
    # # # # #
    # # # . .
    # # # # .
    # . # # #
    # . . # #

    Reference: Beltagy et al. 2020, section 3.1.
    """

    window: int = 64
    """The number of neighbours that a query sees, half of them on each side."""
    tokens: int = 0
    """The number of positions, from the first on, that see and are seen by everybody."""

    @property
    def pattern(self) -> Visibility:
        return longformer(window=self.window, tokens=self.tokens)


@dataclass(frozen=True, kw_only=True)
class BigbirdConfig(PatternConfig):
    """context_i = softmax over P_i of q_i · k_j / √d, times v_j,  P_i = blocks near i, global blocks, r random blocks

    O(n · block · (window + 2 · tokens + random)): the share of visible pairs falls as n grows, and any two positions
    are still two steps apart.

    Differs from the paper: random blocks may coincide with visible ones; they are drawn by a seed and an example's own
    length, so that padding does not change the draw; and the global blocks are the first ones of the text (ITC), not
    additional ones (ETC).

    >>> from foveate.attention import Positions
    >>> rule = BigbirdConfig(block=4).pattern
    >>> for n in (64, 128, 256):
    ...     print(n, f"{rule.pairs(Positions.of(n, n)) / n**2:.2f}")
    64 0.41
    128 0.23
    256 0.12

    Reference: Zaheer et al. 2020, section 2 and appendix D.
    """

    block: int = 16
    window: int = 3
    """The number of blocks around the query's own, this one included."""
    tokens: int = 1
    """The number of blocks, from the first on, that see and are seen by everybody."""
    random: int = 3
    """The number of blocks drawn at random that each block of queries sees."""
    seed: int = 0

    @property
    def pattern(self) -> Visibility:
        return bigbird(block=self.block, window=self.window, tokens=self.tokens, random=self.random, seed=self.seed)

    def build_for(self, site: Site) -> Attention:
        if self.random and demand_of(site.visibility).causal:
            raise ValueError(
                "random blocks are drawn among all blocks of a sequence, which a decoder has not written yet. "
                'Give random = 0, or choose another kind here, such as "sparse" or "longformer".'
            )
        return super().build_for(site)


class PredictedCentre(nn.Module):
    """p_t = S · sigmoid(vᵀ tanh(W h_t)), a real number between 0 and S, the true length of that source

    Luong et al. 2015, equation 9. S is never the padded length:

    >>> centre = PredictedCentre(query_dim=4, hidden_dim=4)
    >>> torch.nn.init.zeros_(centre.vector)
    Parameter containing:
    tensor([[0., 0., 0., 0.]], requires_grad=True)
    >>> at = Positions.of(query=1, key=9, key_lengths=torch.tensor([9, 4]))
    >>> centre(torch.randn(2, 1, 1, 4), at).flatten().tolist()
    [4.5, 2.0]
    """

    def __init__(self, *, query_dim: int, hidden_dim: int, num_heads: int = 1) -> None:
        super().__init__()
        require_whole(query_dim=query_dim, hidden_dim=hidden_dim, num_heads=num_heads)
        self.weight = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))
        self.vector = nn.Parameter(torch.empty(num_heads, hidden_dim))
        for weight, fan_in in ((self.weight, query_dim), (self.vector, hidden_dim)):
            nn.init.uniform_(weight, -(fan_in**-0.5), fan_in**-0.5)

    def forward(
        self, query: Float[Tensor, "batch heads query query_dim"], at: Positions
    ) -> Float[Tensor, "batch heads query 1"]:
        hidden = torch.tanh(project(query, self.weight))
        place = (hidden * self.vector[:, None]).sum(-1, keepdim=True)
        # bfloat16 has three digits: too few to point into a long source.
        return at.key_lengths * place.to(torch.promote_types(place.dtype, torch.float32)).sigmoid()

    def extra_repr(self) -> str:
        num_heads, query_dim, hidden_dim = self.weight.shape
        return f"query_dim={query_dim}, hidden_dim={hidden_dim}, num_heads={num_heads}"


@dataclass(frozen=True, kw_only=True)
class LocalMonotonicConfig(SiteConfig[Attention]):
    """α_ts = softmax over |s − t| ≤ D of score(h_t, h̄_s): the t-th query looks around the t-th key

    local-m of Luong et al. 2015, section 3.2, with p_t = t: source and target are assumed to run in step. Keys past an
    end of the source are left out, as in the paper. The paper uses it between sequences only; here a sequence may also
    look at itself, and the window joins the rules of the layer. With D ≥ n − 1 it is global attention.

    >>> from foveate.attention import everything
    >>> local = LocalMonotonicConfig(window=1).build(query_dim=4, key_dim=4, visibility=everything(), kind="cross")
    >>> print(local.visibility.picture(3, 5))
    # # . . .
    # # # . .
    . # # # .
    """

    window: int = 10
    """D, the keys on either side."""
    score: ScoreConfig = GeneralConfig()

    def __post_init__(self) -> None:
        _require_window(self.window)

    def build_for(self, site: Site) -> Attention:
        score = self.score.build(query_dim=site.query_dim, key_dim=site.key_dim, num_heads=site.num_heads)
        rule = site.visibility & window(left=self.window, right=self.window)
        return Attention(score, visibility=rule, kind=site.kind)


@dataclass(frozen=True, kw_only=True)
class LocalPredictiveConfig(SiteConfig[Attention]):
    """α_ts = softmax over |s − p_t| ≤ D of score(h_t, h̄_s), times exp(−(s − p_t)² / (2σ²)) with σ = D/2

    local-p of Luong et al. 2015, section 3.2: each query predicts where to look (`PredictedCentre`), and gives less
    weight to keys away from it. A row sums to at most 1, as published; differs from the paper with `renormalise`: the
    Gaussian is then added to the scores, and a row sums to 1. The prediction learns through the Gaussian alone: which
    keys are in the window is not differentiable.

    An untrained prediction is the middle of the source, here with equal scores:

    >>> from foveate.attention import everything
    >>> for renormalise in (False, True):
    ...     local = LocalPredictiveConfig(window=2, renormalise=renormalise).build(
    ...         query_dim=4, key_dim=4, visibility=everything(), kind="cross")
    ...     for weight in (local.centre.vector, local.score.weight):
    ...         _ = torch.nn.init.zeros_(weight)
    ...     query, key = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 8, 4)
    ...     print(local.explain(query, key, key, at=Positions.of(query=1, key=8)).weights.flatten().detach())
    tensor([0.0000, 0.0000, 0.0271, 0.1213, 0.2000, 0.1213, 0.0271, 0.0000])
    tensor([0.0000, 0.0000, 0.0545, 0.2442, 0.4026, 0.2442, 0.0545, 0.0000])
    """

    window: int = 10
    """D, the keys on either side of the predicted place."""
    score: ScoreConfig = GeneralConfig()
    hidden_dim: int | None = None
    """The prediction's inner width; by default the query's width."""
    renormalise: bool = False
    """Whether rows sum to 1; the paper's do not."""

    def __post_init__(self) -> None:
        _require_window(self.window)
        require_hidden(self.hidden_dim)

    def build_for(self, site: Site) -> Attention:
        if site.kind == "self" and not bool(site.visibility(Positions.of(1, 2)).expand(1, 1, 1, 2)[..., 1]):
            raise ValueError(
                "local_predictive points into a sequence of known length, and a decoder's past has none: steps would "
                'not be the whole. Choose it for the encoder or for cross-attention, or "local_monotonic".'
            )
        query_dim, heads, gaussian = site.query_dim, site.num_heads, Gaussian(self.window / 2)
        return Attention(
            self.score.build(query_dim=query_dim, key_dim=site.key_dim, num_heads=heads),
            visibility=site.visibility & around(left=self.window, right=self.window),
            bias=gaussian if self.renormalise else None,
            reweight=None if self.renormalise else gaussian,
            centre=PredictedCentre(query_dim=query_dim, hidden_dim=self.hidden_dim or query_dim, num_heads=heads),
            kind=site.kind,
        )


def _require_window(width: int) -> None:
    require_whole(-math.inf, window=width)
    if width < 1:
        raise ValueError(f"window={width} must be at least 1: the Gaussian's width is half of it")
