"""Keeps the weights of a translator when it gets another vocabulary, such as that of other languages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.data.tokeniser import LanguageTokeniser, Tokeniser
from foveate.data.tokeniser.tokeniser import SPECIALS
from foveate.errors import UsageError

SOURCE_TABLES = ("source_embedding.weight",)
TARGET_TABLES = ("target_embedding.weight", "output.weight", "output_weight", "output.bias")
"""Parameters with a row for each token. Models that share one vocabulary have only tables of the target."""


class Sides(NamedTuple):
    """The tokenisers of a translator."""

    source: Tokeniser
    target: Tokeniser


@dataclass(frozen=True)
class TransferReport:
    """The numbers of tokens of a new vocabulary by their first vectors.

    >>> print(TransferReport(tokens=12_005, same=3_778, composed=2_711))
    Of 12,005 tokens, 3,778 keep their vectors, 2,711 begin with the mean of shorter pieces, and 5,516 are new.
    """

    tokens: int
    same: int
    composed: int

    def __str__(self) -> str:
        return (
            f"Of {self.tokens:,} tokens, {self.same:,} keep their vectors, {self.composed:,} begin with the mean of "
            f"shorter pieces, and {self.tokens - self.same - self.composed:,} are new."
        )


def transfer_vocabulary(
    weights: Mapping[str, Tensor], initial: Mapping[str, Tensor], before: Sides, after: Sides
) -> tuple[dict[str, Tensor], dict[str, TransferReport]]:
    """The weights of a trained translator with the rows of another vocabulary, and how each side's tokens begin.

    A token that both vocabularies have keeps its row. Another one that pieces of the earlier vocabulary spell begins
    with the mean of their rows (Gee et al. 2022, "Fast Vocabulary Transfer for Language Model Compression", section 3),
    and any other with its row of `initial`, the weights that the new model would begin with. All other weights are
    kept: a second language pair needs less training than the first (Kocmi and Bojar 2018, "Trivial Transfer Learning
    for Low-Resource Neural Machine Translation").

    Raises UsageError if the two models do not have the same tables, because they share their vocabularies differently
    or have other widths.
    """
    weights_after = dict(weights)
    reports: dict[str, TransferReport] = {}
    for side, tables in (("source", SOURCE_TABLES), ("target", TARGET_TABLES)):
        names = [name for name in tables if name in initial]
        if names != [name for name in tables if name in weights]:
            raise UsageError(
                "The earlier model and the new one share their vocabularies differently. Set model.share as in the "
                "earlier run, or leave the model's settings out."
            )
        if not names:
            continue
        for name in names:
            if weights[name].shape[1:] != initial[name].shape[1:]:
                raise UsageError(
                    f"The vectors of the earlier model's tokens have {weights[name].shape[1]} numbers, those of the "
                    f"new one {initial[name].shape[1]}. Leave the model's settings out: its width cannot change."
                )
        rows, reports[f"{side} vocabulary"] = _earlier_rows(getattr(before, side), getattr(after, side))
        weights_after |= {name: _table(weights[name], initial[name], rows) for name in names}
    return weights_after, reports


def _earlier_rows(before: Tokeniser, after: Tokeniser) -> tuple[dict[int, list[int]], TransferReport]:
    """The earlier rows whose mean each new token begins with; tokens without any are left out."""
    numbers = {label: token for token, label in enumerate(_labels(before))}
    pieces = {label: numbers[label] for label in _texts(before)}
    composable = _texts(after)
    rows: dict[int, list[int]] = {}
    same = 0
    for token, label in enumerate(_labels(after)):
        if label in numbers:
            rows[token] = [numbers[label]]
            same += 1
        elif label in composable and (shorter := _composed(label, pieces)):
            rows[token] = shorter
    return rows, TransferReport(after.vocab_size, same, len(rows) - same)


def _labels(tokeniser: Tokeniser) -> list[str]:
    """The pieces of a vocabulary, which has one kind of space: SentencePiece writes ▁ for it."""
    return [label.replace(" ", "▁") for label in tokeniser.pieces(range(tokeniser.vocab_size))]


def _texts(tokeniser: Tokeniser) -> set[str]:
    """The pieces that are text: not those for control, bytes of rare characters, and tags of languages."""
    inner = tokeniser.inner if isinstance(tokeniser, LanguageTokeniser) else tokeniser
    labels = _labels(inner)
    return {labels[token] for token in range(len(SPECIALS), inner.vocab_size) if not inner.unknown(token)}


def _composed(text: str, pieces: Mapping[str, int]) -> list[int]:
    """The tokens that spell a text, always with the longest piece that fits; none where none fits."""
    tokens: list[int] = []
    while text:
        length = next((length for length in range(len(text), 0, -1) if text[:length] in pieces), None)
        if length is None:
            return []
        tokens.append(pieces[text[:length]])
        text = text[length:]
    return tokens


def _table(
    weight: Float[Tensor, "before ..."], initial: Float[Tensor, "after ..."], rows: Mapping[int, list[int]]
) -> Float[Tensor, "after ..."]:
    """The initial rows, replaced by means of earlier ones."""
    table = initial.detach().clone()
    for token, earlier in rows.items():
        table[token] = weight[torch.tensor(earlier)].to(table).mean(0)
    return table
