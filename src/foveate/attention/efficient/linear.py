"""Attention by kernels: linear attention, φ = elu + 1, and Performer, φ of positive random features (FAVOR+)."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.check import require_one_width, require_whole, require_width
from foveate.attention.efficient.kernel import KernelAttention, largest
from foveate.attention.mechanism import Site, SiteConfig
from foveate.attention.normaliser import Proportional
from foveate.attention.score import Dot, Product
from foveate.attention.visibility import Visibility


@dataclass(frozen=True, kw_only=True)
class Elu(Dot):
    """score(q, k) = φ(q) · φ(k),  φ(x) = elu(x) + 1 = x + 1 for x > 0, eˣ otherwise

    Written as eˣ and not as elu(x) + 1, which float32 rounds to 0 below −17.

    >>> Elu()(torch.tensor([[[[1.0, -20.0]]]]), torch.tensor([[[[0.0, 0.0]]]])).item()
    2.0
    """

    logarithmic: bool = False

    def num_features(self, head_dim: int) -> int:
        return head_dim

    def query_features(self, query: Float[Tensor, "batch heads query dim"]) -> Float[Tensor, "batch heads query dim"]:
        return torch.where(query > 0, query + 1, query.clamp(max=0).exp())

    def key_features(self, key: Float[Tensor, "batch heads key dim"]) -> Float[Tensor, "batch heads key dim"]:
        return self.query_features(key)

    def form(self) -> Product:
        return Product(self.query_features, self.key_features)

    def symbol(self, head_dim: int) -> str:
        return "φ(q)·φ(k)"


class LinearAttention(KernelAttention):
    """context_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / φ(q_i) Σ_j φ(k_j),  φ(x) = elu(x) + 1

    O(n · d²) instead of O(n² · d); causal through running sums, and a running sum is all that a decoder keeps: a token
    costs O(d²), however long the text is (`RunningSum`). Differs from the paper: hidden keys are left out of
    both sums (published code often leaves them in), and ε is 0 unless given.

    >>> from foveate.attention import Positions, causal
    >>> x = torch.randn(1, 1, 5, 4)
    >>> attention = LinearAttention(visibility=causal())
    >>> record = attention.explain(query=x, key=x, value=x)
    >>> torch.allclose(attention.run(query=x, key=x, value=x), record.weights @ x, atol=1e-6), record.shows
    (True, 'implied')

    Reference: Katharopoulos et al. 2020, equations 5, 7, 9 to 12 and 16 to 20.
    """

    def __init__(
        self, *, eps: float = 0.0, visibility: Visibility | None = None, kind: Literal["self", "cross"] = "self"
    ) -> None:
        super().__init__(Elu(), Proportional(eps=eps), visibility=visibility, kind=kind)

    def extra_repr(self) -> str:
        eps = getattr(self.normaliser, "eps", None)
        return f"eps={eps!r}, visibility={self.visibility}"


@dataclass(frozen=True, kw_only=True)
class LinearConfig(SiteConfig[LinearAttention]):
    """Linear attention with φ(x) = elu(x) + 1 (Katharopoulos et al. 2020)."""

    eps: float = 0.0
    """Added to the sum of each row before dividing by it."""

    def __post_init__(self) -> None:
        Proportional(eps=self.eps)

    def build_for(self, site: Site) -> LinearAttention:
        require_one_width("Linear attention", site.query_dim, site.key_dim)
        return LinearAttention(eps=self.eps, visibility=site.visibility, kind=site.kind)


class Favor(nn.Module):
    """score(q, k) = log φ(q) · φ(k) ≈ q · k / √d,  φ(x) = exp(W x' − ‖x'‖²/2) / √m,  x' = x / d^¼

    The rows of W are random, Gaussian in length and orthogonal in blocks of d: E[φ(q) · φ(k)] = exp(q · k / √d). The
    score is the logarithm, so that softmax of it is φ(q) · φ(k) over the row's sum, and so that it never overflows.

    >>> _ = torch.manual_seed(0)
    >>> q, k = torch.randn(2, 1, 1, 1, 16) / 2
    >>> exact = (q * k).sum() / 4
    >>> [f"{(Favor(head_dim=16, num_features=m)(q, k) - exact).abs().item():.2f}" for m in (16, 65536)]
    ['0.48', '0.02']

    W is a buffer, kept with the weights; `redraw` draws it anew from a seed. Reference: Choromanski et al. 2021,
    lemma 1 and section 2.4.
    """

    projection: Float[Tensor, "feature head_dim"]
    logarithmic: bool = True

    def __init__(self, *, head_dim: int, num_features: int = 256, seed: int = 0) -> None:
        super().__init__()
        require_whole(head_dim=head_dim, num_features=num_features)
        require_whole(-math.inf, seed=seed)
        self.register_buffer("projection", torch.empty(num_features, head_dim))
        self.redraw(seed)

    @torch.no_grad()
    def redraw(self, seed: int) -> None:
        """Other random features, always the same for a seed."""
        generator = torch.Generator().manual_seed(seed)
        self.projection.copy_(orthogonal_rows(self.projection.shape[0], self.projection.shape[1], generator))

    def num_features(self, head_dim: int) -> int:
        return len(self.projection)

    def query_features(self, query: Tensor) -> Float[Tensor, "batch heads query feature"]:
        """log φ(q) + ½ log m"""
        require_width(query, self.projection.shape[1])
        scaled = query * query.shape[-1] ** -0.25
        return scaled @ self.projection.to(scaled.dtype).mT - scaled.square().sum(-1, keepdim=True) / 2

    def key_features(self, key: Float[Tensor, "batch heads key dim"]) -> Float[Tensor, "batch heads key feature"]:
        return self.query_features(key)

    def compare(self, query_features: Tensor, key_features: Tensor) -> Float[Tensor, "batch heads query key"]:
        log_q, log_k = largest(query_features), largest(key_features)
        kernel = (query_features - log_q).exp() @ (key_features - log_k).exp().mT / len(self.projection)
        return kernel.clamp(min=torch.finfo(kernel.dtype).tiny).log() + log_q + log_k.mT

    def forward(self, query: Tensor, key: Tensor) -> Float[Tensor, "batch heads query key"]:
        return self.compare(self.query_features(query), self.key_features(key))

    def extra_repr(self) -> str:
        return f"num_features={self.projection.shape[0]}, head_dim={self.projection.shape[1]}"


class PerformerAttention(KernelAttention):
    """context_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / φ(q_i) Σ_j φ(k_j), an unbiased kernel's estimate of softmax attention

    O(n · m · d) with m random features; causal through running sums, and a running sum is all that a decoder keeps: a
    token costs O(m · d), however long the text is. Differs from published code: no constant is added to the features,
    so that only rounding depends on the largest key; hidden keys are left out.

    >>> from foveate.attention import Attention
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(1, 1, 6, 8) / 2
    >>> exact = Attention().explain(x, x, x).weights
    >>> for m in (8, 64, 4096):
    ...     record = PerformerAttention(head_dim=8, num_features=m).explain(x, x, x)
    ...     print(m, bool((record.weights - exact).abs().max() < 2 / m**0.5))
    8 True
    64 True
    4096 True

    Reference: Choromanski et al. 2021, section 2 (FAVOR+).
    """

    score: Favor

    def __init__(
        self,
        *,
        head_dim: int,
        num_features: int = 256,
        seed: int = 0,
        visibility: Visibility | None = None,
        kind: Literal["self", "cross"] = "self",
    ) -> None:
        favor = Favor(head_dim=head_dim, num_features=num_features, seed=seed)
        super().__init__(favor, visibility=visibility, kind=kind)

    def redraw(self, seed: int) -> None:
        """Other random features, always the same for a seed."""
        self.score.redraw(seed)


@dataclass(frozen=True, kw_only=True)
class PerformerConfig(SiteConfig[PerformerAttention]):
    """Softmax attention by positive random features (Choromanski et al. 2021)."""

    num_features: int = 256
    """More are closer to softmax; the Long Range Arena used 256, but 2 on ListOps, where it then did badly."""
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole(num_features=self.num_features)

    def build_for(self, site: Site) -> PerformerAttention:
        require_one_width("Performer", site.query_dim, site.key_dim)
        return PerformerAttention(
            head_dim=site.key_dim,
            num_features=self.num_features,
            seed=self.seed,
            visibility=site.visibility,
            kind=site.kind,
        )


def orthogonal_rows(rows: int, dim: int, generator: torch.Generator) -> Float[Tensor, "rows dim"]:
    """Rows as long as Gaussian vectors, orthogonal to each other in blocks of `dim`.

    >>> W = orthogonal_rows(3, 3, torch.Generator().manual_seed(0))
    >>> torch.allclose(W @ W.mT, (W @ W.mT).diagonal().diag(), atol=1e-5)
    True
    """
    blocks = []
    for _ in range(math.ceil(rows / dim)):
        rotation, upper = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))
        blocks.append((rotation * upper.diagonal().sign()).mT)  # the signs make the rotation uniform
    lengths = torch.randn(rows, dim, generator=generator, dtype=torch.float64).norm(dim=-1, keepdim=True)
    return (torch.cat(blocks)[:rows] * lengths).float()
