"""Joins one or two texts of a line in the format of BERT: [begin] A [end] B [end], with segments."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxtyping import Int
from torch import Tensor

from foveate.data.text import read_lines
from foveate.data.tokeniser import EOS, Tokeniser
from foveate.errors import DataError

TAB = "\t"
_PLACE = ("first", "second")


class Segmented(NamedTuple):
    """The texts of a line: none, one, or the two of a pair."""

    line: int
    texts: tuple[str, ...]


def segments(ids: Int[Tensor, "batch length"], *, kinds: int = 2, end: int = EOS) -> Int[Tensor, "batch length"]:
    """The segment of each token: 0 up to and including the first end, then 1.

    Segments follow from the tokens and are therefore not stored. For a model with one kind, all are 0.

    >>> import torch
    >>> segments(torch.tensor([[1, 7, 8, 2, 9, 2], [1, 7, 2, 0, 0, 0]])).tolist()
    [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]
    """
    ends = ids == end
    return (ends.cumsum(1) - ends.long()).clamp(max=min(kinds, 2) - 1)


def joined(texts: Sequence[str], tokeniser: Tokeniser) -> list[int]:
    """The tokens of texts, each with an end; none if all texts are empty.

    >>> from foveate.data.tokeniser import CharacterTokeniser
    >>> joined(["ab", "a"], CharacterTokeniser.train(["ab"]))
    [4, 5, 2, 4, 2]
    """
    rows = [tokeniser.encode(text) if text.strip() else [] for text in texts]
    return [token for row in rows for token in (*row, EOS)] if any(rows) else []


def split(text: str, *, where: str = "The text", needed: bool = False) -> tuple[str, ...]:
    """The two texts of a pair with a tab between them; or one text without a tab, unless a pair is `needed`.

    >>> split("Where is it?\\tOn the table.")
    ('Where is it?', 'On the table.')

    Raises DataError for more than two texts, and if one of two is empty.
    """
    texts = tuple(text.split(TAB))
    if len(texts) > 2 or (needed and len(texts) < 2):
        raise DataError(
            f"{where} has {len(texts)} part{'s' if len(texts) > 1 else ''} with tabs between them, but this model "
            f"reads {'two' if needed else 'one text, or two'}. Write the pair with one tab between its texts."
        )
    return _whole(texts, where) if len(texts) == 2 else texts


def segmented(number: int, line: str, columns: tuple[int, int], path: str) -> Segmented:
    """A line of a file: a pair in these columns (counted from 0), or one text without a tab. Raises DataError."""
    cells, needed = line.split(TAB), max(columns) + 1
    if len(cells) == 1:
        return Segmented(number, (line,) if line.strip() else ())
    if len(cells) != needed:
        raise DataError(
            f"{path}:{number}: the line has {len(cells)} columns with tabs between them, but segments = "
            f"{list(columns)} asks for {needed}. Write a pair in {needed} columns, or one text without a tab."
        )
    return Segmented(number, _whole((cells[columns[0]], cells[columns[1]]), f"{path}:{number}: the line"))


def read_segmented(path: str, columns: tuple[int, int]) -> Iterator[Segmented]:
    """The lines of a file, each a pair or one text. Raises DataError like `segmented`, with file and line."""
    return (segmented(number, line, columns, path) for number, line in enumerate(read_lines(path), start=1))


def _whole(texts: tuple[str, ...], where: str) -> tuple[str, ...]:
    for place, text in zip(_PLACE, texts, strict=True):
        if not text.strip():
            raise DataError(
                f"{where} has an empty {place} text. Write two texts with a tab between them, or one without a tab."
            )
    return texts
