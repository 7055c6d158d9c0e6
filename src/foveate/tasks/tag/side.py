"""The interface between commands and tagging."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from foveate.config import kind_of
from foveate.data.labelled import Tagged, read_tagged
from foveate.data.text import require_lasting
from foveate.data.tokeniser import BOS, EOS, SPECIALS, UNKNOWN
from foveate.data.word import WordBatch
from foveate.errors import DataError, UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.self_attention import self_attention
from foveate.metrics import Score, accuracy, marks_spans
from foveate.nn.loss import cross_entropy
from foveate.suggestion import counted
from foveate.tasks.answering import Answering, print_answers
from foveate.tasks.exported import COUNTED, Exported, Note
from foveate.tasks.labelling_side import LOGITS, LabellingSide, class_rows, training
from foveate.tasks.option import require_used
from foveate.tasks.report_page import Sample
from foveate.tasks.run_plan import (
    LABELS,
    Allowance,
    Probe,
    Reason,
    Suggestion,
    beginning,
    made_up,
    require_fit,
    vocabulary,
    with_others,
)
from foveate.tasks.served import Served
from foveate.tasks.served_file import reads_of
from foveate.tasks.side import Asked, Scored
from foveate.tasks.sight import Sight
from foveate.tasks.stranger import Strangers
from foveate.tasks.tag import TASK
from foveate.tasks.tag.frame_side import FRAMES, reader_of, reads_frames
from foveate.tasks.tag.frame_task import FrameTask
from foveate.tasks.tag.frame_use import FrameLabeller
from foveate.tasks.tag.served_frame_tagger import ServedFrameTagger
from foveate.tasks.tag.served_tagger import ServedTagger
from foveate.tasks.tag.task import CHARACTERS, PIECES, WORDS, TagConfig, TagTask, WordVocabulary
from foveate.tasks.tag.use import SentenceTagger, TaggedSentence
from foveate.voice import say

SHOWN = 40
"""Words of the longest sentence whose attention is drawn."""


class WordSide(LabellingSide):
    """`foveate train tag`, `foveate tag` of words."""

    entry, config, task = TASK, TagConfig, TagTask
    columns = ("word", "tag")

    def suggest(self, config: TagConfig, allowance: Allowance) -> Suggestion:
        """Model, measure and steps by the tagged sentences. Raises DataError when there are none."""
        path = config.data.data
        require_lasting(path)
        sentences, words, tags, different = 0, 0, set[str](), set[str]()
        for sentence in read_tagged(path, columns=config.data.columns):
            sentences, words = sentences + 1, words + len(sentence.words)
            tags.update(sentence.tags)
            different.update(sentence.words)
        if not sentences:
            raise DataError(f"{path} has no tagged sentences. Give a file with sentences to learn from.")
        return with_others(lambda allowance: _suggested(sentences, words, tags, len(different), allowance), allowance)

    def probe(self, config: TagConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Sentences of so many words, drawn from the data or made up, as many as the token budget allows.

        Raises UsageError when the model has too few positions.
        """
        (length,) = lengths
        sample = [] if vocab else beginning(config.data.data, partial(read_tagged, columns=config.data.columns))
        sentences = sample or list(_made_up(vocabulary(config, vocab), config.min_count))
        known = WordVocabulary.learn(config, lambda: iter(sentences))
        words = list(dict.fromkeys(word for sentence in sentences for word in sentence.words))
        model, size, kinds = known.model(config), known.words.vocab_size, len(known.labels)
        rows = max(config.data.max_tokens // length, 1)
        drawn = made_up(rows, length, len(words) + len(SPECIALS)).ids - len(SPECIALS)
        texts = [[words[number] for number in row] for row in drawn.tolist()]
        require_fit(model.max_length, max(map(known.length, texts)), "--length")
        different, places = drawn.unique(return_inverse=True)
        batch = WordBatch.of(list(places.numpy()), [known.form(words[number]) for number in different.tolist()])
        labels = torch.randint(kinds, (drawn.numel(),), generator=torch.Generator().manual_seed(0))
        return Probe(
            model=model,
            loss=lambda: cross_entropy(model(batch), labels),
            vocabulary=f"{size:,} words and {counted(kinds, 'label')}{'' if sample else ' (assumed)'}",
            batch=f"{rows} sentences of {length} words",
            tokens=drawn.numel(),
            unit="words",
        )

    def text(self, example: Tagged) -> str:
        return " ".join(example.words)

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> SentenceTagger:
        return SentenceTagger.load(run, note=note)

    def offered(self, model: Any, folder: Path) -> Served | None:
        if isinstance(model, SentenceTagger):
            return ServedTagger(model)
        return ServedFrameTagger(model) if reads_of(model) else None

    def in_use(self, task: TagTask) -> SentenceTagger:
        return SentenceTagger(task.model, task.vocabulary)

    def vocabulary(self, model: Any) -> Any:
        return model

    def sight(self, arguments: argparse.Namespace, text: str) -> Sight:
        return FRAMES.sight(arguments, text) if reads_frames(arguments.run) else super().sight(arguments, text)

    def use(self, arguments: argparse.Namespace) -> None:
        print_answers(self.answering(arguments), arguments)

    def answering(self, arguments: argparse.Namespace) -> Answering:
        return _Tagging(self.load(arguments.run), columns=arguments.columns)

    def written(self, example: Tagged) -> str:
        return "".join(f"{word}\t{tag}\n" for word, tag in zip(example.words, example.tags, strict=True)) + "\n"

    def lengths(self, examples: Sequence[Tagged]) -> tuple[list[int], str]:
        return [len(example.words) for example in examples], "words"

    def lines(self, labeller: SentenceTagger, examples: Sequence[Tagged]) -> list[str]:
        return [str(one) for one in labeller.tag([example.words for example in examples])]

    def gold(self, labeller: SentenceTagger, example: Tagged, count: int) -> Sequence[str]:
        return example.tags

    def scores(self, labeller: SentenceTagger, examples: Sequence[Tagged], *, per_class: bool) -> list[Score]:
        """Accuracy, also of unknown words alone, and F1."""
        predicted = labeller.predict(examples)
        words = [word for example in examples for word in example.words]
        unknown = [pair for word, *pair in zip(words, *predicted.flat, strict=True) if not labeller.knows(word)]
        scores = predicted.scores()
        if unknown:
            alone = accuracy(*(list(side) for side in zip(*unknown, strict=True)))
            scores.insert(1, replace(alone, name="accuracy of unknown words", signature=f"words:{len(unknown)}"))
        return scores + (class_rows(predicted) if per_class else [])

    def samples(self, labeller: SentenceTagger, examples: Sequence[Tagged]) -> list[Sample]:
        samples = list[Sample]()
        for example, line in zip(examples, self.lines(labeller, examples), strict=True):
            right = TaggedSentence(example.words, example.tags, ())
            samples.append((" ".join(example.words), str(right), line, _alignment(labeller, example.words)))
        return samples

    def export(self, run: Path | str, note: Note) -> Exported:
        """A tagger, of words with their spellings or of pieces."""
        tagger = self.load(run, note=note)
        spelt = f"{BOS}, the ids of {CHARACTERS} of the word's characters, {EOS}; {UNKNOWN} for a word without any"
        meanings = {
            "words": f"ids of {WORDS}, {UNKNOWN} for words that it lacks",
            "lengths": COUNTED,
            "spellings": spelt,
            "spelling_lengths": "how many ids each spelling has, with both ends; 0 where there is no word",
            "logits": LOGITS,
        }
        if tagger.vocabulary.in_pieces:
            before = f", each after {tagger.vocabulary.before!r}" if tagger.vocabulary.before else ""
            meanings["pieces"] = (
                f"{BOS}, the ids of {PIECES} of every word{before}, {EOS}; {UNKNOWN} for a word without any"
            )
            meanings["logits"] = f"at each piece, where the first piece of each word counts: {LOGITS}"
        return Exported(tagger.model, tagger.vocabulary.save, meanings)


def _alignment(tagger: SentenceTagger, words: Sequence[str]) -> Alignment | None:
    """The attention of the words of a short sentence, where the encoder attends."""
    if not 0 < len(words) <= SHOWN:
        return None
    return self_attention(tagger.model, lambda: tagger.tag([words]), words)


def _suggested(sentences: int, words: int, tags: set[str], different: int, allowance: Allowance) -> Suggestion:
    layers, size, pace = (2, 128, 0.13) if words >= 200_000 else (1, 128, 0.08) if words >= 50_000 else (1, 64, 0.05)
    if allowance.tier == 2 and words >= 50_000:
        layers, size, pace = 2, 256, 0.4
    measure = "span_f1" if marks_spans(tags) else "accuracy"
    model = {
        "encoder": {"kind": "rnn", "hidden_dim": size, "num_layers": layers},
        "embedding_dim": size,
        "character_dim": size // 2,
    }
    return Suggestion(
        {"model": model, "min_count": 1 if words < 10_000 else 2, "train": training(words, measure, allowance, pace)},
        f"{counted(sentences, 'sentence')}, {counted(words, 'word')} ({different:,} different), "
        f"{counted(len(tags), 'tag')}.",
        (Reason("model", f"a bidirectional GRU, {layers} × {size} wide, over words and their spellings, {allowance}"),),
        lengths=(max(words // sentences, 1),),
    )


def _made_up(size: int, count: int) -> Iterator[Tagged]:
    """Sentences with a vocabulary of this size, in each a word that is repeated."""
    for number in range(size - len(SPECIALS)):
        word, label = _word(number), f"label {number % LABELS}"
        yield Tagged(number, (word,) * count, (label,) * count)


def _word(number: int) -> str:
    """Some letters, as many as words have."""
    return "".join(chr(ord("a") + number // 26**place % 26) for place in range(5))


class TagSide(WordSide):
    """`foveate train tag`, `foveate tag`: of words, or with a reader of vectors."""

    lower = FRAMES.lower

    def suggest(self, config: TagConfig, allowance: Allowance) -> Suggestion:
        frames = config.reader or reader_of(config.data.data)
        return FRAMES.suggest(config, allowance) if frames else super().suggest(config, allowance)

    def probe(self, config: TagConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        return FRAMES.probe(config, lengths, vocab) if config.reader else super().probe(config, lengths, vocab)

    def prepare(self, config: TagConfig, folder: Path, note: Note = lambda sentence: None) -> Any:
        """The task, with its data read into a folder. Raises UsageError for vectors without a reader."""
        for path in (config.data.data, config.data.valid_data):
            reader = None if config.reader or not path else reader_of(path)
            if reader:
                raise UsageError(
                    f"{path} is a table of {reader.what} with label tracks, and without a reader words are read. Set "
                    f'reader = "{kind_of(type(reader))}".'
                )
        return FRAMES.prepare(config, folder, note) if config.reader else super().prepare(config, folder, note)

    def open(self, config: TagConfig, folder: Path) -> Any:
        return FRAMES.open(config, folder) if config.reader else super().open(config, folder)

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> Any:
        return FRAMES.load(run, note=note) if reads_frames(run) else super().load(run, note=note)

    def in_use(self, task: Any) -> Any:
        return FRAMES.in_use(task) if isinstance(task, FrameTask) else super().in_use(task)

    def thing(self, model: Any, text: str) -> Any:
        return FRAMES.thing(model, text) if isinstance(model, FrameLabeller) else super().thing(model, text)

    def use(self, arguments: argparse.Namespace) -> None:
        if reads_frames(arguments.run):
            return FRAMES.use(arguments)
        return super().use(arguments)

    def answering(self, arguments: argparse.Namespace) -> Answering:
        if reads_frames(arguments.run):
            return FRAMES.answering(arguments)
        require_used(arguments, dict.fromkeys(("format", "rate"), "runs that tag recordings"), (), "here")
        return super().answering(arguments)

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        return FRAMES.evaluate(arguments) if reads_frames(arguments.run) else super().evaluate(arguments)

    def write_report(self, model: Any, config: Any, folder: Path, path: Path, test: Any = None) -> None:
        if isinstance(model, FrameLabeller):
            FRAMES.write_report(model, config, folder, path, test)
        else:
            super().write_report(model, config, folder, path, test)

    def trial(self, model: Any) -> str:
        return FRAMES.trial(model) if isinstance(model, FrameLabeller) else super().trial(model)

    def metrics(self) -> tuple[str, ...]:
        return FRAMES.metrics()

    def hold_out(self, config: TagConfig, folder: Path) -> dict[str, Any]:
        return FRAMES.hold_out(config, folder) if config.reader else super().hold_out(config, folder)

    def score(self, task: Any, config: TagConfig, folder: Path, request: Asked) -> Scored:
        if config.reader:
            return FRAMES.score(task, config, folder, request)
        return super().score(task, config, folder, request)

    def export(self, run: Path | str, note: Note) -> Exported:
        return FRAMES.export(run, note) if reads_frames(run) else super().export(run, note)


class _Tagging(Answering):
    """Sentences with their tags; with `columns` a line for each word."""

    def __init__(self, tagger: SentenceTagger, *, columns: bool) -> None:
        self.tagger, self.columns = tagger, columns
        self.strangers = Strangers(tagger, say)

    def lines(self, texts: Sequence[str], first: int) -> Iterator[str]:
        self.strangers.note(texts)
        for sentence in self.tagger.tag(texts, first=first):
            if not self.columns:
                yield str(sentence)
                continue
            for word, tag, sure in zip(sentence.words, sentence.tags, sentence.probabilities, strict=True):
                yield f"{word}\t{tag}\t{sure:.4f}"
            yield ""


SIDE = TagSide()
