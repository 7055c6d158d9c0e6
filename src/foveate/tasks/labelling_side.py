"""The interface between commands and the tasks with labels, tagging and classifying: all of it except reading, writing
and showing an example."""

import argparse
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from foveate.data.label import Labels
from foveate.data.labelled_store import LabelledData
from foveate.data.text import columns_there
from foveate.errors import DataError, UsageError
from foveate.metrics import Score, class_scores, marks_spans, span_scores
from foveate.models import BERTConfig
from foveate.storage.draft import write_lines
from foveate.storage.shipped import run_folder
from foveate.suggestion import counted, listing
from foveate.tasks.held_out import Parts
from foveate.tasks.labelling import KEYS, LABELS, VALIDATED, LabellingTask, Predicted
from foveate.tasks.option import require_used
from foveate.tasks.report_page import Sample, write_report
from foveate.tasks.run_plan import Allowance, training_table
from foveate.tasks.side import Asked, Scored, Side, buckets, written
from foveate.voice import say

BATCH = 2048
"""Tokens of a batch."""
SAMPLES = 8
_NAMED = 10
"""Strange labels that a note lists."""
LOGITS = f"of the labels in {LABELS}, in their order; softmax makes probabilities of them"
"""The meaning of what an exported model gives."""
Test = tuple[str, Sequence[Any]]
"""A file and its examples."""


class LabellingSide(Side):
    """The side of a task whose examples have labels."""

    lower = frozenset()
    per_token = frozenset()
    validated = VALIDATED

    @abstractmethod
    def written(self, example: Any) -> str:
        """An example as lines of a file."""

    @abstractmethod
    def lengths(self, examples: Sequence[Any]) -> tuple[list[int], str]:
        """Lengths of examples, and their unit."""

    @abstractmethod
    def lines(self, labeller: Any, examples: Sequence[Any]) -> list[str]:
        """A line for each example, with the model's labels."""

    @abstractmethod
    def samples(self, labeller: Any, examples: Sequence[Any]) -> list[Sample]:
        """Examples for a report, each with an alignment where the model attends."""

    def scores(self, labeller: Any, examples: Sequence[Any], *, per_class: bool) -> list[Score]:
        """Accuracy and F1."""
        predicted = labeller.predict(examples)
        return predicted.scores() + (class_rows(predicted) if per_class else [])

    def values(self, predicted: Predicted) -> dict[str, float]:
        """The metrics of a comparison."""
        return {KEYS[score.name]: score.value for score in predicted.scores()}

    def size(self, task: LabellingTask[Any]) -> str:
        labelled = task.training.labels.num_tokens
        return f"{len(task.training):,} training examples, {labelled:,} labels of {len(task.labels)} kinds"

    def texts(self, model: Any, arguments: argparse.Namespace) -> list[str]:
        return [self.text(example) for example in self.examples(arguments)]

    def text(self, example: Any) -> str:
        """The text of an example."""
        raise NotImplementedError

    def examples(self, arguments: argparse.Namespace) -> list[Any]:
        """The examples of the file that `evaluate` names. Raises DataError for a file without any."""
        config = self.saved_config(run_folder(arguments.run))
        columns = arguments.columns or columns_there(arguments.data, config.data.columns)
        examples = _examples(config, arguments.data, columns)
        if not examples:
            raise DataError(f"{arguments.data} has no examples. Give a file with examples to score the model on.")
        return examples

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        require_used(arguments, dict.fromkeys(("precision", "beam", "set"), "runs that write texts"), (), "for labels")
        folder = run_folder(arguments.run)
        labeller, config, examples = self.load(folder), self.saved_config(folder), self.examples(arguments)
        self._note_strange_labels(labeller, config, examples)
        if arguments.metrics:
            raise UsageError("--metrics chooses scores of texts; labels get accuracy and F1. Leave it out.")
        if arguments.save:
            write_lines(arguments.save, self.lines(labeller, examples))
        if arguments.report:
            test = Path(arguments.data).name, examples
            self.write_report(labeller, config, folder, Path(arguments.report), test)
            say(f"The report is in {arguments.report}.")
        return self.scores(labeller, examples, per_class=arguments.per_class)

    def labels(self, labeller: Any) -> Labels:
        """The labels that the model gives."""
        labels: Labels = labeller.vocabulary.labels
        return labels

    def _note_strange_labels(self, labeller: Any, config: Any, examples: Sequence[Any]) -> None:
        """Says which labels of the examples the model cannot give, because its training data lacked them."""
        ours = frozenset(self.labels(labeller).names)
        strange = [labels for labels in (set(config.labels_of(example)) - ours for example in examples) if labels]
        if strange:
            names = listing(map(repr, sorted(set[str]().union(*strange))), _NAMED)
            place = f"in {len(strange):,} of {counted(len(examples), 'example')}"
            say(f"Labels that the model was not trained with, and never gives: {names} ({place}).")

    def write_report(self, model: Any, config: Any, folder: Path, path: Path, test: Test | None = None) -> None:
        data, examples = test or ("validation", self._as_stored(model, config, folder))
        network, about = model.model, f"{data}, {len(examples):,} {config.what}"
        kind = f"{type(network).__name__} over a {type(network.encoder).__name__}"
        card = {"limits": "Only inputs like those it was trained on, and only the labels that it was trained with."}
        if config.initialise_from:
            begun = f"begun with the encoder of {config.initialise_from}"
            card["model"] = f"{kind}, {network.parameter_count():,} parameters, {begun}"
        write_report(
            network,
            folder,
            path,
            kind=kind,
            scores=[
                {"metric": score.name, "value": f"{score.value:.2f}", "data": about, "signature": score.signature or ""}
                for score in self.scores(model, examples, per_class=True)
            ],
            samples=self.samples(model, examples[:SAMPLES]),
            card=card,
            commands=[self.command(model, folder), f"foveate evaluate {written(folder)} --data FILE --per-class"],
        )

    def _as_stored(self, labeller: Any, config: Any, folder: Path) -> list[Any]:
        """The validation examples of a run, from its data file. Raises DataError where they are not those that the run
        has stored.
        """
        stored, labels = LabelledData.open(folder / "data" / "valid"), Labels.load(folder / LABELS)
        stored.labels.require(below=len(labels), shortest=1)
        examples = {example.line: example for example in _validated(config, stored)}
        for row, line in enumerate(stored.lines.tolist()):
            names = [labels.names[number] for number in stored.labels[row]]
            if line not in examples or list(self.gold(labeller, examples[line], len(names))) != names:
                raise DataError(
                    f"{config.data.valid_data or config.data.data} has changed since the run began: example {line} is "
                    "missing, or has other labels. Put the file back, or report on another: `foveate evaluate "
                    f"{written(folder)} --data FILE --report FILE`."
                )
        return list(examples.values())

    @abstractmethod
    def gold(self, labeller: Any, example: Any, count: int) -> Sequence[str]:
        """The right labels of an example; of one that has vectors, of `count` of them."""

    def trial(self, model: Any) -> str:
        return '"…"'

    def metrics(self) -> tuple[str, ...]:
        return tuple(KEYS.values())

    def usual_metrics(self, task: Any) -> tuple[str, ...]:
        return ("accuracy", "macro_f1")

    def longest(self, config: Any) -> int:
        return config.longest

    def whole(self, config: Any) -> Any:
        if config.initialise_from is None or isinstance(config.model.encoder, BERTConfig):
            return config
        return config.beginning()[1]

    def count(self, batch: Any) -> int:
        return len(batch.labels)

    def hold_out(self, config: Any, folder: Path) -> dict[str, Any]:
        """train.tsv and valid.tsv, held out by the seed of the base configuration."""
        if config.data.valid_data is not None:
            return {}
        return {"columns": [0, 1], **Parts(config).write(folder, self.written)}

    def score(self, task: Any, config: Any, folder: Path, request: Asked) -> Scored:
        path = request.test.get("data")
        examples = _examples(config, path, request.columns) if path else _validated(config, task.validation)
        predicted = self.in_use(task).predict(examples)

        def value(numbers: Sequence[int]) -> float | None:
            labels, gold = ([side[number] for number in numbers] for side in (predicted.labels, predicted.gold))
            return self.values(Predicted(labels=labels, gold=gold)).get(request.metrics[0])

        lengths, unit = self.lengths(examples)
        by_length = buckets(lengths, request, value)
        return Scored(values=self.pick(self.values(predicted), request.metrics), buckets=by_length, unit=unit)


def _examples(config: Any, path: str, columns: tuple[int, int] | None) -> list[Any]:
    """The examples of a file, read by these columns."""
    return list(replace(config, data=replace(config.data, columns=columns)).read(path))


def _validated(config: Any, stored: LabelledData) -> list[Any]:
    """The validation examples that are stored: no others are validated, such as those that are too long."""
    lines = set(stored.lines.tolist())
    return [example for example in Parts(config)("valid") if example.line in lines]


def class_rows(predicted: Predicted) -> list[Score]:
    """F1 of every class, and of every kind of span where the labels mark spans."""
    flat = predicted.flat
    by_name = [("F1", score) for score in class_scores(*flat)]
    if marks_spans(flat[1]):
        by_name += [("span F1", score) for score in span_scores(predicted.labels, predicted.gold)]
    return [
        Score(
            name=f"{what} of {score.name}",
            value=score.f1,
            signature=f"precision:{score.precision:.2f}|recall:{score.recall:.2f}|support:{score.there}",
            higher_is_better=True,
        )
        for what, score in by_name
    ]


def training(tokens: int, measure: str, allowance: Allowance, pace: float) -> dict[str, Any]:
    """The training settings for so many tokens and a measure; `pace` are the seconds of one core that a step takes."""
    # Some thirty epochs of small data, four or so of a million words.
    epochs = 30 if tokens < 100_000 else 10 if tokens < 1_000_000 else 4
    steps = allowance.steps(min(max(tokens * epochs // BATCH, 400), 20_000), pace=pace)
    return training_table(steps, rate=2e-3, metric=measure, better="higher", patience=6)
