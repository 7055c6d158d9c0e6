"""Tokenisers convert text to ids and back: bytes, characters, words, pieces of words."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from foveate.config import build
from foveate.data.tokeniser.bert_tokeniser import BERTTokeniser
from foveate.data.tokeniser.byte import ByteConfig, ByteTokeniser
from foveate.data.tokeniser.character import CharacterConfig, CharacterTokeniser
from foveate.data.tokeniser.hugging_face_tokeniser import HuggingFaceTokeniser
from foveate.data.tokeniser.language_tokeniser import LanguageTokeniser
from foveate.data.tokeniser.marian_tokeniser import MarianTokeniser
from foveate.data.tokeniser.subword import SentencePieceConfig, SentencePieceTokeniser
from foveate.data.tokeniser.tokeniser import BOS, EOS, PAD, SPECIALS, UNKNOWN, Tokeniser, read_content
from foveate.data.tokeniser.word_tokeniser import WordConfig, WordTokeniser
from foveate.errors import DataError, SetupError

TokeniserConfig = ByteConfig | CharacterConfig | WordConfig | SentencePieceConfig
"""The tokenisers that a configuration can name: "byte", "character", "word", "sentencepiece"."""


def load_tokeniser(path: Path | str) -> Tokeniser:
    """Read the tokeniser that `save` wrote.

    Raises DataError if the file is missing, damaged or changed, SetupError if a package is missing.
    """
    kind, content = read_content(Path(path))
    if kind not in _CONTENTS:
        raise DataError(f"{path} holds a tokeniser of the kind {kind!r}, which this version of foveate does not know.")
    try:
        return _made(kind, content)
    except SetupError:
        raise
    except Exception as error:  # tokenizers raises Exception itself, sentencepiece RuntimeError, base64 ValueError
        raise DataError(f"{path} holds no {kind} tokeniser: {error} Restore it from a copy of the run.") from None


def _made(kind: str, content: dict[str, Any]) -> Tokeniser:
    schema, make = _CONTENTS[kind]
    return make(build(schema, content))


@dataclass(frozen=True, kw_only=True)
class _Nothing:
    """The content of a tokeniser without a vocabulary."""


@dataclass(frozen=True, kw_only=True)
class _Symbols:
    symbols: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Words(_Symbols):
    lowercase: bool


@dataclass(frozen=True, kw_only=True)
class _Pieces:
    model: str
    """A SentencePiece model in base 64."""

    @property
    def decoded(self) -> bytes:
        return base64.b64decode(self.model, validate=True)


@dataclass(frozen=True, kw_only=True)
class _Numbered(_Pieces):
    symbols: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Foreign:
    inner: dict[str, Any]
    names: dict[str, str]

    @property
    def content(self) -> dict[str, Any]:
        return {"inner": self.inner, "names": self.names}


@dataclass(frozen=True, kw_only=True)
class _Tagged:
    inner: dict[str, Any]
    directions: tuple[str, ...]
    side: Literal["source", "target"]

    @property
    def tokeniser(self) -> LanguageTokeniser:
        inner = _made(self.inner["kind"], self.inner["content"])
        return LanguageTokeniser(inner, self.directions, side=self.side)


_CONTENTS: dict[str, tuple[type, Callable[[Any], Tokeniser]]] = {
    ByteTokeniser.kind: (_Nothing, lambda _: ByteTokeniser()),
    CharacterTokeniser.kind: (_Symbols, lambda record: CharacterTokeniser(record.symbols)),
    WordTokeniser.kind: (_Words, lambda record: WordTokeniser(record.symbols, lowercase=record.lowercase)),
    SentencePieceTokeniser.kind: (_Pieces, lambda record: SentencePieceTokeniser(record.decoded)),
    LanguageTokeniser.kind: (_Tagged, lambda record: record.tokeniser),
    MarianTokeniser.kind: (_Numbered, lambda record: MarianTokeniser(record.decoded, record.symbols)),
    HuggingFaceTokeniser.kind: (_Foreign, lambda record: HuggingFaceTokeniser.of(record.content)),
    BERTTokeniser.kind: (_Foreign, lambda record: BERTTokeniser.of(record.content)),
}
"""The schema of each kind's `content`, and the function that makes the tokeniser."""

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNKNOWN",
    "BERTTokeniser",
    "ByteConfig",
    "ByteTokeniser",
    "CharacterConfig",
    "CharacterTokeniser",
    "HuggingFaceTokeniser",
    "LanguageTokeniser",
    "MarianTokeniser",
    "SentencePieceConfig",
    "SentencePieceTokeniser",
    "Tokeniser",
    "TokeniserConfig",
    "WordConfig",
    "WordTokeniser",
    "load_tokeniser",
]
