"""Scores that are products of vectors: dot, scaled dot, general."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.check import require_equal_width, require_made_for, require_real, require_whole
from foveate.attention.onnx import Graph, Side
from foveate.attention.score.form import Product, ProductScore
from foveate.attention.score.score import project


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
        """What multiplies q · k."""
        return 1.0

    def query_features(self, query: Float[Tensor, "batch heads query dim"]) -> Float[Tensor, "batch heads query dim"]:
        return query * self.factor(query.shape[-1])

    def key_features(self, key: Float[Tensor, "batch heads key dim"]) -> Float[Tensor, "batch heads key dim"]:
        return key

    def compare(
        self,
        query_features: Float[Tensor, "batch heads query query_dim"],
        key_features: Float[Tensor, "batch heads key key_dim"],
    ) -> Float[Tensor, "batch heads query key"]:
        require_equal_width(type(self).__name__, query_features, key_features)
        return query_features @ key_features.mT

    def __call__(
        self, query: Float[Tensor, "batch heads query query_dim"], key: Float[Tensor, "batch heads key key_dim"]
    ) -> Float[Tensor, "batch heads query key"]:
        return self.compare(self.query_features(query), self.key_features(key))

    def form(self) -> Product:
        return Product(None, None, self.factor)

    def symbol(self, head_dim: int) -> str:
        return "q·k"

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> "Dot":
        """Itself: there is nothing to learn."""
        if query_dim != key_dim:
            raise ValueError(
                f"{type(self).__name__} needs queries and keys of one width, got {query_dim} and {key_dim}. "
                'Choose equal widths, or the score "general" or "additive", which learn to join different ones.'
            )
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
        self.weight = nn.Parameter(torch.empty(num_heads, query_dim, key_dim))
        nn.init.uniform_(self.weight, -(key_dim**-0.5), key_dim**-0.5)

    def query_features(self, query: Float[Tensor, "batch heads query dim"]) -> Float[Tensor, "batch heads query dim"]:
        require_made_for(query, self.weight)
        return query

    def key_features(self, key: Float[Tensor, "batch heads key key_dim"]) -> Float[Tensor, "batch heads key query_dim"]:
        return project(key, self.weight.mT)

    def symbol(self, head_dim: int) -> str:
        return "qᵀ W k"

    def onnx(self, graph: Graph, x: str, *, side: Side) -> str:
        return x if side == "query" else graph.op("MatMul", x, graph.weight(self.weight.mT))

    def extra_repr(self) -> str:
        num_heads, query_dim, key_dim = self.weight.shape
        return f"query_dim={query_dim}, key_dim={key_dim}, num_heads={num_heads}"


@dataclass(frozen=True, kw_only=True)
class GeneralConfig:
    """qᵀ W k (Luong et al. 2015)."""

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> General:
        return General(query_dim=query_dim, key_dim=key_dim, num_heads=num_heads)
