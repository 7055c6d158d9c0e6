"""Word2Vec's skip-gram: one vector for each word, independent of its context; with subwords, also for unknown words."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, logsigmoid

from foveate.attention.check import require_positive
from foveate.config.field import setting


@dataclass(frozen=True, kw_only=True)
class SkipGramConfig:
    """Static vectors of words."""

    dim: int = setting(100, "of the vectors")
    negatives: int = setting(5, "random words for each real neighbour")

    def __post_init__(self) -> None:
        require_positive(dim=self.dim, negatives=self.negatives)

    def build(self, pieces: int, words: int) -> "SkipGram":
        """The model for a number of pieces, which words consist of, and a number of words that may be neighbours."""
        return SkipGram(self, pieces, words)


class SkipGram(nn.Module):
    """loss = −log σ(v_c · u_w) − Σ_k log σ(−v_k · u_w),  u_w = mean of the vectors of w's pieces

    Training distinguishes a neighbour c of the word w from random words k. If every word is one piece, this is plain
    Word2Vec; with n-grams of letters as additional pieces, unknown words have vectors too. Bojanowski et al. use the
    sum of the pieces, which differs in length only.

    Reference: Mikolov et al. 2013 (Distributed representations), equation 4; Bojanowski et al. 2017, section 3.2.
    """

    def __init__(self, config: SkipGramConfig, pieces: int, words: int) -> None:
        super().__init__()
        self.config = config
        self.pieces = nn.Parameter(torch.empty(pieces, config.dim).uniform_(-0.5 / config.dim, 0.5 / config.dim))
        self.near = nn.Parameter(torch.zeros(words, config.dim))

    def forward(
        self,
        pieces: Int[Tensor, " all_pieces"],
        starts: Int[Tensor, " pairs"],
        near: Int[Tensor, " pairs"],
        drawn: Int[Tensor, "pairs negatives"],
    ) -> Float[Tensor, ""]:
        """The summed loss of pairs, from the pieces of all words, the neighbour of each word, and random words."""
        word = self.vectors(pieces, starts)
        right = (word * self.near[near]).sum(-1)
        wrong = torch.einsum("pd,pkd->pk", word, self.near[drawn])
        return -(logsigmoid(right).sum() + logsigmoid(-wrong).sum())

    def vectors(self, pieces: Int[Tensor, " all_pieces"], starts: Int[Tensor, " words"]) -> Float[Tensor, "words dim"]:
        """The vectors of words, from their pieces; zero for a word without pieces."""
        return embedding_bag(pieces, self.pieces, starts, mode="mean")

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
