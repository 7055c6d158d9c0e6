"""Tag: a label for every word or every vector, from its context. Parts of speech, names, parts of addresses; phones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from foveate.config import setting
from foveate.data.audio import AudioReader
from foveate.data.feature import VectorReader
from foveate.data.label import Labels
from foveate.data.labelled import Tagged, read_tagged
from foveate.data.labelled_store import LabelledData, LabelledReport, prepare_sentences
from foveate.data.reader import Reader
from foveate.data.sentence_encoding import SentenceEncoder
from foveate.data.tokeniser import (
    BOS,
    EOS,
    SPECIALS,
    UNKNOWN,
    CharacterTokeniser,
    Tokeniser,
    WordTokeniser,
    load_tokeniser,
)
from foveate.data.tracked import TrackConfig, Tracked, read_tracked
from foveate.data.word import WordBatch, form_row, space_before
from foveate.decode.label_path import SmoothingConfig
from foveate.errors import DataError
from foveate.models import BERTConfig
from foveate.models.tagger import PieceTagger, Tagger, TaggerConfig
from foveate.tasks.labelling import LABELS, LabellingConfig, LabellingTask, Pretrained
from foveate.tasks.run_digest import require_digests
from foveate.tasks.run_model import seeded

WORDS, CHARACTERS, PIECES = "word.tokeniser.json", "character.tokeniser.json", "piece.tokeniser.json"


@dataclass(frozen=True, kw_only=True)
class TagConfig(LabellingConfig):
    """Everything that defines a tagging run, but how it is trained."""

    model: TaggerConfig = setting(TaggerConfig(), "the architecture")
    min_count: int = setting(2, "words seen less often are known by their spelling only")
    vocab_size: int | None = setting(None, "different words at most; none: all that are frequent enough")
    reader: AudioReader | VectorReader | Reader | None = setting(
        None,
        "audio: a table of recordings with label tracks; vector: a table of .npy files with files of labels; none: "
        "sentences, whose words have labels",
    )
    track: TrackConfig = TrackConfig()
    decode: SmoothingConfig | None = setting(
        None,
        "smooths the labels of vectors in use, as with decode.transition = 2.0; none: the best label of each alone",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        words = (
            ("data.columns", self.data.columns),
            ("data.processes", self.data.processes),
            ("initialise_from", self.initialise_from),
        )
        for name, value in words:
            if self.reader is not None and value is not None:
                raise ValueError(f"reader does not read texts, which {name} is for. Leave one of them out.")
        if (
            isinstance(self.reader, AudioReader)
            and self.reader.augmentation
            and len(self.reader.augmentation.speeds) > 1
        ):
            raise ValueError(
                "reader.augmentation.speeds moves frames away from their labels, whose times are those of one speed. "
                "Leave speeds out, or write recordings of other speeds with tracks of their own."
            )
        if self.reader is None and self.decode is not None:
            raise ValueError("decode smooths the labels of vectors, and without a reader sentences are read.")

    @property
    def what(self) -> str:
        return "sentences" if self.reader is None else self.reader.what

    def read(self, path: str) -> Iterator[Tagged] | Iterator[Tracked]:
        if self.reader is not None:
            return read_tracked(self.reader, path, self.track)
        return read_tagged(path, columns=self.data.columns)

    def labels_of(self, example: Tagged | Tracked) -> Sequence[str]:
        return example.names if isinstance(example, Tracked) else example.tags


@dataclass(frozen=True)
class WordVocabulary:
    """Words and their spellings, and the tags that they can have."""

    words: WordTokeniser
    spelling: Tokeniser
    """Characters of a word; or pieces of it, where the model reads nothing else."""
    labels: Labels
    in_pieces: bool = False

    @classmethod
    def learn(
        cls, config: TagConfig, examples: Callable[[], Iterator[Tagged]], pretrained: Pretrained | None = None
    ) -> "WordVocabulary":
        """A BERT without a pretrained one's pieces reads whole words."""
        words = WordTokeniser.train(
            (" ".join(sentence.words) for sentence in examples()),
            vocab_size=config.vocab_size,
            min_count=config.min_count,
        )
        labels = Labels.of(tag for sentence in examples() for tag in sentence.tags)
        if isinstance(config.model.encoder, BERTConfig):
            return cls(words, pretrained.tokeniser if pretrained else words, labels, in_pieces=True)
        return cls(words, CharacterTokeniser.train(word for one in examples() for word in one.words), labels)

    @classmethod
    def open(cls, config: TagConfig, run: Path, digests: Mapping[str, str]) -> "WordVocabulary":
        words, in_pieces = load_tokeniser(run / WORDS), PIECES in digests
        spelling = load_tokeniser(run / (PIECES if in_pieces else CHARACTERS))
        if not isinstance(words, WordTokeniser):
            raise DataError(
                f"{run / WORDS} is not a word vocabulary, which a tagger needs. Restore the file of this run."
            )
        vocabulary = cls(words, spelling, Labels.load(run / LABELS), in_pieces)
        require_digests(run, vocabulary.digests, digests)
        return vocabulary

    @cached_property
    def before(self) -> str:
        """The characters before a word that is spelt."""
        return space_before(self.spelling) if self.in_pieces else ""

    @property
    def digests(self) -> dict[str, str]:
        spelling = {self._file: self.spelling.digest()}
        return {WORDS: self.words.digest(), **spelling, LABELS: self.labels.digest()}

    def save(self, run: Path) -> None:
        self.words.save(run / WORDS)
        self.spelling.save(run / self._file)
        self.labels.save(run / LABELS)

    def form(self, word: str) -> list[int]:
        """A word as the model reads it: see `form_row`."""
        return form_row(word, self.words, self.spelling, self.before)

    def labels_of(self, words: Sequence[str]) -> list[str]:
        """Names of the places that a model attends to: the words, or their pieces between a begin and an end."""
        if not self.in_pieces:
            return list(words)
        parts: list[str] = []
        for word in words:
            _, _, *spelled, _ = self.form(word)
            pieces = self.spelling.pieces(spelled)
            parts += [word] if spelled == [UNKNOWN] else pieces
        return [SPECIALS[BOS], *parts, SPECIALS[EOS]]

    def length(self, words: Sequence[str]) -> int:
        """The length of a sentence in words, or in pieces with a begin and an end; 0 without words."""
        if not (self.in_pieces and words):
            return len(words)
        return 2 + sum(len(self.form(word)) - 3 for word in words)

    def unknown(self, words: Sequence[str]) -> int:
        """The number of words that the vocabulary lacks."""
        return self.words.encode(" ".join(words)).count(UNKNOWN)

    def model(self, config: TagConfig) -> Tagger | PieceTagger:
        sizes = self.words.vocab_size, len(self.labels), self.spelling.vocab_size
        return seeded(lambda: config.model.build(*sizes), config.seed)

    def store(
        self,
        folder: Path,
        examples: Iterator[Tagged],
        config: TagConfig,
        *,
        origin: str,
        path: str,
        lenient: bool,
        **options: Any,
    ) -> tuple[LabelledData, LabelledReport]:
        encoder = SentenceEncoder(
            form=self.form,
            measure=self.length,
            unknown=self.unknown,
            digests=self.digests,
            labels=self.labels,
            max_length=config.longest,
            path=path,
            lenient=lenient,
        )
        options |= {"processes": config.data.processes or 1, "origin": f"{origin} {config.data.columns}"}
        return prepare_sentences(folder, examples, encoder, **options)

    def require(self, data: LabelledData) -> LabelledData:
        return data.require_sentences(self.labels, words=self.words.vocab_size, pieces=self.spelling.vocab_size)

    @property
    def _file(self) -> str:
        return PIECES if self.in_pieces else CHARACTERS


class TagTask(LabellingTask[Tagger | PieceTagger]):
    """A tagger with its data: what training fits."""

    vocabulary_class = WordVocabulary

    def read(self, data: LabelledData, examples: Sequence[int] | np.ndarray) -> WordBatch:
        return data.sentences(examples)

    def logits(self, batch: WordBatch) -> Float[Tensor, "tokens labels"]:
        return self.model(batch)
