"""The interface of tokenisers, and the file that stores one."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from foveate.config import parse_json
from foveate.errors import DataError
from foveate.storage.draft import write_file
from foveate.storage.manifest import read_file

PAD, BOS, EOS, UNKNOWN = range(4)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
"""Labels of ids 0 to 3 for display. They are ordinary text in an input, which never gets these ids."""

FORMAT = "foveate tokeniser 1"


@runtime_checkable
class Tokeniser(Protocol):
    """Converts text to ids and back. Ids 0 to 3 are padding, begin, end and unknown in all tokenisers except
    `HuggingFaceTokeniser`, whose ids are those of its model.

    A new kind defines `kind`, `vocab_size`, `encode`, `decode`, `pieces`, `content`; it inherits `digest` and `save`.
    """

    kind: ClassVar[str]
    vocab_size: int
    num_tags: int = 0
    """The number of ids of a text before those of its own pieces."""
    spells_in_bytes: bool = False
    """Whether characters that the vocabulary lacks are encoded byte by byte. A model may have read them often."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin and end. Parts that the vocabulary lacks are `UNKNOWN`.

        The text is converted to Unicode normal form C first. Raises DataError for a lone surrogate.
        """
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids. Padding, begin and end are skipped; unknown ids are shown."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """A label for each id, for display."""
        ...

    def content(self) -> dict[str, Any]:
        """The definition of the tokeniser as JSON data."""
        ...

    def surfaces(self, text: str) -> list[str]:
        """The part of the text for each id of `encode`; the piece if the part is not known."""
        return self.pieces(self.encode(text))

    def unknown(self, token: int) -> bool:
        """Whether an id does not identify its text."""
        return token == UNKNOWN

    def is_partial(self, token: int) -> bool:
        """Whether the text of an id may become another one by the ids after it, beyond a character in several bytes."""
        return False

    def labels(self, text: str) -> list[str]:
        """The pieces of a text, for display; parts that the vocabulary lacks are shown as written, not as `<unk>`.

        >>> from foveate.data.tokeniser import WordTokeniser
        >>> WordTokeniser.train(["a cat"]).labels("a dog")
        ['a', 'dog']
        """
        ids = self.encode(text)
        if not any(map(self.unknown, ids)):
            return self.pieces(ids)
        surfaces = self.surfaces(text)
        pieces = self.pieces(ids)
        if len(surfaces) != len(ids):
            return pieces
        whole = zip(ids, pieces, surfaces, strict=True)
        return [
            _marked(surface) if self.unknown(token) and surface.strip() else piece for token, piece, surface in whole
        ]

    def strange(self, text: str) -> list[str]:
        """The words or characters of a text that the vocabulary lacks, each once.

        >>> from foveate.data.tokeniser import CharacterTokeniser
        >>> CharacterTokeniser.train(["hello"]).strange("HELLO, hello")
        ['H', 'E', 'L', 'O', ',']
        """
        ids = self.encode(text)
        surfaces = self.surfaces(text) if any(map(self.unknown, ids)) else []
        if len(surfaces) != len(ids):
            surfaces = self.pieces(ids)
        unknown = (surface for token, surface in zip(ids, surfaces, strict=True) if self.unknown(token))
        return list(dict.fromkeys(surface.strip(" ▁") for surface in unknown if surface.strip(" ▁")))

    def digest(self) -> str:
        """SHA-256 of kind and content: tokenisers with the same digest give the same ids."""
        return _digest(self.kind, self.content())

    def save(self, path: Path | str) -> None:
        """Write a JSON file, completely or not at all."""
        record = {"format": FORMAT, "kind": self.kind, "digest": self.digest(), "content": self.content()}
        write_file(Path(path), (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode("utf-8"))


def read_content(path: Path) -> tuple[str, dict[str, Any]]:
    """Kind and content of a saved tokeniser. Raises DataError if the file is missing or has changed."""
    try:
        record = parse_json(read_file(path))
        version, kind, digest, content = (record[key] for key in ("format", "kind", "digest", "content"))
    except FileNotFoundError:
        raise DataError(
            f"{path}: the tokeniser file does not exist. Is this the folder of a finished `train`?"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: the tokeniser cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path} is damaged or not a tokeniser file. Restore it from a copy of the run.") from None
    if version != FORMAT:
        raise DataError(f"{path} has the format {version!r}; this version of foveate reads {FORMAT!r}.")
    if not isinstance(content, dict) or _digest(str(kind), content) != digest:
        raise DataError(
            f"{path} has changed since it was written: its digest differs. Restore it from a copy of the run."
        )
    return str(kind), content


def require_known(ids: Iterable[int], vocab_size: int) -> list[int]:
    """The ids as a list. Raises DataError for an id outside the vocabulary."""
    known = [int(token) for token in ids]
    for token in known:
        if not 0 <= token < vocab_size:
            raise DataError(
                f"Id {token} is outside this tokeniser's vocabulary of {vocab_size:,}. "
                "Use the tokeniser that the model was trained with."
            )
    return known


def require_symbols(symbols: Sequence[str], what: str) -> None:
    """Raise DataError if the training data have no symbols."""
    if not symbols:
        raise DataError(f"There is no {what} in the training text: give at least one line that is not empty.")


def _marked(surface: str) -> str:
    """A part of a text as a piece, with ▁ for a space before a word, like SentencePiece."""
    return f"▁{surface.strip()}" if surface.startswith(" ") else surface


def _digest(kind: str, content: dict[str, Any]) -> str:
    canonical = json.dumps([kind, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
