"""Synthesizer: weights that do not depend on keys."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention.attention import Attention
from foveate.attention.check import require_heads, require_made_for, require_self, require_whole
from foveate.attention.mechanism import Site, SiteConfig
from foveate.attention.paths.materialised import MaterialisedPath
from foveate.attention.position import Positions
from foveate.config import require_choices


class Synthetic(nn.Module):
    """A score with a number for every position of the key, up to `max_length`."""

    def __init__(self, num_heads: int, max_length: int) -> None:
        super().__init__()
        self.max_length, self.num_heads = max_length, num_heads

    def rows(self, query: Tensor, at: Positions) -> Float[Tensor, "#batch #heads query max_length"]:
        raise NotImplementedError

    def scores_at(self, query: Tensor, key: Tensor, at: Positions) -> Float[Tensor, "batch heads query key"]:
        places = at.query if at.real is None else torch.where(at.real, at.key, 0)
        last = int(places.max()) if places.numel() else 0
        if last >= self.max_length:
            raise ValueError(
                f"The Synthesizer was built for {self.max_length} positions, but the input reaches position {last}. "
                "Shorten the input, or train with a larger max_length."
            )
        shape = (*query.shape[:3], key.shape[2])
        require_heads(query, self.num_heads)
        rows, columns = self.rows(query, at).to(query.dtype), at.key.clamp(0, self.max_length - 1)
        if columns.shape[:2] == (1, 1):
            return rows[..., columns[0, 0, 0]].expand(shape)
        return rows.expand(*shape[:3], -1).gather(-1, columns.expand(shape))


class DenseSynthetic(Synthetic):
    """score_i = W₂ relu(W₁ x_i + b₁) + b₂, a row of `max_length` numbers from the query alone

    Tay et al. 2021, equation 3. The paper's x_i is the layer's input; ours is the projected query of each head, a
    linear map of it.
    """

    def __init__(self, *, query_dim: int, num_heads: int, max_length: int) -> None:
        super().__init__(num_heads, max_length)
        self.first_weight = nn.Parameter(torch.randn(num_heads, query_dim, query_dim) * query_dim**-0.5)
        self.first_bias = nn.Parameter(torch.zeros(num_heads, 1, query_dim))
        self.second_weight = nn.Parameter(torch.randn(num_heads, query_dim, max_length) * query_dim**-0.5)
        self.second_bias = nn.Parameter(torch.zeros(num_heads, 1, max_length))

    def rows(self, query: Tensor, at: Positions) -> Tensor:
        require_made_for(query, self.first_weight)
        hidden = torch.relu(query @ self.first_weight + self.first_bias)
        return hidden @ self.second_weight + self.second_bias


class RandomSynthetic(Synthetic):
    """score_ij = R_ij, the same for every input: Tay et al. 2021, equation 5, with R trained."""

    def __init__(self, *, num_heads: int, max_length: int) -> None:
        super().__init__(num_heads, max_length)
        self.table = nn.Parameter(torch.randn(num_heads, max_length, max_length))

    def rows(self, query: Tensor, at: Positions) -> Tensor:
        return _rows_at(at, self.table)


class FactorisedSynthetic(Synthetic):
    """score_ij = r_i · s_j with r, s of `rank` numbers, the same for every input: Tay et al. 2021, equation 8."""

    def __init__(self, *, num_heads: int, max_length: int, rank: int) -> None:
        super().__init__(num_heads, max_length)
        self.of_query = nn.Parameter(torch.randn(num_heads, max_length, rank) * rank**-0.25)
        self.of_key = nn.Parameter(torch.randn(num_heads, max_length, rank) * rank**-0.25)

    def rows(self, query: Tensor, at: Positions) -> Tensor:
        return _rows_at(at, self.of_query) @ self.of_key.mT


def _rows_at(at: Positions, table: Float[Tensor, "heads max_length dim"]) -> Float[Tensor, "#batch heads query dim"]:
    """The rows of each head's table at the positions of queries."""
    rows = at.query[..., 0].clamp(0, table.shape[1] - 1)
    if rows.shape[:2] == (1, 1):
        return table[None, :, rows[0, 0]]
    rows = rows.expand(-1, len(table), -1)[..., None].expand(-1, -1, -1, table.shape[-1])
    return table.expand(len(rows), -1, -1, -1).gather(2, rows)


Form = Literal["dense", "random", "factorised"]


@dataclass(frozen=True, kw_only=True)
class SynthesizerConfig(SiteConfig[Attention]):
    """context_i = Σ_j softmax_j(r_i · s_j) v_j: weights depend on the positions alone, or on the query alone

    r, s are trained vectors of `rank` numbers. `form="random"` trains the n × n scores themselves; "dense" computes a
    row of them from the query. All pairs are computed: the formula saves the product of queries and keys, not the n²
    weights. Differs from the paper: a dense row is computed from the projected query of each head, not from the layer's
    input.

    >>> from foveate.attention import everything
    >>> _ = torch.manual_seed(0)
    >>> fixed = SynthesizerConfig(form="random", max_length=8).build(
    ...     query_dim=4, key_dim=4, visibility=everything(), kind="self")
    >>> one, other = torch.randn(2, 1, 1, 3, 4)
    >>> torch.equal(fixed.explain(one, one, one).weights, fixed.explain(other, other, other).weights)
    True

    Reference: Tay et al. 2021, equations 3, 5 and 8.
    """

    form: Form = "factorised"
    """dense: a network of the query; random: a trained table of n × n; factorised: the table as a product."""
    max_length: int = 512
    """The longest sequence, in tokens."""
    rank: int = 8
    """The inner width of the factorised table."""

    def __post_init__(self) -> None:
        require_choices(self)
        require_whole(max_length=self.max_length, rank=self.rank)

    def build_for(self, site: Site) -> Attention:
        require_self("The Synthesizer does not look at keys, so it cannot find anything in another sequence", site.kind)
        score: Synthetic
        if self.form == "dense":
            score = DenseSynthetic(query_dim=site.query_dim, num_heads=site.num_heads, max_length=self.max_length)
        elif self.form == "random":
            score = RandomSynthetic(num_heads=site.num_heads, max_length=self.max_length)
        else:
            score = FactorisedSynthetic(num_heads=site.num_heads, max_length=self.max_length, rank=self.rank)
        return Attention(score, visibility=site.visibility, kind=site.kind, paths=(MaterialisedPath(),))
