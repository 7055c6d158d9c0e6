"""Linear attention: the exponential of a product is replaced by a product of positive features."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.attention.check import require_equal_width, require_one_width
from foveate.attention.efficient.kernel import KernelAttention
from foveate.attention.normaliser import Proportional
from foveate.attention.score import Product
from foveate.attention.visibility import Visibility


@dataclass(frozen=True, kw_only=True)
class Elu:
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

    def compare(
        self,
        query_features: Float[Tensor, "batch heads query dim"],
        key_features: Float[Tensor, "batch heads key dim"],
    ) -> Float[Tensor, "batch heads query key"]:
        require_equal_width("Linear attention", query_features, key_features)
        return query_features @ key_features.mT

    def form(self) -> Product:
        return Product(self.query_features, self.key_features)

    def symbol(self, head_dim: int) -> str:
        return "φ(q)·φ(k)"

    def __call__(
        self, query: Float[Tensor, "batch heads query dim"], key: Float[Tensor, "batch heads key dim"]
    ) -> Float[Tensor, "batch heads query key"]:
        return self.compare(self.query_features(query), self.key_features(key))


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
class LinearConfig:
    """Linear attention with φ(x) = elu(x) + 1 (Katharopoulos et al. 2020)."""

    eps: float = 0.0
    """Added to the sum of each row before dividing by it."""

    def __post_init__(self) -> None:
        Proportional(eps=self.eps)

    def build(
        self,
        *,
        query_dim: int,
        key_dim: int,
        num_heads: int = 1,
        visibility: Visibility,
        kind: Literal["self", "cross"],
    ) -> LinearAttention:
        require_one_width("Linear attention", query_dim, key_dim)
        return LinearAttention(eps=self.eps, visibility=visibility, kind=kind)
