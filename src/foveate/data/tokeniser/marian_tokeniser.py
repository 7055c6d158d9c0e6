"""The source or target tokeniser of a Marian folder, as published by OPUS-MT, with our ids for special tokens."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from foveate.data.text import normalise
from foveate.data.tokeniser.subword import offsets, processor
from foveate.data.tokeniser.tokeniser import EOS, SPECIALS, UNKNOWN, Tokeniser, require_known
from foveate.errors import DataError
from foveate.storage.manifest import read_json

LANGUAGE = re.compile(r">>[^<]+<<")
"""The beginning of a text that selects the target language: ">>fr<< Good morning"."""


MOST = 10_000_000
"""The limit on the number of pieces in a vocabulary."""


class MarianTokeniser(Tokeniser):
    """Pieces of a SentencePiece model, with the ids of a separate vocabulary, which both sides may share.

    Marian vocabularies begin with the end token, and padding is last. Here the special ids are 0 to 3, like in all
    tokenisers, and the others follow in their order (`order_of`).
    """

    kind: ClassVar[str] = "marian"

    def __init__(self, model: bytes, symbols: Sequence[str]) -> None:
        self.model, self.symbols = model, tuple(symbols)
        self._processor = processor(model)
        self._labels = (*SPECIALS, *self.symbols)
        self.vocab_size = len(self._labels)
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols, start=len(SPECIALS))}

    @classmethod
    def read(cls, folder: Path | str, side: Literal["source", "target"], *, pad: int, end: int) -> "MarianTokeniser":
        """`pad` and `end` are the ids in `config.json`. Raises DataError for missing or damaged files."""
        folder = Path(folder)
        path = folder / f"{side}.spm"
        if not path.exists():
            raise DataError(f"{folder} has no {path.name}. Download it too: it splits the {side} text into pieces.")
        vocab = vocabulary(folder, side)
        labels = {number: piece for piece, number in vocab.items()}
        rest = order_of(vocab, pad=pad, end=end)[len(SPECIALS) :]
        try:
            return cls(path.read_bytes(), [labels.get(number, f"<{number}>") for number in rest])
        except (DataError, RuntimeError):
            raise DataError(
                f"{path} is not a SentencePiece model, or it is damaged. Download the folder again."
            ) from None

    def encode(self, text: str) -> list[int]:
        text = normalise(text)
        code = LANGUAGE.match(text)
        pieces = [] if code is None else [code[0]]
        pieces += self._processor.encode(text if code is None else text[code.end() :], out_type=str)
        return [self._ids.get(piece, UNKNOWN) for piece in pieces]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The start and end character of each piece, in Unicode normal form C of the text."""
        text = normalise(text)
        code = LANGUAGE.match(text)
        start = 0 if code is None else code.end()
        parts = offsets(self._processor, text[start:])
        return [*([] if code is None else [code.span()]), *((start + first, start + last) for first, last in parts)]

    def surfaces(self, text: str) -> list[str]:
        text = normalise(text)
        return [text[first:last] for first, last in self.spans(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """An unknown piece is shown as <unk>."""
        pieces = [self._labels[token] for token in require_known(ids, self.vocab_size) if token > EOS]
        return str(self._processor.decode_pieces(pieces)).replace("▁", " ").strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._labels[token] for token in require_known(ids, self.vocab_size)]

    def content(self) -> dict[str, Any]:
        return {"model": base64.b64encode(self.model).decode("ascii"), "symbols": list(self.symbols)}


def vocabulary(folder: Path, side: Literal["source", "target"]) -> dict[str, int]:
    """The id of each piece in the embedding of a side."""
    own = folder / "target_vocab.json"
    path = own if side == "target" and own.exists() else folder / "vocab.json"
    if not path.exists():
        raise DataError(f"{folder} has no {path.name}. Download it too: it contains the ids of pieces.")
    numbers = read_json(path)
    if not numbers or not all(type(number) is int and 0 <= number < MOST for number in numbers.values()):
        raise DataError(f"{path} is not a vocabulary: it must map each piece to a number. Download the folder again.")
    return {str(piece): number for piece, number in numbers.items()}


def order_of(vocab: Mapping[str, int], *, pad: int, end: int) -> list[int]:
    """The original id of each of our ids. The begin token is the padding of Marian.

    >>> order_of({"</s>": 0, "<unk>": 1, "▁a": 2, "▁b": 3, "<pad>": 4}, pad=4, end=0)
    [4, 4, 0, 1, 2, 3]
    """
    unknown = vocab.get("<unk>")
    if unknown is None:
        raise DataError("The vocabulary of this Marian folder has no <unk>. Fetch the folder again.")
    special = [pad, pad, end, unknown]
    return [*special, *(number for number in range(max(*vocab.values(), pad) + 1) if number not in special)]
