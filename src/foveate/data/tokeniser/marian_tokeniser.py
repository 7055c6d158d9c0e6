"""One side's tokeniser of a Marian folder, as the OPUS-MT project publishes them, with our numbers for special ids."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Literal

from foveate.data.text import normalise
from foveate.data.tokeniser.subword import processor, surfaces
from foveate.data.tokeniser.tokeniser import EOS, SPECIALS, UNKNOWN, Tokeniser, require_known
from foveate.errors import DataError
from foveate.storage.manifest import read_json

LANGUAGE = re.compile(r">>[^<]+<<")
"""How a text begins that says which language it wants: ">>fr<< Good morning"."""


MOST = 10_000_000
"""No vocabulary numbers so many pieces."""


class MarianTokeniser(Tokeniser):
    """Pieces by a SentencePiece model, numbered by a vocabulary of their own that both sides may share.

    Marian folders number pieces in their order, with the end first and the padding last; here the special ids are 0 to
    3 as everywhere, and the others follow in their order (`order_of`).
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
        """`pad` and `end` are ids as `config.json` says them. Raises DataError when files are missing or damaged."""
        folder = Path(folder)
        path = folder / f"{side}.spm"
        if not path.exists():
            raise DataError(f"{folder} has no {path.name}. Fetch it too: it cuts the {side} text into pieces.")
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
        """The first character of each piece and the first behind it, in the text's Unicode form C."""
        text = normalise(text)
        code = LANGUAGE.match(text)
        parts = [] if code is None else [code[0]]
        rest = text if code is None else text[code.end() :]
        parts += surfaces(self._processor, rest)
        ends = list(accumulate(map(len, parts)))
        return list(zip([0, *ends[:-1]], ends, strict=True)) if ends else []

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
    """Piece by piece the number that a side's embedding has for it."""
    own = folder / "target_vocab.json"
    path = own if side == "target" and own.exists() else folder / "vocab.json"
    if not path.exists():
        raise DataError(f"{folder} has no {path.name}. Fetch it too: it numbers the pieces of text.")
    numbers = read_json(path)
    if not numbers or not all(type(number) is int and 0 <= number < MOST for number in numbers.values()):
        raise DataError(f"{path} is not a vocabulary: it must map each piece to a number. Download the folder again.")
    return {str(piece): number for piece, number in numbers.items()}


def order_of(vocab: Mapping[str, int], *, pad: int, end: int) -> list[int]:
    """Their number of each of our ids. What a decoder begins with is their padding.

    >>> order_of({"</s>": 0, "<unk>": 1, "▁a": 2, "▁b": 3, "<pad>": 4}, pad=4, end=0)
    [4, 4, 0, 1, 2, 3]
    """
    unknown = vocab.get("<unk>")
    if unknown is None:
        raise DataError("The vocabulary of this Marian folder has no <unk>. Fetch the folder anew.")
    special = [pad, pad, end, unknown]
    return [*special, *(number for number in range(max(*vocab.values(), pad) + 1) if number not in special)]
