"""Content-based addressing: how much two vectors point the same way."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from foveate.attention.check import require_heads, require_real, require_whole
from foveate.attention.onnx import Graph, Side, unit
from foveate.attention.score.form import ProductScore


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
        self.eps = eps

    def query_features(self, query: Float[Tensor, "batch heads query dim"]) -> Float[Tensor, "batch heads query dim"]:
        require_heads(query, len(self.beta))
        return normalize(query, dim=-1, eps=self._least(query)) * self.beta[:, None, None]

    def key_features(self, key: Float[Tensor, "batch heads key dim"]) -> Float[Tensor, "batch heads key dim"]:
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
class CosineConfig:
    """β cos(q, k) (Graves et al. 2014)."""

    beta: float = 1.0
    """How sharp: softmax of cosines alone is nearly uniform."""
    learned: bool = False
    """Whether β is trained, one per head, from the number above."""
    eps: float = 1e-8

    def __post_init__(self) -> None:
        if self.eps <= 0:
            raise ValueError(f"eps={self.eps} must be positive: it keeps a vector of zeros from dividing by zero")

    def build(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> Cosine:
        if query_dim != key_dim:
            raise ValueError(
                f"Cosine needs queries and keys of one width, got {query_dim} and {key_dim}. "
                'Choose equal widths, or the score "general" or "additive", which learn to join different ones.'
            )
        return Cosine(beta=self.beta, learned=self.learned, num_heads=num_heads, eps=self.eps)
