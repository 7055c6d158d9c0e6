"""What commands ask of classifying."""

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from foveate.config import to_dict
from foveate.data.batch import Batch
from foveate.data.labelled import LabelledText
from foveate.data.reader import Reader
from foveate.data.text import require_lasting
from foveate.data.tokeniser import BOS, EOS
from foveate.errors import DataError, UsageError
from foveate.inspect import terminal
from foveate.inspect.alignment import readable
from foveate.inspect.caption import printable
from foveate.metrics import Score
from foveate.nn.loss import cross_entropy
from foveate.suggestion import counted
from foveate.tasks.classify import TASK
from foveate.tasks.classify.task import TOKENISER, ClassifyConfig, ClassifyTask, reader_of
from foveate.tasks.classify.use import RowClassifier, TextClassifier, classifier_of
from foveate.tasks.exported import COUNTED, Exported, Note
from foveate.tasks.labelling import LABELS as LABEL_FILE
from foveate.tasks.labelling_side import BATCH, LOGITS, LabellingSide, training
from foveate.tasks.option import chunks
from foveate.tasks.report_page import Sample
from foveate.tasks.run_model import Strangers
from foveate.tasks.run_plan import (
    LABELS,
    SAMPLE,
    Allowance,
    Probe,
    Reason,
    Suggestion,
    made_up,
    require_fit,
    vocabulary,
    with_others,
)
from foveate.tasks.side import Sight, measured_lengths
from foveate.voice import say, screen, shown

FIRST = 100
"""Pictures or sequences of vectors that sizes are chosen by."""
ROWS = 64
"""Examples of a batch."""


def suggest_rows(reader: Reader, path: str, allowance: Allowance, *, chosen: bool) -> Suggestion:
    """Patches, model and steps by labelled vectors or pictures; a reader that was `chosen` stays as it is. Raises
    DataError when there are no examples.
    """
    examples = reader.read(path)
    sample = list(islice(examples, FIRST))
    labels = {one.label for one in sample}
    total = len(sample)
    for one in examples:
        total += 1
        labels.add(one.label)
    if not sample:
        raise DataError(f"{path} has no labelled {reader.what}. Give what is to be learned from.")
    if not chosen:
        reader = reader.suited(sample)
    rows = reader.learn(sample)
    lengths = [len(rows.row(one.thing)) for one in sample]
    usual, longest = max(sum(lengths) // len(lengths), 1), 2 * max(lengths)

    def suggested(allowance: Allowance) -> Suggestion:
        model, about, pace = _model(rows.input.axes, usual, allowance.tier)
        return Suggestion(
            {
                **({} if chosen else {"reader": to_dict(ClassifyConfig(reader=reader))["reader"]}),
                "model": model,
                "data": {"max_length": longest, "max_tokens": max(ROWS * usual, longest)},
                "train": training(total * BATCH // ROWS, "accuracy", allowance, pace),
            },
            f"{counted(total, 'example')} of {counted(usual, 'vector')}, {counted(len(labels), 'label')}.",
            (Reason("reader", reader.about), Reason("model", f"{about}, {allowance}")),
            allowance.size,
            lengths=(usual,),
        )

    return with_others(suggested, allowance)


def probe_rows(config: ClassifyConfig) -> Probe:
    """The first example of the data, as often as the budget of a batch allows. Raises UsageError without data."""
    if not config.data.data:
        raise UsageError(f"The sizes of {config.what} are those of the data: name them with --data.")
    first = list(islice(config.read(config.data.data), FIRST))
    if not first:
        raise DataError(f"{config.data.data} has no labelled {config.what}. Give what is to be learned from.")
    rows = config.files.learn(first)
    row = rows.row(first[0].thing)
    model = config.classifier(rows.input, LABELS)
    require_fit(model.max_length, len(row), "shorter examples")
    batch = Batch.of([row] * max(config.data.max_tokens // len(row), 1))
    labels = torch.randint(LABELS, (batch.size,), generator=torch.Generator().manual_seed(0))
    return Probe(
        model=model,
        loss=lambda: cross_entropy(model(batch), labels),
        vocabulary=f"{rows.input} and {LABELS} labels",
        batch=f"{batch.size} {config.what} of {counted(len(row), 'vector')}",
        tokens=batch.num_tokens,
        unit="vectors",
    )


def _model(axes: int | None, length: int, tier: int) -> tuple[dict[str, Any], str, float]:
    """With what it is in words, and the seconds of one core that a step takes."""
    if axes is not None:
        wide = {"kind": "transformer", "num_layers": 4 if tier == 2 else 2, "position": {"kind": "none"}}
        return {"encoder": wide, "dropout": 0.1}, "a Transformer over patches, and attention that pools", 0.06
    if length == 1:
        encoder = {"kind": "window", "num_layers": 2}
        return {"encoder": encoder, "pooling": {"kind": "first"}}, "two layers, 256 wide, as there is no sequence", 0.01
    return {"encoder": {"kind": "rnn"}}, "a bidirectional GRU, 128 wide, and attention that pools", 0.06


MOST = 6
"""Pieces that are named with their weights: over a long text, no weight is dark enough for a picture."""


class ClassifySide(LabellingSide[RowClassifier, Any]):
    """`foveate train classify`, `foveate classify`."""

    entry, config, task = TASK, ClassifyConfig, ClassifyTask
    columns = ("text", "label")

    def suggest(self, config: ClassifyConfig, allowance: Allowance) -> Suggestion:
        """Reader, tokeniser, model and steps by the labelled examples. Raises DataError when there are none."""
        path = config.data.data
        reader = config.reader or reader_of(path)
        if reader is not None:
            return suggest_rows(reader, path, allowance, chosen=config.reader is not None)
        require_lasting(path)
        examples = config.read(path)
        sample = list(islice(examples, SAMPLE))
        total = len(sample) + sum(1 for _ in examples)
        if not sample:
            raise DataError(f"{path} has no labelled texts. Give a file with texts to learn from.")
        return with_others(lambda allowance: _suggested(sample, total, allowance), allowance)

    def probe(self, config: ClassifyConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Texts of so many tokens, as many as the token budget allows; of other things the first of the data. Raises
        UsageError for too few positions.
        """
        if config.reader is not None:
            return probe_rows(config)
        (length,), size = lengths, vocabulary(config.tokeniser, vocab)
        model = config.classifier(size, LABELS)
        require_fit(model.max_length, length, "--length")
        texts = made_up(max(config.data.max_tokens // length, 1), length, size)
        labels = torch.randint(LABELS, (texts.size,), generator=torch.Generator().manual_seed(0))
        return Probe(
            model=model,
            loss=lambda: cross_entropy(model(texts), labels),
            vocabulary=f"a vocabulary of {size:,} and {LABELS} labels",
            batch=f"{texts.size} texts of {length} tokens",
            tokens=texts.num_tokens,
            unit="tokens",
        )

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> RowClassifier:
        return RowClassifier.load(run, note=note)

    def in_use(self, task: ClassifyTask) -> RowClassifier:
        return classifier_of(task.model, task.rows, task.labels)

    def use(self, arguments: argparse.Namespace) -> None:
        classifier = self.load(arguments.run)
        if arguments.look:
            classifier.require_attention()
        strangers = Strangers(classifier.tokeniser, say) if isinstance(classifier, TextClassifier) else None
        for chunk in chunks(arguments.inputs):
            things: list[Any] = chunk
            if strangers is None:
                things = [thing for path in chunk for thing in classifier.rows.things(path)]
            else:
                strangers.note(chunk)
            for thing, answer in zip(things, classifier.classify(things), strict=True):
                shares = (f"{share:.4f} {label}" for label, share in answer.probabilities.items())
                print(shown("\t".join(shares) if arguments.probabilities else answer.label), flush=True)
                if arguments.look and answer.label:
                    _draw(classifier, thing)

    def sight(self, arguments: argparse.Namespace, text: str) -> Sight:
        """What the model looked at in a text, or in the first thing that a file holds."""
        reader = self.load(arguments.run)
        if isinstance(reader, TextClassifier):
            return super().sight(arguments, text)
        if arguments.precision == "bfloat16":
            reader.model.to(torch.bfloat16)
        return Sight(lambda: reader.trace(next(reader.rows.things(text))))

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        if arguments.columns and self.saved_config(Path(arguments.run)).reader is not None:
            raise UsageError("--columns chooses columns of a table, and this run does not read tables. Leave it out.")
        return super().evaluate(arguments)

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

    def export(self, run: Path | str, note: Note) -> Exported:
        classifier = self.load(run, note=note)
        meanings = {
            "tokens": f"{BOS}, the ids of {TOKENISER}, {EOS}; of a pair, the second text and another {EOS} follow",
            "lengths": COUNTED,
            "logits": LOGITS,
            "weights": "how much of the answer each token is: they sum to 1",
        }

        def save(folder: Path) -> None:
            classifier.rows.save(folder)
            classifier.labels.save(folder / LABEL_FILE)

        return Exported(classifier.model, save, meanings)


def _draw(classifier: RowClassifier, thing: Any) -> None:
    alignment = classifier.align(thing)
    print(terminal(alignment, **screen()))
    weighed = zip(alignment.weights[0].tolist(), readable(alignment.source), strict=True)
    most = sorted(weighed, key=lambda one: -one[0])[:MOST]
    named = (f"{printable(piece)} {weight:.3f}" for weight, piece in most)
    print("most:", *named, sep="  ", end="\n\n", flush=True)


def _suggested(sample: Sequence[LabelledText], total: int, allowance: Allowance) -> Suggestion:
    words = sum(len(one.text.split()) for one in sample) / len(sample)
    tokeniser, why, per_text = _tokeniser(total, words, [one.text for one in sample])
    encoder, about, pace = _encoder(sum(per_text) / len(per_text), allowance.tier)
    longest = max(512, *(length + 2 for length in per_text))
    return Suggestion(
        {
            "tokeniser": tokeniser,
            "model": {"encoder": encoder},
            "data": {"max_length": longest, "max_tokens": max(BATCH, 2 * longest)},
            "train": training(int(sum(per_text) * total / len(sample)), "accuracy", allowance, pace),
        },
        f"{counted(total, 'text')} of {words:.1f} words, {counted(len({one.label for one in sample}), 'label')}.",
        (Reason("tokeniser", why), Reason("model", f"{about}, and attention that pools, {allowance}")),
        allowance.size,
        lengths=(max(sum(per_text) // len(per_text), 1),),
    )


def _tokeniser(total: int, words: float, texts: list[str]) -> tuple[dict[str, Any], str, list[int]]:
    """With an upper estimate of the tokens of each text."""
    if words < 1.5 or total < 2_000:
        reason = "single words" if words < 1.5 else "too few texts to learn subwords from"
        return {"kind": "character"}, f"{reason}, so characters", [len(text) for text in texts]
    size = 8_000 if total >= 20_000 else 4_000
    lengths = [max(len(text.split()), len(text) // 2) for text in texts]
    return {"kind": "sentencepiece", "vocab_size": size}, f"{size:,} subwords", lengths


def _encoder(tokens: float, tier: int) -> tuple[dict[str, Any], str, float]:
    """With the seconds of one core that a step takes."""
    if tokens <= 150:
        if tier == 2:
            return {"kind": "rnn", "hidden_dim": 256}, "a bidirectional GRU, 256 wide", 0.2
        return {"kind": "rnn"}, "a bidirectional GRU, 128 wide", 0.06
    if tokens <= 600:
        return {"kind": "cnn"}, "texts of some length, so two convolutions, 256 wide", 0.06
    return {"kind": "ran"}, "long texts, so a recurrent attention network, window by window", 0.15


SIDE = ClassifySide()
