"""A trained tagger in use: the tags of a sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np
import torch

from foveate.data.batching import groups
from foveate.data.labelled import Tagged
from foveate.data.text import normalise, require_texts
from foveate.data.tokeniser import UNKNOWN, Tokeniser
from foveate.data.word import WordBatch
from foveate.errors import DataError
from foveate.inspect import Trace, Track
from foveate.inspect.attribution import Answer
from foveate.inspect.looking import Looking
from foveate.inspect.trace.conversion import Stored
from foveate.inspect.value import observed
from foveate.models.tagger import PieceTagger, Tagger
from foveate.storage.shipped import run_folder
from foveate.tasks.labelling import Predicted, load_labeller
from foveate.tasks.run_model import require_positions, require_text, traced
from foveate.tasks.tag.tag_answer import tag_answer
from foveate.tasks.tag.task import TagConfig, WordVocabulary

ATTENDING = "`foveate train tag` with --set model.encoder=transformer trains one that attends."


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence's words, their tags, and the probability of each tag."""

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

    def __init__(self, model: Tagger | PieceTagger, vocabulary: WordVocabulary) -> None:
        self.model, self.vocabulary = model.eval(), vocabulary

    @property
    def tokeniser(self) -> Tokeniser:
        """Its characters, or pieces of words: others did not occur in training."""
        return self.vocabulary.spelling

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "SentenceTagger":
        """The trained model of a run folder, or one that comes with foveate, by its name.

        Of an unfinished run it is the best checkpoint. Raises UsageError for a run of another task, DataError when it
        has no weights or is damaged.
        """
        folder = run_folder(run, note)
        return cls(*load_labeller(folder, "tag", TagConfig, WordVocabulary, note))._of(folder)

    @overload
    def tag(self, sentences: str, *, first: int = 0) -> TaggedSentence: ...  # type: ignore[overload-overlap]

    @overload
    def tag(self, sentences: Sequence[str | Sequence[str]], *, first: int = 0) -> list[TaggedSentence]: ...

    @torch.inference_mode()
    def tag(
        self, sentences: str | Sequence[str | Sequence[str]], *, first: int = 0
    ) -> TaggedSentence | list[TaggedSentence]:
        """Tag a sentence that is a text, whose words stand between white space, or each of several, which may be texts
        or lists of words. An empty one has no tags. Messages count sentences after the `first` ones.

        Raises DataError for a sentence with more words than the model has positions, and for a list with an empty word
        or with white space in a word.
        """
        require_texts(sentences, lists=True)
        if isinstance(sentences, str):
            return self.tag([sentences], first=first)[0]
        words = [self._words(sentence) for sentence in sentences]
        for number, sentence in enumerate(words, start=first + 1):
            _require_words(sentence, number)
        results = [TaggedSentence((), (), ())] * len(words)
        for number, sentence in enumerate(words, start=first + 1):
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
    def trace(self, text: str, *, stored: Stored = "float16") -> Trace:
        """The attention of each word, or of its pieces, with the tags as notes of the track: a word's first piece has
        its tag. Raises UsageError for an empty text and for a model without attention, DataError as `tag` does.
        """
        require_text(text)
        words = self._words(text)
        self._require_positions(words, 1)
        observation = observed(self.model, lambda: self.model(self._batch([words])))
        (tagged,) = self.tag([words])
        around = 1 if self.vocabulary.in_pieces else 0
        sizes = [len(self.vocabulary.labels_of([word])) - 2 * around for word in words]
        notes = [note for tag, size in zip(tagged.tags, sizes, strict=True) for note in [tag, *[""] * (size - 1)]]
        track = Track.of_pieces(self.vocabulary.labels_of(words), text=text)
        track = replace(track, notes=(*[""] * around, *notes, *[""] * around))
        return traced(self.model, observation, track, attending=ATTENDING, stored=stored)

    def answer(self, text: str) -> Answer:
        """The tags of a text's words, and the model to ask what mattered for each of them.

        A word that is switched off becomes the unknown word with an unknown letter, or each of its pieces becomes the
        unknown or the gap token: a removed word would have no tag. Raises UsageError for an empty text, DataError as
        `tag` does.
        """
        require_text(text)
        words = self._words(text)
        [tagged] = self.tag([words])
        chosen = [self.vocabulary.labels.names.index(tag) for tag in tagged.tags]
        forms = [self.vocabulary.form(word) for word in words]
        return tag_answer(self.model, words, forms, chosen, tagged.tags, partial(self.trace, text, stored="float32"))

    def strange(self, text: str) -> list[str]:
        """The words of a text that the model cannot read whole, each once: its vocabulary lacks the word, and also a
        character where it reads spellings."""
        return [word for word in dict.fromkeys(self._words(text)) if self._is_strange(word)]

    def _is_strange(self, word: str) -> bool:
        _, _, *spelled, _ = self.vocabulary.form(word)
        unspelled = any(map(self.vocabulary.spelling.unknown, spelled))
        if isinstance(self.model, PieceTagger):
            return unspelled
        return not self.knows(word) and (unspelled or self.model.spelling is None)

    def knows(self, word: str) -> bool:
        """Whether a word was frequent enough in training to have a vector of its own."""
        return self.vocabulary.words.encode(word) != [UNKNOWN]

    def predict(self, examples: Sequence[Tagged]) -> Predicted:
        """Predicted tags and the right ones, for scores."""
        predicted = [list(one.tags) for one in self.tag([example.words for example in examples])]
        return Predicted(labels=predicted, gold=[list(example.tags) for example in examples])

    def _words(self, sentence: str | Sequence[str]) -> tuple[str, ...]:
        if isinstance(sentence, str):
            return tuple(normalise(sentence).split())
        return tuple(normalise(word) for word in sentence)

    def _require_positions(self, words: Sequence[str], number: int) -> None:
        what, length = "pieces" if self.vocabulary.in_pieces else "words", self.vocabulary.length(words)
        require_positions(f"Sentence {number}", length, self.model.max_length, what, remedy="Split it")

    def _batch(self, sentences: Sequence[Sequence[str]]) -> WordBatch:
        different = sorted({word for sentence in sentences for word in sentence})
        number = {word: index for index, word in enumerate(different)}
        forms = [self.vocabulary.form(word) for word in different]
        return WordBatch.of([np.array([number[word] for word in sentence]) for sentence in sentences], forms)


def _require_words(words: Sequence[str], number: int) -> None:
    for place, word in enumerate(words, start=1):
        if len(word.split()) != 1:
            many = "more than one word" if word.strip() else "empty"
            raise DataError(
                f"Sentence {number}: word {place}, {word!r}, is {many}. Give each word as an item of the list, or the "
                "sentence as a text."
            )
