"""Tokenises text as frequent pieces of words, which SentencePiece learns from the text."""

import base64
import io
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from foveate.config import require_choices, setting
from foveate.data.text import normalise
from foveate.data.tokeniser.piece_table import without_pieces
from foveate.data.tokeniser.tokeniser import BOS, EOS, PAD, SPECIALS, UNKNOWN, Tokeniser, require_known
from foveate.errors import DataError, SetupError

ModelType = Literal["bpe", "unigram"]


@dataclass(frozen=True, kw_only=True)
class SentencePieceConfig:
    """Pieces of words: "bpe" merges frequent neighbours, "unigram" keeps the pieces of the likeliest segmentation."""

    kind: ClassVar[str] = "sentencepiece"
    vocab_size: int = setting(
        8000, "maximum number of ids, including special ones and 256 bytes; small texts give fewer"
    )
    model_type: ModelType = setting("bpe", "how pieces are chosen")
    max_lines: int = setting(
        1_000_000, "number of lines to learn from; a larger text is sampled, always with the same lines"
    )
    min_count: int = setting(
        0, "pieces that those lines have less often, and whose vectors would hardly be trained, are split"
    )

    def __post_init__(self) -> None:
        require_choices(self)
        if self.min_count < 0:
            raise ValueError(f"min_count must be at least 0, got {self.min_count}")
        smallest = len(SPECIALS) + 256 + 1
        if self.vocab_size < smallest:
            raise ValueError(
                f"vocab_size must be at least {smallest} (4 special ids, 256 bytes, pieces), got {self.vocab_size}"
            )

    def train(self, lines: Iterable[str]) -> "SentencePieceTokeniser":
        return SentencePieceTokeniser.train(
            lines,
            vocab_size=self.vocab_size,
            model_type=self.model_type,
            max_lines=self.max_lines,
            min_count=self.min_count,
        )


class SentencePieceTokeniser(Tokeniser):
    """Pieces of words; characters without a piece are spelt in bytes, so nothing is unknown.

    Decoding returns the text in Unicode normal form C, with a space for the sign ▁ (U+2581), which SentencePiece uses
    for the space. The same lines give the same model, byte for byte.
    """

    kind: ClassVar[str] = "sentencepiece"
    spells_in_bytes = True

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = processor(model)
        self.vocab_size = self._processor.vocab_size()

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        vocab_size: int = 8000,
        model_type: ModelType = "bpe",
        max_lines: int = 1_000_000,
        min_count: int = 0,
    ) -> "SentencePieceTokeniser":
        """Learn the pieces. Raises DataError without text, and for too many characters for the vocabulary."""
        trainer = sentencepiece_package().SentencePieceTrainer
        chosen = [line for line in _draw((normalise(line) for line in lines), max_lines) if line.strip()]
        if not chosen:
            raise DataError("The training data have no text: give at least one line that is not empty.")
        model = io.BytesIO()
        try:
            trainer.train(
                sentence_iterator=iter(chosen),
                model_writer=model,
                vocab_size=vocab_size,
                model_type=model_type,
                hard_vocab_limit=False,  # a small text may have fewer pieces than `vocab_size`
                byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                max_sentence_length=1 << 24,  # bytes; longer lines would be dropped without a message
                num_threads=1,  # with more threads, models would differ between runs
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNKNOWN,
                pad_piece=SPECIALS[PAD],
                bos_piece=SPECIALS[BOS],
                eos_piece=SPECIALS[EOS],
                unk_piece=SPECIALS[UNKNOWN],
                unk_surface=SPECIALS[UNKNOWN],
                minloglevel=2,
            )
        except RuntimeError as error:
            raise DataError(
                f"SentencePiece could not learn {vocab_size:,} pieces from {len(chosen):,} lines: {_reason(error)}"
            ) from None
        tokeniser = cls(model.getvalue())
        return tokeniser.without_rare_pieces(chosen, min_count) if min_count else tokeniser

    def without_rare_pieces(self, lines: Iterable[str], min_count: int) -> "SentencePieceTokeniser":
        """A tokeniser with the same ids that splits pieces which `lines` have less than `min_count` times.

        A piece of several characters becomes the pieces from which it was merged, or those of the likeliest other
        segmentation. Characters and bytes remain. So a text has no piece that a model has hardly read (the vocabulary
        threshold of Sennrich et al. 2017, "The University of Edinburgh's Neural MT Systems for WMT17").
        """
        counts = Counter(token for line in lines for token in self.encode(line))
        names = self.pieces(range(self.vocab_size))
        rare = {
            token
            for token in range(len(SPECIALS), self.vocab_size)
            if counts[token] < min_count and len(names[token]) > 1 and not self._processor.is_byte(token)
        }
        return SentencePieceTokeniser(without_pieces(self.model, rare))

    def encode(self, text: str) -> list[int]:
        return self._processor.encode(normalise(text))

    def surfaces(self, text: str) -> list[str]:
        text = normalise(text)
        return [text[first:last] for first, last in offsets(self._processor, text)]

    def labels(self, text: str) -> list[str]:
        return self.pieces(self.encode(text))  # bytes stay bytes: words are joined from them

    def unknown(self, token: int) -> bool:
        """Whether a piece is a byte of a character without a piece, which is rare in the training data."""
        return bool(self._processor.is_byte(token) or token == UNKNOWN)

    def decode(self, ids: Iterable[int]) -> str:
        return self._processor.decode([token for token in require_known(ids, self.vocab_size) if token > EOS])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return self._processor.id_to_piece(require_known(ids, self.vocab_size))

    def content(self) -> dict[str, Any]:
        return {"model": base64.b64encode(self.model).decode("ascii")}


def offsets(processor: Any, text: str) -> list[tuple[int, int]]:
    """The start and end character of each piece. A character in bytes belongs to its last byte; the others are empty.

    SentencePiece's own objects for this need the package protobuf, which it does not install.
    """
    return list(processor.encode(text, out_type="offset_mapping")["offsets"])


def _draw(lines: Iterable[str], most: int) -> list[str]:
    """A sample of `most` lines with equal chances (reservoir sampling), always the same."""
    chosen: list[str] = []
    generator = random.Random(0)
    for i, line in enumerate(lines):
        if i < most:
            chosen.append(line)
        elif (slot := generator.randrange(i + 1)) < most:
            chosen[slot] = line
    return chosen


def _reason(error: RuntimeError) -> str:
    """The reason of SentencePiece; the most frequent one is expressed with our settings."""
    text = str(error).rpartition("] ")[2]  # remove the place in its source code
    too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", text)
    if too_small is None:
        return text
    return f"they have too many different characters. Set vocab_size to {int(too_small[1]):,} or more."


def processor(model: bytes) -> Any:
    """The object of SentencePiece. Raises DataError for bytes that are not a model."""
    try:
        inner = sentencepiece_package().SentencePieceProcessor(model_proto=model)
        inner.encode("a")  # an empty model fails only here
        inner.decode_pieces(["a"])
    except (RuntimeError, TypeError):
        raise DataError("The bytes are not a SentencePiece model, or they are damaged.") from None
    return inner


def sentencepiece_package() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise SetupError(
            "The tokeniser 'sentencepiece' needs the package sentencepiece. Run: pip install sentencepiece"
        ) from None
    return sentencepiece
