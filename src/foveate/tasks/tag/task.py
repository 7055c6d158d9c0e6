"""Tag: a label for every word, from its context. Parts of speech, names, parts of addresses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float
from torch import Tensor

from foveate.config import setting
from foveate.data.label import Labels
from foveate.data.labelled import Tagged, read_tagged
from foveate.data.labelled_store import LabelledData, LabelledReport, prepare_sentences
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
from foveate.data.word import WordBatch, form_row, space_before
from foveate.errors import DataError
from foveate.models import BERTConfig
from foveate.models.tagger import PieceTagger, Tagger, TaggerConfig
from foveate.storage.run import read_run
from foveate.tasks.labelling import (
    LABELS,
    LabellingConfig,
    LabellingTask,
    Parts,
    beginning,
    clear,
    longest,
    require_examples,
)
from foveate.tasks.run_model import require_digests, seeded, within_run

WORDS, CHARACTERS, PIECES = "word.tokeniser.json", "character.tokeniser.json", "piece.tokeniser.json"


@dataclass(frozen=True, kw_only=True)
class TagConfig(LabellingConfig):
    """Everything that defines a tagging run, but how it is trained."""

    model: TaggerConfig = setting(TaggerConfig(), "the architecture")
    min_count: int = setting(2, "words seen less often are known by their spelling only")
    vocab_size: int | None = setting(None, "different words at most; none: all that are frequent enough")


@dataclass(frozen=True)
class Vocabulary:
    """What a sentence is read with, and the tags it can have."""

    words: WordTokeniser
    spelling: Tokeniser
    """Characters of a word; or pieces of it, where the model reads nothing else."""
    labels: Labels
    in_pieces: bool = False

    @classmethod
    def of(
        cls, sentences: Callable[[], Iterator[Tagged]], config: TagConfig, pieces: Tokeniser | None = None
    ) -> "Vocabulary":
        """From the training data, and the pieces of a pretrained encoder. Raises DataError where there is none.

        A BERT without a pretrained one's pieces reads whole words.
        """
        words = WordTokeniser.train(
            (" ".join(sentence.words) for sentence in sentences()),
            vocab_size=config.vocab_size,
            min_count=config.min_count,
        )
        labels = Labels.of(tag for sentence in sentences() for tag in sentence.tags)
        if isinstance(config.model.encoder, BERTConfig):
            return cls(words, pieces or words, labels, in_pieces=True)
        return cls(words, CharacterTokeniser.train(word for one in sentences() for word in one.words), labels)

    @classmethod
    def open(cls, run: Path, digests: Mapping[str, str]) -> "Vocabulary":
        """That of a run. Raises DataError when a file is missing, damaged, or another run's."""
        words, in_pieces = load_tokeniser(run / WORDS), PIECES in digests
        spelling = load_tokeniser(run / (PIECES if in_pieces else CHARACTERS))
        if not isinstance(words, WordTokeniser):
            raise DataError(
                f"{run / WORDS} is not a word vocabulary, which a tagger needs. Restore the file of this run."
            )
        vocabulary = cls(words, spelling, Labels.load(run / LABELS), in_pieces)
        require_digests(run, {**vocabulary.digests, LABELS: vocabulary.labels.digest()}, digests)
        return vocabulary

    @cached_property
    def before(self) -> str:
        """What stands before a word that is spelt."""
        return space_before(self.spelling) if self.in_pieces else ""

    @property
    def digests(self) -> dict[str, str]:
        return {WORDS: self.words.digest(), self._file: self.spelling.digest()}

    def save(self, run: Path) -> None:
        self.words.save(run / WORDS)
        self.spelling.save(run / self._file)
        self.labels.save(run / LABELS)

    def form(self, word: str) -> list[int]:
        """A word as the model reads it: see `form_row`."""
        return form_row(word, self.words, self.spelling, self.before)

    def labels_of(self, words: Sequence[str]) -> list[str]:
        """What the places of a sentence are called that a model looks at: its words, or their pieces between a begin
        and an end."""
        if not self.in_pieces:
            return list(words)
        parts: list[str] = []
        for word in words:
            _, _, *spelled, _ = self.form(word)
            pieces = self.spelling.pieces(spelled)
            parts += [word] if spelled == [UNKNOWN] else pieces
        return [SPECIALS[BOS], *parts, SPECIALS[EOS]]

    def length(self, words: Sequence[str]) -> int:
        """How long a sentence is for the model, in words, or in pieces with a begin and an end; 0 without words."""
        if not (self.in_pieces and words):
            return len(words)
        return 2 + sum(len(self.form(word)) - 3 for word in words)

    def model(self, config: TagConfig) -> Tagger | PieceTagger:
        """The configured model with its initial weights, a function of the seed."""
        sizes = self.words.vocab_size, len(self.labels), self.spelling.vocab_size
        return seeded(lambda: config.model.build(*sizes), config.seed)

    @property
    def _file(self) -> str:
        return PIECES if self.in_pieces else CHARACTERS


def tags_of(sentence: Tagged) -> Sequence[str]:
    """Its labels."""
    return sentence.tags


class TagTask(LabellingTask[Tagger | PieceTagger]):
    """A tagger with its data: what training fits."""

    def __init__(
        self, config: TagConfig, vocabulary: Vocabulary, training: LabelledData, validation: LabelledData
    ) -> None:
        self.vocabulary = vocabulary
        model, labels = vocabulary.model(config), vocabulary.labels
        super().__init__(config, model, labels, training, validation, vocabulary.digests)

    @classmethod
    def prepare(cls, config: TagConfig, run: Path) -> tuple["TagTask", dict[str, LabelledReport]]:
        """Read the sentences, find words, characters and tags, and store all in the run folder.

        Raises DataError when files are missing or unreadable, a word has no tag, or nothing is left to train on.
        """
        pretrained, config = beginning(config)
        parts = Parts(config, lambda path: read_tagged(path, columns=config.data.columns), tags_of)
        vocabulary = Vocabulary.of(lambda: parts("train"), config, pretrained.tokeniser if pretrained else None)
        clear(run, pretrained)
        vocabulary.save(run)
        data, reports = {}, {}
        for part in ("train", "valid"):
            data[part], reports[part] = prepare_sentences(
                run / "data" / part,
                parts(part),
                vocabulary.form,
                vocabulary.labels,
                max_length=longest(config),
                measure=vocabulary.length,
                path=parts.path(part),
                lenient=part == "valid" and config.data.valid_data is not None,
                rare=parts.warning if part == "train" else "",
            )
            require_examples(data[part], part, reports[part])
        return cls(config, vocabulary, data["train"], data["valid"]).begun(run), reports

    @classmethod
    def open(cls, config: TagConfig, run: Path) -> "TagTask":
        """The task of a run folder that `prepare` has filled."""
        vocabulary = Vocabulary.open(run, read_run(run).tokenisers)
        sizes = {"words": vocabulary.words.vocab_size, "pieces": vocabulary.spelling.vocab_size}
        training, validation = (
            LabelledData.open(run / "data" / part).require_sentences(vocabulary.labels, **sizes)
            for part in ("train", "valid")
        )
        with within_run(run):
            task = cls(config, vocabulary, training, validation)
        return task.begun(run)

    def read(self, data: LabelledData, examples: Sequence[int] | np.ndarray) -> WordBatch:
        return data.sentences(examples)

    def logits(self, batch: WordBatch) -> Float[Tensor, "tokens labels"]:
        return self.model(batch)
