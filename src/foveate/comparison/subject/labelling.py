"""Tagging and classifying as something to compare: shares of right labels, and F1."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from foveate.comparison.subject.subject import Asked, Bucket, Scored, Subject, grouped, measured_lengths
from foveate.data.labelled import read_labelled, read_tagged
from foveate.errors import UsageError
from foveate.models import BERTConfig
from foveate.storage.draft import disk_errors
from foveate.tasks.classify.task import ClassifyTask, label_of
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.labelling import KEYS, VALIDATED, Parts, Predicted, beginning, longest
from foveate.tasks.tag.task import TagTask, tags_of
from foveate.tasks.tag.use import SentenceTagger


class Labelling(Subject):
    """What both tasks have in common."""

    files = ("data", "valid_data")
    test_files = ("data",)
    lower = frozenset()
    per_token = frozenset()
    validated = VALIDATED

    def metrics(self) -> tuple[str, ...]:
        return tuple(KEYS.values())

    def longest(self, config: Any) -> int:
        return longest(config)

    def whole(self, config: Any) -> Any:
        if config.initialise_from is None or isinstance(config.model.encoder, BERTConfig):
            return config
        return beginning(config)[1]

    def count(self, batch: Any) -> int:
        return len(batch.labels)

    @abstractmethod
    def labels(self, example: Any) -> Sequence[str]:
        """The labels of an example."""

    @abstractmethod
    def read(self, path: str, columns: tuple[int, int] | None) -> Iterable[Any]:
        """The examples of a file."""

    @abstractmethod
    def written(self, example: Any) -> str:
        """An example as lines of a file."""

    @abstractmethod
    def predict(self, task: Any, examples: Sequence[Any]) -> Predicted:
        """The labels that a trained model gives."""

    @abstractmethod
    def lengths(self, examples: Sequence[Any]) -> tuple[list[int], str]:
        """How long the examples are, and in what."""

    def hold_out(self, config: Any, folder: Path) -> dict[str, Any]:
        """train and valid, by the task's own choice for the seed of the base."""
        if config.data.valid_data is not None:
            return {}
        parts = Parts[Any](config, lambda path: iter(self.read(path, config.data.columns)), self.labels)
        settings: dict[str, Any] = {"columns": [0, 1]}
        for part, name in (("train", "data"), ("valid", "valid_data")):
            path = folder / f"{part}.tsv"
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(map(self.written, parts(part))), encoding="utf-8")
            settings[name] = path.name
        return settings

    def score(self, task: Any, config: Any, folder: Path, asked: Asked) -> Scored:
        columns = asked.columns if asked.test else config.data.columns
        examples = list(self.read(asked.test.get("data") or config.data.valid_data, columns))
        predicted = self.predict(task, examples)
        values = _values(predicted)
        first = asked.metrics[0]
        lengths, unit = self.lengths(examples)
        buckets = []
        for end, numbers in grouped(lengths, asked.lengths).items():
            labels, gold = ([side[number] for number in numbers] for side in (predicted.labels, predicted.gold))
            value = _values(Predicted(labels=labels, gold=gold)).get(first)
            if value is not None:
                buckets.append(Bucket(longest=end, count=len(numbers), value=value))
        return Scored(values=self.pick(values, asked.metrics), buckets=buckets, unit=unit)

    def usual_metrics(self, task: Any) -> tuple[str, ...]:
        return ("accuracy", "macro_f1")


class Tag(Labelling):
    """`foveate train tag`."""

    name = "tag"
    home = "foveate.tasks.tag.task"
    task_name = "TagTask"
    config_name = "TagConfig"

    def read(self, path: str, columns: tuple[int, int] | None) -> Iterable[Any]:
        return read_tagged(path, columns=columns)

    def labels(self, example: Any) -> Sequence[str]:
        return tags_of(example)

    def written(self, example: Any) -> str:
        return "".join(f"{word}\t{tag}\n" for word, tag in zip(example.words, example.tags, strict=True)) + "\n"

    def predict(self, task: TagTask, examples: Sequence[Any]) -> Predicted:
        return SentenceTagger(task.model, task.vocabulary).predict(examples)

    def lengths(self, examples: Sequence[Any]) -> tuple[list[int], str]:
        return [len(example.words) for example in examples], "words"


class Classify(Labelling):
    """`foveate train classify`."""

    name = "classify"
    home = "foveate.tasks.classify.task"
    task_name = "ClassifyTask"
    config_name = "ClassifyConfig"

    def whole(self, config: Any) -> Any:
        if config.second_column is not None:
            raise UsageError("compare does not read pairs of texts. Leave second_column out, or train each run alone.")
        return super().whole(config)

    def read(self, path: str, columns: tuple[int, int] | None) -> Iterable[Any]:
        return read_labelled(path, columns=columns)

    def labels(self, example: Any) -> Sequence[str]:
        return label_of(example)

    def written(self, example: Any) -> str:
        return f"{example.text}\t{example.label}\n"

    def predict(self, task: ClassifyTask, examples: Sequence[Any]) -> Predicted:
        return TextClassifier(task.model, task.tokeniser, task.labels).predict(examples)

    def lengths(self, examples: Sequence[Any]) -> tuple[list[int], str]:
        return measured_lengths([example.text for example in examples])


def _values(predicted: Predicted) -> dict[str, float]:
    return {KEYS[score.name]: score.value for score in predicted.scores()}
