"""Tokenises text as UTF-8 bytes: without training, without unknown tokens, in any language."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from foveate.data.text import normalise
from foveate.data.tokeniser.tokeniser import EOS, SPECIALS, Tokeniser, require_known

FIRST = len(SPECIALS)


@dataclass(frozen=True, kw_only=True)
class ByteConfig:
    """Bytes of UTF-8: 260 ids, none unknown."""

    def train(self, lines: Iterable[str]) -> "ByteTokeniser":
        """The lines are ignored."""
        return ByteTokeniser()


class ByteTokeniser(Tokeniser):
    """One id per byte: 4 + its value.

    >>> ByteTokeniser().encode("né"), ByteTokeniser().pieces(ByteTokeniser().encode("né"))
    ([114, 199, 173], ['n', '<0xC3>', '<0xA9>'])
    """

    kind: ClassVar[str] = "byte"
    vocab_size: int = FIRST + 256

    def encode(self, text: str) -> list[int]:
        return [FIRST + byte for byte in normalise(text).encode("utf-8")]

    def decode(self, ids: Iterable[int]) -> str:
        """Invalid UTF-8, which a model may generate, is shown as �."""
        # 0xFF occurs in no UTF-8 text, so an unknown id becomes �.
        known = (max(token - FIRST, -1) % 256 for token in require_known(ids, self.vocab_size) if token > EOS)
        return bytes(known).decode("utf-8", "replace")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [SPECIALS[i] if i < FIRST else _label(i - FIRST) for i in require_known(ids, self.vocab_size)]

    def content(self) -> dict[str, Any]:
        return {}


def _label(byte: int) -> str:
    return chr(byte) if byte < 0x80 else f"<0x{byte:02X}>"
