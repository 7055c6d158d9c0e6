"""Tokenises text as words, or as other symbols with white space between them: phones, tags, digits."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from foveate.config import setting
from foveate.data.text import normalise
from foveate.data.tokeniser.character import frequent
from foveate.data.tokeniser.tokeniser import EOS, SPECIALS, UNKNOWN, Tokeniser, require_known, require_symbols


@dataclass(frozen=True, kw_only=True)
class WordConfig:
    """Symbols between white space: words of tokenised text, phones, tags."""

    vocab_size: int | None = setting(
        None, "maximum number of ids, including 4 special ones; none: every word gets an id"
    )
    min_count: int = setting(1, "words that are less frequent are unknown")
    lowercase: bool = setting(False, "ignore the case of letters")

    def __post_init__(self) -> None:
        if self.vocab_size is not None and self.vocab_size <= len(SPECIALS):
            raise ValueError(f"vocab_size must be at least {len(SPECIALS) + 1}, got {self.vocab_size}")

    def train(self, lines: Iterable[str]) -> "WordTokeniser":
        return WordTokeniser.train(
            lines, vocab_size=self.vocab_size, min_count=self.min_count, lowercase=self.lowercase
        )


class WordTokeniser(Tokeniser):
    """One id per word, the most frequent first. Decoding puts one space between words, whatever the text had.

    >>> phones = WordTokeniser.train(["B AH N AE N AH"])
    >>> phones.encode("B AE N"), phones.decode([4, 5])
    ([7, 6, 5], 'AH N')
    """

    kind: ClassVar[str] = "word"

    def __init__(self, symbols: Sequence[str], *, lowercase: bool = False) -> None:
        self.symbols = tuple(symbols)
        self.lowercase = lowercase
        self.vocab_size = len(SPECIALS) + len(self.symbols)
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols, start=len(SPECIALS))}
        self._labels = (*SPECIALS, *self.symbols)

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int | None = None, min_count: int = 1, lowercase: bool = False
    ) -> "WordTokeniser":
        """Learn the vocabulary. Raises DataError if the lines have no word."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(_split(line, lowercase))
        most = None if vocab_size is None else vocab_size - len(SPECIALS)
        symbols = frequent(counts, min_count=min_count, most=most)
        require_symbols(symbols, "word")
        return cls(symbols, lowercase=lowercase)

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(word, UNKNOWN) for word in _split(text, self.lowercase)]

    def surfaces(self, text: str) -> list[str]:
        return normalise(text).split()

    def decode(self, ids: Iterable[int]) -> str:
        """An unknown word is shown as <unk>."""
        return " ".join(self._labels[token] for token in require_known(ids, self.vocab_size) if token > EOS)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._labels[token] for token in require_known(ids, self.vocab_size)]

    def content(self) -> dict[str, Any]:
        return {"symbols": list(self.symbols), "lowercase": self.lowercase}


def _split(text: str, lowercase: bool) -> list[str]:
    text = normalise(text)
    # Lower case may not be in normal form C, for example that of "İ".
    return normalise(text.lower()).split() if lowercase else text.split()
