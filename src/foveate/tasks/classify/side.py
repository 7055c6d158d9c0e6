"""The interface between commands and classification."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from foveate.config import to_dict
from foveate.data.batch import Batch
from foveate.data.image import ImageReader
from foveate.data.label import Labels
from foveate.data.labelled import LabelledText
from foveate.data.reader import Reader
from foveate.data.text import require_lasting
from foveate.data.tokeniser import BOS, EOS
from foveate.errors import DataError, UsageError
from foveate.inspect import terminal
from foveate.inspect.alignment import readable
from foveate.inspect.caption import printable
from foveate.metrics import Score
from foveate.models.vit_hugging_face import KINDS as VITS
from foveate.nn.loss import cross_entropy
from foveate.storage.run import model_type_of
from foveate.suggestion import counted
from foveate.tasks.answering import Answering, print_answers
from foveate.tasks.classify import TASK
from foveate.tasks.classify.served_classifier import ServedClassifier
from foveate.tasks.classify.served_file_classifier import ServedFileClassifier
from foveate.tasks.classify.task import TOKENISER, ClassifyConfig, ClassifyTask, reader_of
from foveate.tasks.classify.use import Classified, GuestClassifier, RowClassifier, TextClassifier, classifier_of
from foveate.tasks.exported import COUNTED, Exported, Note
from foveate.tasks.intake import intake
from foveate.tasks.labelling import LABELS as LABEL_FILE
from foveate.tasks.labelling_side import BATCH, LOGITS, LabellingSide, training
from foveate.tasks.length_group import measured_lengths
from foveate.tasks.option import require_used
from foveate.tasks.report_page import Sample
from foveate.tasks.run_plan import (
    LABELS,
    SAMPLE,
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
from foveate.tasks.stranger import Strangers
from foveate.voice import say, screen, shown

FIRST = 100
"""Pictures or sequences of vectors that sizes are chosen by."""
ROWS = 64
"""Pictures or sequences of vectors in a batch."""
MOST = 6
"""The largest number of pieces that are named with their weights, which are too small for a picture of a long text."""


class ClassifySide(LabellingSide):
    """`foveate train classify`, `foveate classify`."""

    entry, config, task = TASK, ClassifyConfig, ClassifyTask
    columns = ("text", "label")

    def suggest(self, config: ClassifyConfig, allowance: Allowance) -> Suggestion:
        """Reader, tokeniser, model and steps by the labelled examples. Raises DataError when there are none."""
        path = config.data.data
        reader = config.reader or reader_of(path)
        if reader is None:
            require_lasting(path)
        source = reader or config
        examples = source.read(path)
        sample = list(islice(examples, FIRST if reader else SAMPLE))
        total, labels = len(sample), {one.label for one in sample}
        for one in examples:
            total += 1
            labels.add(one.label)
        if not sample:
            raise _no_examples(path, source.what)
        if reader is None:
            return with_others(lambda allowance: _for_texts(sample, total, len(labels), allowance), allowance)
        settings: dict[str, Any] = {}
        if config.reader is None:
            reader = reader.suited(sample)
            settings["reader"] = to_dict(ClassifyConfig(reader=reader))["reader"]
        return _for_rows(settings, reader, sample, total, len(labels), allowance)

    def probe(self, config: ClassifyConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Texts of so many tokens; or the first picture or sequence of vectors in the data, again and again: as many as
        the budget of a batch allows. Raises UsageError for too few positions, and for a reader without data.
        """
        if config.reader is None:
            (length,), examples = lengths, beginning(config.data.data, config.read)
            size = vocabulary(config.tokeniser, vocab, lambda: [text for one in examples for text in one.thing])
            batch = made_up(max(config.data.max_tokens // length, 1), length, size)
            source: Any = size
            known, unit, shorter = f"a vocabulary of {size:,}", "token", "--length"
            kinds = len({one.label for one in examples}) or LABELS
            counting = counted(kinds, "label") + ("" if examples else " (assumed)")
        else:
            if not config.data.data:
                raise UsageError(f"The sizes of {config.what} are those of the data: name them with --data.")
            sample = list(islice(config.read(config.data.data), FIRST))
            if not sample:
                raise _no_examples(config.data.data, config.what)
            rows = config.files.learn(sample)
            row = rows.row(sample[0].thing)
            length, batch = len(row), Batch.of([row] * max(config.data.max_tokens // len(row), 1))
            source, known, unit, shorter = rows.input, str(rows.input), "vector", "shorter examples"
            kinds = len({one.label for one in config.read(config.data.data)})
            counting = counted(kinds, "label")
        model = config.classifier(source, kinds)
        require_fit(model.max_length, length, shorter)
        labels = torch.randint(kinds, (batch.size,), generator=torch.Generator().manual_seed(0))
        return Probe(
            model=model,
            loss=lambda: cross_entropy(model(batch), labels),
            vocabulary=f"{known} and {counting}",
            batch=f"{batch.size} {config.what} of {counted(length, unit)}",
            tokens=batch.num_tokens,
            unit=f"{unit}s",
        )

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> RowClassifier:
        return RowClassifier.load(run, note=note)

    def offered(self, model: RowClassifier, folder: Path) -> Served | None:
        if isinstance(model, TextClassifier):
            return ServedClassifier(model)
        return ServedFileClassifier(model) if reads_of(model) else None

    def text(self, example: LabelledText) -> str:
        return example.whole

    def in_use(self, task: ClassifyTask) -> RowClassifier:
        return classifier_of(task.model, task.rows, task.labels)

    def saved_config(self, folder: Path) -> Any:
        """The configuration of a run folder; of a model of Hugging Face, the reader of its files."""
        config = super().saved_config(folder)
        return replace(config, reader=ImageReader()) if model_type_of(folder) in VITS else config

    def vocabulary(self, model: RowClassifier) -> RowClassifier:
        return model

    def use(self, arguments: argparse.Namespace) -> None:
        answering = _Classifying(self.load(arguments.run), arguments)
        if isinstance(answering.classifier, TextClassifier):
            print_answers(answering, arguments)
            return
        inputs = intake(answering.classifier.rows, arguments)
        for thing, answer in inputs.answers(answering.classifier.classify, together=ROWS):
            print(shown("" if answer is None else answering.line(thing, answer)), flush=True)
            answering.draw(thing, answer)

    def answering(self, arguments: argparse.Namespace) -> Answering:
        answering = _Classifying(self.load(arguments.run), arguments)
        return answering if isinstance(answering.classifier, TextClassifier) else super().answering(arguments)

    def thing(self, model: RowClassifier, text: str) -> Any:
        """A text, or the first thing that a file holds."""
        return next(model.things([text]))

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        if arguments.columns and self.saved_config(Path(arguments.run)).reader is not None:
            raise UsageError("--columns chooses columns of a table, and this run does not read tables. Leave it out.")
        return super().evaluate(arguments)

    def labels(self, labeller: RowClassifier) -> Labels:
        return labeller.labels

    def written(self, example: LabelledText) -> str:
        return f"{example.text}\t{example.label}\n"

    def lengths(self, examples: Sequence[LabelledText]) -> tuple[list[int], str]:
        return measured_lengths([example.text for example in examples])

    def lines(self, labeller: RowClassifier, examples: Sequence[Any]) -> list[str]:
        return labeller.predict(examples).flat[0]

    def samples(self, labeller: RowClassifier, examples: Sequence[Any]) -> list[Sample]:
        samples = list[Sample]()
        for example, label in zip(examples, self.lines(labeller, examples), strict=True):
            thing = labeller.thing(example)
            alignment = labeller.align(thing) if labeller.attends and label else None
            samples.append((str(thing), example.label, label, alignment))
        return samples

    def trial(self, model: RowClassifier) -> str:
        operand = '"…"' if isinstance(model, TextClassifier) else "FILE"
        return f"{operand} --look" if model.attends else operand

    def whole(self, config: ClassifyConfig) -> Any:
        if config.second_column is not None:
            raise UsageError("compare does not read pairs of texts. Leave second_column out, or train each run alone.")
        if config.reader is not None:
            raise UsageError(f"compare reads tables of texts, not {config.what}. Train each run alone.")
        return super().whole(config)

    def gold(self, labeller: RowClassifier, example: Any, count: int) -> list[str]:
        return [example.label]

    def export(self, run: Path | str, note: Note) -> Exported:
        classifier = self.load(run, note=note)
        if isinstance(classifier, GuestClassifier):
            return _exported_guest(classifier)
        meanings = {
            "tokens": f"{BOS}, the ids of {TOKENISER}, {EOS}; of a pair, the second text and another {EOS} follow",
            "features": "the vectors of each row, as the readers of this package make them",
            "pixels": "pictures of this size, normalised as rows.json says",
            "lengths": COUNTED,
            "logits": LOGITS,
            "weights": "how much of the answer each token is: they sum to 1",
        }

        def save(folder: Path) -> None:
            classifier.rows.save(folder)
            classifier.labels.save(folder / LABEL_FILE)

        return Exported(classifier.model, save, meanings)


def _exported_guest(classifier: GuestClassifier) -> Exported:
    begin = ", ".join(map(str, classifier.tokeniser.framed("")))
    pairs = classifier.model.model.config.num_segments > 1
    meanings = {
        "tokens": f"the ids of {TOKENISER} with its special ones around them, {begin} for an empty text",
        "lengths": COUNTED,
        "segments": "0; and 1 at the second text of a pair and its end" if pairs else "always 0",
        "logits": LOGITS,
    }

    def save(folder: Path) -> None:
        classifier.tokeniser.save(folder / TOKENISER)
        classifier.labels.save(folder / LABEL_FILE)

    return Exported(classifier.model, save, meanings)


class _Classifying(Answering):
    """The label of each text, or the probabilities of all."""

    def __init__(self, classifier: RowClassifier, arguments: argparse.Namespace) -> None:
        """Raises UsageError for options that would change nothing."""
        if arguments.look:
            classifier.require_attention()
        if isinstance(classifier, TextClassifier):
            require_used(arguments, {"rate": "recordings"}, (), "for texts")
        self.classifier, self.arguments = classifier, arguments
        self.strangers = Strangers(classifier, say)

    def lines(self, texts: Sequence[str], first: int) -> Iterator[str]:
        self.strangers.note(texts)
        rows = [self.classifier.row(text, f"Text {number}") for number, text in enumerate(texts, start=first + 1)]
        for text, answer in zip(texts, self.classifier.of_rows(rows, texts), strict=True):
            yield self.line(text, answer)
            self.draw(text, answer)

    def line(self, thing: Any, answer: Classified) -> str:
        """An answer as a line; what is remarkable about the thing is said."""
        if answer.remarks:
            say(f"{thing}: {', '.join(answer.remarks)}.")
        shares = (f"{share:.4f} {label}" for label, share in answer.probabilities.items())
        return "\t".join(shares) if self.arguments.probabilities else answer.label

    def draw(self, thing: Any, answer: Classified | None) -> None:
        """Draw what the answer looked at, where that is wanted."""
        if self.arguments.look and answer is not None and answer.label:
            _draw(self.classifier, thing)


def _draw(classifier: RowClassifier, thing: Any) -> None:
    alignment = classifier.align(thing)
    print(terminal(alignment, **screen()))
    weighed = zip(alignment.weights[0].tolist(), readable(alignment.source), strict=True)
    most = sorted(weighed, key=lambda one: -one[0])[:MOST]
    named = (f"{printable(piece)} {weight:.3f}" for weight, piece in most)
    print("most:", *named, sep="  ", end="\n\n", flush=True)


def _no_examples(path: str, what: str) -> DataError:
    return DataError(f"{path} has no labelled {what}. Give {what} to learn from.")


def _for_texts(sample: Sequence[LabelledText], total: int, labels: int, allowance: Allowance) -> Suggestion:
    words = sum(len(one.whole.split()) for one in sample) / len(sample)
    tokeniser, why, per_text = _tokeniser(total, words, [one.whole for one in sample])
    encoder, about, pace = _encoder(sum(per_text) / len(per_text), allowance.tier)
    longest = max(512, *(length + 2 for length in per_text))
    return Suggestion(
        {
            "tokeniser": tokeniser,
            "model": {"encoder": encoder},
            "data": {"max_length": longest, "max_tokens": max(BATCH, 2 * longest)},
            "train": training(int(sum(per_text) * total / len(sample)), "accuracy", allowance, pace),
        },
        f"{counted(total, 'text')} of {words:.1f} words, {counted(labels, 'label')}.",
        (Reason("tokeniser", why), Reason("model", f"{about}, and attention that pools, {allowance}")),
        lengths=(max(sum(per_text) // len(per_text), 1),),
    )


def _tokeniser(total: int, words: float, texts: list[str]) -> tuple[dict[str, Any], str, list[int]]:
    """The tokeniser, a reason, and an upper estimate of the tokens of each text."""
    if words < 1.5 or total < 2_000:
        reason = "single words" if words < 1.5 else "too few texts to learn subwords from"
        return {"kind": "character"}, f"{reason}, so characters", [len(text) for text in texts]
    size = 8_000 if total >= 20_000 else 4_000
    lengths = [max(len(text.split()), len(text) // 2) for text in texts]
    return {"kind": "sentencepiece", "vocab_size": size}, f"{size:,} subwords", lengths


def _encoder(tokens: float, tier: int) -> tuple[dict[str, Any], str, float]:
    """The encoder, its description, and the seconds of one core that a step takes."""
    if tokens <= 150:
        if tier == 2:
            return {"kind": "rnn", "hidden_dim": 256}, "a bidirectional GRU, 256 wide", 0.2
        return {"kind": "rnn"}, "a bidirectional GRU, 128 wide", 0.06
    if tokens <= 600:
        return {"kind": "cnn"}, "texts of some length, so two convolutions, 256 wide", 0.06
    return {"kind": "ran"}, "long texts, so a recurrent attention network, window by window", 0.15


def _for_rows(
    settings: dict[str, Any], reader: Reader, sample: Sequence[Any], total: int, labels: int, allowance: Allowance
) -> Suggestion:
    rows = reader.learn(sample)
    lengths = [len(rows.row(one.thing)) for one in sample]
    usual, longest = max(sum(lengths) // len(lengths), 1), 2 * max(lengths)

    def suggested(allowance: Allowance) -> Suggestion:
        model, about, pace = _model(rows.input.axes, usual, allowance.tier)
        return Suggestion(
            {
                **settings,
                "model": model,
                "data": {"max_length": longest, "max_tokens": max(ROWS * usual, longest)},
                "train": training(total * BATCH // ROWS, "accuracy", allowance, pace),
            },
            f"{counted(total, 'example')} of {counted(usual, 'vector')}, {counted(labels, 'label')}.",
            (Reason("reader", reader.about), Reason("model", f"{about}, {allowance}")),
            lengths=(usual,),
        )

    return with_others(suggested, allowance)


def _model(axes: int | None, length: int, tier: int) -> tuple[dict[str, Any], str, float]:
    """The model, its description, and the seconds of one core that a step takes."""
    if axes is not None:
        wide = {"kind": "transformer", "num_layers": 4 if tier == 2 else 2, "position": {"kind": "none"}}
        return {"encoder": wide, "dropout": 0.1}, "a Transformer over patches, and attention that pools", 0.06
    if length == 1:
        encoder = {"kind": "window", "num_layers": 2}
        return {"encoder": encoder, "pooling": {"kind": "first"}}, "two layers, 256 wide, as there is no sequence", 0.01
    return {"encoder": {"kind": "rnn"}}, "a bidirectional GRU, 128 wide, and attention that pools", 0.06


SIDE = ClassifySide()
