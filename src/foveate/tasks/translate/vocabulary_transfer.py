"""Keeps the weights of a translator when it gets another vocabulary, such as that of other languages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.data.tokeniser import Tokeniser
from foveate.errors import UsageError

SOURCE_TABLES = ("source_embedding.weight",)
TARGET_TABLES = ("target_embedding.weight", "output.weight", "output_weight", "output.bias")
"""Parameters with a row for each token. Models that share one vocabulary have only tables of the target."""


class Sides(NamedTuple):
    """The tokenisers of a translator."""

    source: Tokeniser
    target: Tokeniser


@dataclass(frozen=True)
class Kept:
    """How the tokens of a new vocabulary begin.

    >>> print(Kept(tokens=12_005, same=4_210, spelt=1_020))
    Of 12,005 tokens 4,210 keep their vectors, 1,020 begin with the mean of the pieces that spell them, 6,775 are new.
    """

    tokens: int
    same: int
    spelt: int

    def __str__(self) -> str:
        return (
            f"Of {self.tokens:,} tokens {self.same:,} keep their vectors, {self.spelt:,} begin with the mean of the "
            f"pieces that spell them, {self.tokens - self.same - self.spelt:,} are new."
        )


def transferred(
    weights: Mapping[str, Tensor], fresh: Mapping[str, Tensor], before: Sides, after: Sides
) -> tuple[dict[str, Tensor], dict[str, Kept]]:
    """The weights of a trained translator with the rows of another vocabulary, and how each side's tokens begin.

    A token that both vocabularies have keeps its row. Another one that the earlier tokeniser spells in known pieces
    begins with the mean of their rows (Gee et al. 2022, "Fast Vocabulary Transfer for Language Model Compression",
    section 3), and any other with its row of `fresh`, the initial weights of the new model. All other weights are kept:
    attention learns a second language pair faster than its first (Kocmi and Bojar 2018, "Trivial Transfer Learning for
    Low-Resource Neural Machine Translation").

    Raises UsageError if both have not the same tables, because the models share their vocabularies differently.
    """
    found = dict(weights)
    report: dict[str, Kept] = {}
    for side, tables in (("source", SOURCE_TABLES), ("target", TARGET_TABLES)):
        names = [name for name in tables if name in fresh]
        if names != [name for name in tables if name in weights]:
            raise UsageError(
                f"The vocabularies of the earlier model have other tables on the {side} side than the new one's: set "
                "model.share and joint_vocabulary as in that run, or leave them out."
            )
        if not names:
            continue
        rows, report[f"{side} vocabulary"] = _rows(getattr(before, side), getattr(after, side))
        found |= {name: _filled(weights[name], fresh[name], rows) for name in names}
    return found, report


def _rows(before: Tokeniser, after: Tokeniser) -> tuple[dict[int, list[int]], Kept]:
    """The earlier rows whose mean each new token begins with; tokens without any are left out."""
    numbers = {piece: token for token, piece in enumerate(before.pieces(range(before.vocab_size)))}
    rows: dict[int, list[int]] = {}
    same = spelt = 0
    for token, piece in enumerate(after.pieces(range(after.vocab_size))):
        if piece in numbers:
            rows[token] = [numbers[piece]]
            same += 1
        elif pieces := _spelt(before, piece):
            rows[token] = pieces
            spelt += 1
    return rows, Kept(after.vocab_size, same, spelt)


def _spelt(tokeniser: Tokeniser, piece: str) -> list[int]:
    """The tokens of an earlier vocabulary that spell a piece; none if it lacks a part of it."""
    inner = getattr(tokeniser, "inner", tokeniser)  # without a tag of the language
    tokens = inner.encode(piece.replace("▁", " ").strip())
    return [] if any(map(inner.unknown, tokens)) else tokens


def _filled(
    weight: Float[Tensor, "before ..."], fresh: Float[Tensor, "after ..."], rows: Mapping[int, list[int]]
) -> Float[Tensor, "after ..."]:
    """The fresh rows, replaced by means of earlier ones."""
    filled = fresh.detach().clone()
    for token, earlier in rows.items():
        filled[token] = weight[torch.tensor(earlier)].to(filled).mean(0)
    return filled
