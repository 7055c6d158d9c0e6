"""The command line's side of classifying."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from foveate.cli.task.labelling import Side, class_rows, require_measured, size
from foveate.cli.task.report import Sample
from foveate.config import setting
from foveate.data.labelled import LabelledText, read_labelled
from foveate.metrics import Score
from foveate.tasks.classify.task import ClassifyConfig, ClassifyTask, label_of
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.labelling_suggestion import suggest_classifier
from foveate.tasks.plan import Probe
from foveate.tasks.probe import classify_probe
from foveate.tasks.size import Allowance
from foveate.tasks.suggestion import Suggestion
from foveate.train import TrainConfig

__all__ = ["RunConfig", "evaluate", "finish", "open_task", "prepare", "probe", "report", "size", "suggest"]


@dataclass(frozen=True, kw_only=True)
class RunConfig(ClassifyConfig):
    """A classification run: the task's configuration, and how to train."""

    train: TrainConfig = setting(TrainConfig(), "how to train")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_measured(self.train)


def suggest(config: RunConfig, allowance: Allowance) -> Suggestion:
    """Sizes for a run without a configuration; `config` says where the data are."""
    return suggest_classifier(config, allowance)


def probe(config: RunConfig, arguments: argparse.Namespace) -> Probe:
    """What `foveate plan` measures."""
    return classify_probe(config, length=arguments.length, vocab=arguments.vocab)


class _Side(Side[ClassifyTask, TextClassifier, LabelledText]):
    def labeller(self, task: ClassifyTask) -> TextClassifier:
        return TextClassifier(task.model, task.tokeniser, task.labels, pairs=task.pairs)

    def examples(self, config: ClassifyConfig, path: str) -> Iterator[LabelledText]:
        return config.read(path)

    def lines(self, labeller: TextClassifier, examples: Sequence[LabelledText]) -> list[str]:
        return labeller.predict(examples).flat[0]

    def scores(self, labeller: TextClassifier, examples: Sequence[LabelledText], *, per_class: bool) -> list[Score]:
        """Accuracy and F1."""
        predicted = labeller.predict(examples)
        return predicted.scores() + (class_rows(predicted) if per_class else [])

    def samples(self, labeller: TextClassifier, examples: Sequence[LabelledText]) -> list[Sample]:
        samples = list[Sample]()
        for example, label in zip(examples, self.lines(labeller, examples), strict=True):
            seen = labeller.align(example.whole) if labeller.attends and example.text.strip() else None
            samples.append((example.whole, example.label, label, seen))
        return samples

    def looks(self, labeller: TextClassifier) -> bool:
        return labeller.attends


SIDE = _Side(
    name="classify",
    what="texts",
    config=RunConfig,
    task=ClassifyTask,
    load=TextClassifier.load,
    read=read_labelled,
    labels=label_of,
    parts=("text", "label"),
)
prepare, open_task, finish = SIDE.prepare, SIDE.open_task, SIDE.finish
report, evaluate = SIDE.report, SIDE.evaluate
