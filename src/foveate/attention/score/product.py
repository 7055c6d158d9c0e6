"""Scores that are products of vectors: dot, scaled dot, general, cosine."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from foveate.attention.check import (
    JOINING,
    require_equal_width,
    require_heads,
    require_made_for,
    require_one_width,
    require_real,
    require_whole,
)
from foveate.attention.onnx import Graph, Side, unit
from foveate.attention.score.form import Product, ProductScore, project, uniform


@dataclass(frozen=True, kw_only=True)
class Dot:
    """score(q, k) = q · k

    Luong et al. 2015, "dot". Var(q · k) = d for unit-variance entries, which is why `ScaledDot` exists: as vectors
    become wider, softmax becomes a choice of one key.

    >>> _ = torch.manual_seed(0)
    >>> for d in (4, 64, 512):
    ...     q, k = torch.randn(1, 1, 1000, d), torch.randn(1, 1, 10, d)        # the largest of ten weights:
    ...     print(d, *(f"{score(q, k).softmax(-1).amax(-1).mean():.1f}" for score in (Dot(), ScaledDot())))
    4 0.5 0.3
    64 0.9 0.3
    512 1.0 0.3
    """

    def factor(self, head_dim: int) -> float:
        """The factor of q · k."""
        return 1.0

    def query_features(self, query: Tensor) -> Tensor:
        return query * self.factor(query.shape[-1])

    def key_features(self, key: Tensor) -> Tensor:
        return key

    def compare(self, query_features: Tensor, key_features: Tensor) -> Tensor:
        require_equal_width(type(self).__name__, query_features, key_features)
        return query_features @ key_features.mT

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        return self.compare(self.query_features(query), self.key_features(key))

    def form(self) -> Product:
        return Product(None, None, self.factor)

    def symbol(self, head_dim: int) -> str:
        return "q·k"

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> "Dot":
        """Itself: there is nothing to learn."""
        require_one_width(type(self).__name__, query_dim, key_dim, JOINING)
        return self


@dataclass(frozen=True, kw_only=True)
class ScaledDot(Dot):
    """score(q, k) = µ q · k, with µ = 1/√d unless `scale` is given

    Vaswani et al. 2017, equation 1. The Russian lecture leaves µ free and calls 1/√E the special case.

    >>> q = torch.tensor([[[[3.0, 4.0, 0.0, 0.0]]]])
    >>> ScaledDot()(q, q).item(), ScaledDot(scale=0.1)(q, q).item()
    (12.5, 2.5)
    """

    scale: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            require_real(scale=self.scale)

    def factor(self, head_dim: int) -> float:
        return 1 / math.sqrt(head_dim) if self.scale is None else self.scale

    def symbol(self, head_dim: int) -> str:
        return f"q·k / √{head_dim}" if self.scale is None else f"{self.scale:g} q·k"


class General(ProductScore):
    """score(q, k) = qᵀ W k

    Luong et al. 2015, "general" (multiplicative, bilinear). W is `query_dim × key_dim`, one per head or one for all. It
    relates features of the query to features of the key, whatever their widths; with the identity it is `Dot`:

    >>> score = General(query_dim=2, key_dim=3)
    >>> with torch.no_grad():
    ...     _ = score.weight.copy_(torch.tensor([[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]))
    >>> score(torch.tensor([[[[10.0, 1.0]]]]), torch.tensor([[[[5.0, 6.0, 7.0]]]])).item()    # 10 · 7 + 1 · 5
    75.0
    """

    def __init__(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> None:
        super().__init__()
        require_whole(query_dim=query_dim, key_dim=key_dim, num_heads=num_heads)
        self.weight = uniform(num_heads, query_dim, key_dim, fan_in=key_dim)

    def query_features(self, query: Tensor) -> Tensor:
        require_made_for(query, self.weight)
        return query

    def key_features(self, key: Tensor) -> Tensor:
        return project(key, self.weight.mT)

    def symbol(self, head_dim: int) -> str:
        return "qᵀ W k"

    def onnx(self, graph: Graph, x: str, *, side: Side) -> str:
        return x if side == "query" else graph.op("MatMul", x, graph.weight(self.weight.mT))

    def extra_repr(self) -> str:
        num_heads, query_dim, key_dim = self.weight.shape
        return f"query_dim={query_dim}, key_dim={key_dim}, num_heads={num_heads}"


class Cosine(ProductScore):
    """score(q, k) = β (q · k) / (‖q‖ ‖k‖)

    Graves et al. 2014, equation 6 (content addressing of the neural Turing machine). There the controller emits β at
    every step; here it is one number, or with `learned` one trained number per head. Lengths below `eps` count as `eps`
    (or as the smallest number of a coarser type), so that a vector of zeros scores 0 with finite gradients.

    >>> q, k = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[30.0, 40.0], [-4.0, 3.0], [-0.3, -0.4]]]])
    >>> Cosine(beta=2.0)(q, k).flatten()
    tensor([ 2.,  0., -2.])
    """

    beta: Tensor

    def __init__(self, *, beta: float = 1.0, learned: bool = False, num_heads: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        require_real(beta=beta)
        require_real(positive=True, eps=eps)
        require_whole(num_heads=num_heads)
        strength = torch.full((num_heads,), float(beta))
        if learned:
            self.beta = nn.Parameter(strength)
        else:
            self.register_buffer("beta", strength, persistent=False)
        self.strength, self.eps = beta, eps

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Cosine":
        """As for every module; a constant in another number type is made anew, so that it is not coarse for good."""
        before = self.beta
        super()._apply(fn, recurse)
        if not isinstance(self.beta, nn.Parameter) and (self.beta.dtype != before.dtype or before.is_meta):
            self.beta = torch.full_like(self.beta, self.strength)
        return self

    def query_features(self, query: Tensor) -> Tensor:
        require_heads(query, len(self.beta))
        return normalize(query, dim=-1, eps=self._least(query)) * self.beta.to(query.dtype)[:, None, None]

    def key_features(self, key: Tensor) -> Tensor:
        return normalize(key, dim=-1, eps=self._least(key))

    def symbol(self, head_dim: int) -> str:
        return "β cos(q, k)"

    def onnx(self, graph: Graph, x: str, *, side: Side) -> str:
        length_one = unit(graph, x, self.eps)
        return graph.op("Mul", length_one, graph.weight(self.beta[:, None, None])) if side == "query" else length_one

    def _least(self, x: Tensor) -> float:
        """`eps`, where the number type holds it: float16 makes 1e-8 a zero, and 0 / 0 is NaN."""
        return max(self.eps, torch.finfo(x.dtype).tiny)

    def extra_repr(self) -> str:
        strength = "learned=True" if isinstance(self.beta, nn.Parameter) else f"beta={float(self.beta[0]):g}"
        heads = f", num_heads={len(self.beta)}" if len(self.beta) > 1 else ""
        return f"{strength}{heads}, eps={self.eps:g}"


@dataclass(frozen=True, kw_only=True)
class GeneralConfig:
    """qᵀ W k (Luong et al. 2015)."""

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> General:
        return General(query_dim=query_dim, key_dim=key_dim, num_heads=num_heads)


@dataclass(frozen=True, kw_only=True)
class CosineConfig:
    """β cos(q, k) (Graves et al. 2014)."""

    beta: float = 1.0
    """The sharpness of the weights: softmax of cosines alone is nearly uniform."""
    learned: bool = False
    """Whether β is trained, one per head, from the number above."""
    eps: float = 1e-8

    def __post_init__(self) -> None:
        require_real(positive=True, eps=self.eps)

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> Cosine:
        require_one_width("Cosine", query_dim, key_dim, JOINING)
        return Cosine(beta=self.beta, learned=self.learned, num_heads=num_heads, eps=self.eps)
