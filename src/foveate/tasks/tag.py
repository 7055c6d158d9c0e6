"""Tag: a label for every word, from its context. Parts of speech, names, parts of addresses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foveate.config import build, setting
from foveate.data.batching import groups
from foveate.data.label import Labels
from foveate.data.labelled import Tagged, read_tagged
from foveate.data.labelled_store import LabelledData, LabelledReport, prepare_sentences
from foveate.data.text import normalise, require_texts
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
from foveate.inspect import Trace
from foveate.inspect.look import Looking
from foveate.inspect.value import observed
from foveate.models import BERTConfig
from foveate.models.tagger import PieceTagger, Tagger, TaggerConfig
from foveate.nn.room import within_tensors
from foveate.storage.checkpoint import load_weights, restore_model
from foveate.storage.run import read_run
from foveate.tasks.initial import seeded, within_run
from foveate.tasks.labelling import (
    LABELS,
    LabellingConfig,
    LabellingTask,
    Parts,
    Predicted,
    beginning,
    clear,
    longest,
    require_digests,
    require_examples,
)
from foveate.tasks.sight import require_text, traced

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
            raise DataError(f"{run / WORDS} is no list of words, which a tagger reads. Restore the file of this run.")
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
                given=part == "valid" and config.data.valid_data is not None,
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
            LabelledData.open(run / "data" / part).require(vocabulary.labels, **sizes) for part in ("train", "valid")
        )
        with within_run(run):
            task = cls(config, vocabulary, training, validation)
        return task.begun(run)

    def read(self, data: LabelledData, examples: Sequence[int] | np.ndarray) -> WordBatch:
        return data.sentences(examples)

    def logits(self, batch: WordBatch) -> Float[Tensor, "tokens labels"]:
        return self.model(batch)


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence's words, their tags, and how probable the model finds each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]

    def __str__(self) -> str:
        """
        >>> print(TaggedSentence(("a", "saw"), ("DET", "NOUN"), (1.0, 0.9)))
        a/DET saw/NOUN
        """
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))


class SentenceTagger(Looking):
    """Tags with a trained model. A result depends neither on the batch size nor on its neighbours in a batch."""

    def __init__(self, model: Tagger | PieceTagger, vocabulary: Vocabulary) -> None:
        self.model, self.vocabulary = model.eval(), vocabulary

    @property
    def tokeniser(self) -> Tokeniser:
        """Characters of words, or pieces: what is not among them has not been seen."""
        return self.vocabulary.spelling

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "SentenceTagger":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        folder = Path(run)
        saved = read_run(folder).require("tag")
        settings = {name: value for name, value in saved.config.items() if name != "train"}
        vocabulary = Vocabulary.open(folder, saved.tokenisers)
        config = build(TagConfig, settings, where=f"{folder / 'config.json'}:")
        tensors, _ = load_weights(folder, note)
        with within_tensors(tensors, config=folder / "config.json", file=folder / "model.safetensors"):
            model = vocabulary.model(config)
        restore_model(model, tensors, source=folder)
        return cls(model, vocabulary)._of(folder)

    @overload
    def tag(self, sentences: str) -> TaggedSentence: ...  # type: ignore[overload-overlap]

    @overload
    def tag(self, sentences: Sequence[str | Sequence[str]]) -> list[TaggedSentence]: ...

    @torch.inference_mode()
    def tag(self, sentences: str | Sequence[str | Sequence[str]]) -> TaggedSentence | list[TaggedSentence]:
        """Tag a sentence that is a text, whose words stand between white space, or each of several, which may be texts
        or lists of words. An empty one has no tags.

        Raises DataError for a sentence with more words than the model has positions.
        """
        require_texts(sentences, lists=True)
        if isinstance(sentences, str):
            return self.tag([sentences])[0]
        words = [self._words(sentence) for sentence in sentences]
        results = [TaggedSentence((), (), ())] * len(words)
        for number, sentence in enumerate(words, start=1):
            self._require_positions(sentence, number)
        for group in groups([len(sentence) for sentence in words]):
            logits = self.model(self._batch([words[index] for index in group]))
            best, chosen = logits.float().softmax(-1).max(-1)
            lengths = [len(words[index]) for index in group]
            for index, tags, sure in zip(group, chosen.split(lengths), best.split(lengths), strict=True):
                names = tuple(self.vocabulary.labels.names[tag] for tag in tags.tolist())
                results[index] = TaggedSentence(words[index], names, tuple(sure.tolist()))
        return results

    @torch.inference_mode()
    def trace(self, text: str) -> Trace:
        """What each word, or each of its pieces, looked at. Raises UsageError for an empty text and for a model without
        attention, DataError as `tag` does.
        """
        require_text(text)
        words = self._words(text)
        self._require_positions(words, 1)
        seen = observed(self.model, lambda: self.model(self._batch([words])))
        return traced(self.model, seen, self.vocabulary.labels_of(words), text)

    def strange(self, text: str) -> list[str]:
        """The words of a text that the model has no way to read whole, each once: its vocabulary lacks the word, and
        its spelling where it reads spellings."""
        return [word for word in dict.fromkeys(self._words(text)) if self._is_strange(word)]

    def _is_strange(self, word: str) -> bool:
        _, _, *spelled, _ = self.vocabulary.form(word)
        unspelled = any(map(self.vocabulary.spelling.unknown, spelled))
        if isinstance(self.model, PieceTagger):
            return unspelled
        return not self.knows(word) and (unspelled or self.model.spelling is None)

    def knows(self, word: str) -> bool:
        """Whether a word was seen in training often enough to have a vector of its own."""
        return self.vocabulary.words.encode(word) != [UNKNOWN]

    def predict(self, examples: Sequence[Tagged]) -> Predicted:
        """Tags beside the right ones, to be scored."""
        found = [list(one.tags) for one in self.tag([example.words for example in examples])]
        return Predicted(labels=found, gold=[list(example.tags) for example in examples])

    def _words(self, sentence: str | Sequence[str]) -> tuple[str, ...]:
        if isinstance(sentence, str):
            return tuple(normalise(sentence).split())
        return tuple(normalise(word) for word in sentence)

    def _require_positions(self, words: Sequence[str], number: int) -> None:
        limit, what = self.model.max_length, "pieces" if self.vocabulary.in_pieces else "words"
        length = self.vocabulary.length(words) if limit is not None else 0
        if limit is not None and length > limit:
            raise DataError(
                f"Sentence {number} has {length} {what}, but the model has {limit} positions. Split it; "
                "nothing is cut off silently."
            )

    def _batch(self, sentences: Sequence[Sequence[str]]) -> WordBatch:
        different = sorted({word for sentence in sentences for word in sentence})
        number = {word: index for index, word in enumerate(different)}
        forms = [self.vocabulary.form(word) for word in different]
        return WordBatch.of([np.array([number[word] for word in sentence]) for sentence in sentences], forms)
