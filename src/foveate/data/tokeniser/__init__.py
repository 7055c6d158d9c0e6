"""Text to ids and back: bytes, characters, words, pieces of words."""

import base64
from pathlib import Path

from foveate.data.tokeniser.bert import BERTTokeniser
from foveate.data.tokeniser.byte import ByteConfig, ByteTokeniser
from foveate.data.tokeniser.character import CharacterConfig, CharacterTokeniser
from foveate.data.tokeniser.hugging_face import HuggingFaceTokeniser
from foveate.data.tokeniser.marian import MarianTokeniser
from foveate.data.tokeniser.subword import SentencePieceConfig, SentencePieceTokeniser
from foveate.data.tokeniser.tokeniser import BOS, EOS, PAD, SPECIALS, UNKNOWN, Tokeniser, read_content
from foveate.data.tokeniser.word import WordConfig, WordTokeniser
from foveate.errors import DataError

TokeniserConfig = ByteConfig | CharacterConfig | WordConfig | SentencePieceConfig
"""The tokenisers that a configuration can name: "byte", "character", "word", "sentencepiece"."""


def load_tokeniser(path: Path | str) -> Tokeniser:
    """The tokeniser that `save` has written.

    Raises DataError when the file is missing, damaged or changed, SetupError when it needs a package that is missing.
    """
    kind, content = read_content(Path(path))
    if kind == ByteTokeniser.kind:
        return ByteTokeniser()
    if kind == CharacterTokeniser.kind:
        return CharacterTokeniser(content["symbols"])
    if kind == WordTokeniser.kind:
        return WordTokeniser(content["symbols"], lowercase=content["lowercase"])
    if kind == SentencePieceTokeniser.kind:
        return SentencePieceTokeniser(base64.b64decode(content["model"]))
    if kind == MarianTokeniser.kind:
        return MarianTokeniser(base64.b64decode(content["model"]), content["symbols"])
    if kind == HuggingFaceTokeniser.kind:
        return HuggingFaceTokeniser.of(content)
    if kind == BERTTokeniser.kind:
        return BERTTokeniser.of(content)
    raise DataError(f"{path} holds a tokeniser of the kind {kind!r}, which this version of foveate does not know.")


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
    "MarianTokeniser",
    "SentencePieceConfig",
    "SentencePieceTokeniser",
    "Tokeniser",
    "TokeniserConfig",
    "WordConfig",
    "WordTokeniser",
    "load_tokeniser",
]
