"""Tag: a label for every word, from its context. Parts of speech, names, parts of addresses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foveate.config import build, setting
from foveate.data.label import Labels
from foveate.data.labelled import Tagged, read_tagged
from foveate.data.labelled_store import LabelledData, LabelledReport, prepare_sentences
from foveate.data.text import normalise
from foveate.data.tokeniser import UNKNOWN, CharacterTokeniser, WordTokeniser, load_tokeniser
from foveate.data.word import WordBatch, form_row
from foveate.errors import DataError
from foveate.models.tagger import Tagger, TaggerConfig
from foveate.storage.checkpoint import load_weights, restore_model
from foveate.storage.run import read_run
from foveate.tasks.labelling import (
    LABELS,
    LabellingConfig,
    LabellingTask,
    Parts,
    Predicted,
    clear,
    groups,
    longest,
    require_digests,
    require_examples,
    seeded,
)

FILES = ("word.tokeniser.json", "character.tokeniser.json")


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
    characters: CharacterTokeniser
    labels: Labels

    @classmethod
    def of(cls, sentences: Callable[[], Iterator[Tagged]], config: TagConfig) -> "Vocabulary":
        """From the training data. Raises DataError where there is none."""
        words = WordTokeniser.train(
            (" ".join(sentence.words) for sentence in sentences()),
            vocab_size=config.vocab_size,
            min_count=config.min_count,
        )
        characters = CharacterTokeniser.train(word for sentence in sentences() for word in sentence.words)
        return cls(words, characters, Labels.of(tag for sentence in sentences() for tag in sentence.tags))

    @classmethod
    def open(cls, run: Path, digests: Mapping[str, str]) -> "Vocabulary":
        """That of a run. Raises DataError when a file is missing, damaged, or another run's."""
        words, characters = (load_tokeniser(run / name) for name in FILES)
        if not isinstance(words, WordTokeniser) or not isinstance(characters, CharacterTokeniser):
            raise DataError(f"{run} has other tokenisers than a tagger's: words and characters. Restore its files.")
        vocabulary = cls(words, characters, Labels.load(run / LABELS))
        require_digests(run, {**vocabulary.digests, LABELS: vocabulary.labels.digest()}, digests)
        return vocabulary

    @property
    def digests(self) -> dict[str, str]:
        return dict(zip(FILES, (self.words.digest(), self.characters.digest()), strict=True))

    def save(self, run: Path) -> None:
        self.words.save(run / FILES[0])
        self.characters.save(run / FILES[1])
        self.labels.save(run / LABELS)

    def model(self, config: TagConfig) -> Tagger:
        """The configured model with its initial weights, a function of the seed."""
        sizes = self.words.vocab_size, len(self.labels), self.characters.vocab_size
        return seeded(lambda: config.model.build(*sizes), config.seed)


class TagTask(LabellingTask[Tagger]):
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
        parts = Parts(config, lambda path: read_tagged(path, columns=config.data.columns))
        vocabulary = Vocabulary.of(lambda: parts("train"), config)
        clear(run)
        vocabulary.save(run)
        data, reports = {}, {}
        for part in ("train", "valid"):
            data[part], reports[part] = prepare_sentences(
                run / "data" / part,
                parts(part),
                vocabulary.words,
                vocabulary.characters,
                vocabulary.labels,
                max_length=longest(config, config.model.encoder),
                path=parts.path(part),
            )
            require_examples(data[part], part, reports[part])
        return cls(config, vocabulary, data["train"], data["valid"]), reports

    @classmethod
    def open(cls, config: TagConfig, run: Path) -> "TagTask":
        """The task of a run folder that `prepare` has filled."""
        vocabulary = Vocabulary.open(run, read_run(run).tokenisers)
        training, validation = (LabelledData.open(run / "data" / part) for part in ("train", "valid"))
        return cls(config, vocabulary, training, validation)

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


class SentenceTagger:
    """Tags with a trained model. A result depends neither on the batch size nor on its neighbours in a batch."""

    def __init__(self, model: Tagger, vocabulary: Vocabulary) -> None:
        self.model, self.vocabulary = model.eval(), vocabulary

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "SentenceTagger":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        folder = Path(run)
        saved = read_run(folder).require("tag")
        settings = {name: value for name, value in saved.config.items() if name != "train"}
        vocabulary = Vocabulary.open(folder, saved.tokenisers)
        model = vocabulary.model(build(TagConfig, settings, where=f"{folder / 'config.json'}:"))
        tensors, _ = load_weights(folder, note)
        restore_model(model, tensors, source=folder)
        return cls(model, vocabulary)

    @torch.inference_mode()
    def tag(self, sentences: Sequence[str | Sequence[str]]) -> list[TaggedSentence]:
        """Tag sentences: words, or text whose words stand between white space. An empty one has no tags.

        Raises DataError for a sentence with more words than the model has positions.
        """
        words = [self._words(sentence) for sentence in sentences]
        results = [TaggedSentence((), (), ())] * len(words)
        limit = self.model.max_length
        for number, sentence in enumerate(words, start=1):
            if limit is not None and len(sentence) > limit:
                raise DataError(
                    f"Sentence {number} has {len(sentence)} words, but the model has {limit} positions. Split it; "
                    "nothing is cut off silently."
                )
        for group in groups([len(sentence) for sentence in words]):
            logits = self.model(self._batch([words[index] for index in group]))
            best, chosen = logits.float().softmax(-1).max(-1)
            lengths = [len(words[index]) for index in group]
            for index, tags, sure in zip(group, chosen.split(lengths), best.split(lengths), strict=True):
                names = tuple(self.vocabulary.labels.names[tag] for tag in tags.tolist())
                results[index] = TaggedSentence(words[index], names, tuple(sure.tolist()))
        return results

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

    def _batch(self, sentences: Sequence[Sequence[str]]) -> WordBatch:
        different = sorted({word for sentence in sentences for word in sentence})
        number = {word: index for index, word in enumerate(different)}
        forms = [form_row(word, self.vocabulary.words, self.vocabulary.characters) for word in different]
        return WordBatch.of([np.array([number[word] for word in sentence]) for sentence in sentences], forms)
