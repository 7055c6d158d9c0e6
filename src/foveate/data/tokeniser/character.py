"""Tokenises text as characters: small vocabularies, long sequences, good for spelling."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from foveate.config import setting
from foveate.data.text import normalise
from foveate.data.tokeniser.tokeniser import EOS, SPECIALS, UNKNOWN, Tokeniser, require_known, require_symbols


@dataclass(frozen=True, kw_only=True)
class CharacterConfig:
    """Characters (Unicode code points in normal form C)."""

    min_count: int = setting(1, "characters that are less frequent are unknown")

    def train(self, lines: Iterable[str]) -> "CharacterTokeniser":
        return CharacterTokeniser.train(lines, min_count=self.min_count)


class CharacterTokeniser(Tokeniser):
    """One id per character, the most frequent first.

    >>> tokeniser = CharacterTokeniser.train(["banana"])
    >>> tokeniser.encode("ban!"), tokeniser.pieces(tokeniser.encode("ban!"))
    ([6, 4, 5, 3], ['b', 'a', 'n', '<unk>'])
    """

    kind: ClassVar[str] = "character"

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = tuple(symbols)
        self.vocab_size = len(SPECIALS) + len(self.symbols)
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols, start=len(SPECIALS))}
        self._labels = (*SPECIALS, *self.symbols)

    @classmethod
    def train(cls, lines: Iterable[str], *, min_count: int = 1) -> "CharacterTokeniser":
        """Learn the vocabulary. Raises DataError if the lines have no character."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(normalise(line))
        symbols = frequent(counts, min_count=min_count)
        require_symbols(symbols, "character")
        return cls(symbols)

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(character, UNKNOWN) for character in normalise(text)]

    def surfaces(self, text: str) -> list[str]:
        return list(normalise(text))

    def decode(self, ids: Iterable[int]) -> str:
        """An unknown character is shown as �."""
        known = (token for token in require_known(ids, self.vocab_size) if token > EOS)
        return "".join("�" if token == UNKNOWN else self._labels[token] for token in known)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._labels[token] for token in require_known(ids, self.vocab_size)]

    def content(self) -> dict[str, Any]:
        return {"symbols": list(self.symbols)}


def frequent(counts: Counter[str], *, min_count: int, most: int | None = None) -> list[str]:
    """Symbols by decreasing count; equal counts are in code point order, so that the vocabulary is reproducible."""
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [symbol for symbol, count in order[:most] if count >= min_count]
