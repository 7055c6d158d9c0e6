"""What a comparison has to know of a task: how it is trained, what it is measured by, and how many tokens it reads."""

import dataclasses
import importlib
import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from foveate.config import setting
from foveate.errors import UsageError
from foveate.suggestion import did_you_mean
from foveate.train import TrainConfig

NOT_DATA = frozenset({"model", "train", "seed", "label_smoothing", "decode", "gaps", "guide"})
"""Parts of a configuration that do not change what is in a run's folder of data."""
FEWEST = 20
"""Examples that a length must have to be shown alone."""
MOST_BUCKETS = 8


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """The examples of some lengths, and how good they are."""

    longest: int
    count: int
    value: float


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What a trained model was measured to be."""

    values: Mapping[str, float]
    buckets: Sequence[Bucket] = ()
    """The first metric by the length of the input."""
    unit: str = ""
    """What lengths are counted in; empty where there are none."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be measured, and on what."""

    metrics: tuple[str, ...]
    test: Mapping[str, str] = field(default_factory=dict)
    """Files of test data by the setting of `data` that they stand for; none: the validation data."""
    columns: tuple[int, int] | None = None
    """Of the test data, where they have columns."""
    lengths: tuple[int, ...] = ()
    """The longest of each group of lengths; none: chosen from the data."""


class Subject(ABC):
    """A task as something to compare."""

    name: ClassVar[str]
    home: ClassVar[str]
    task_name: ClassVar[str]
    config_name: ClassVar[str]
    files: ClassVar[tuple[str, ...]]
    """Settings of `data` that name files: first the one without which there is nothing to train on."""
    test_files: ClassVar[tuple[str, ...]]
    lower: ClassVar[frozenset[str]] = frozenset({"loss", "perplexity"})
    """Metrics of which less is better."""
    per_token: ClassVar[frozenset[str]] = frozenset({"loss", "perplexity", "accuracy"})
    """Metrics that another tokeniser would count otherwise, so that they compare nothing between tokenisers."""

    @cached_property
    def module(self) -> Any:
        return importlib.import_module(self.home)

    @cached_property
    def config_class(self) -> Any:
        """The task's configuration and how to train: what `config.json` of a run holds."""
        train = ("train", TrainConfig, setting(TrainConfig(), "how to train"))
        base = getattr(self.module, self.config_name)
        return dataclasses.make_dataclass("RunConfig", [train], bases=(base,), frozen=True, kw_only=True)

    @property
    def validated(self) -> tuple[str, ...]:
        """What training validates by."""
        found: tuple[str, ...] = self.module.VALIDATED
        return found

    def prepare(self, config: Any, folder: Path) -> Any:
        """The task, with its data read into a folder."""
        prepared = getattr(self.module, self.task_name).prepare(config, folder)
        return prepared[0] if isinstance(prepared, tuple) else prepared

    def open(self, config: Any, folder: Path) -> Any:
        """The task of a folder with data."""
        return getattr(self.module, self.task_name).open(config, folder)

    def longest(self, config: Any) -> int | None:
        """The longest example that is kept, where the model may have a say in it."""
        return None

    def whole(self, config: Any) -> Any:
        """A configuration with what else only reading its data would tell, as the sizes of a pretrained encoder."""
        return config

    def require_measured(self, config: Any) -> None:
        """Raises ValueError when the best checkpoint is to be chosen by what is not measured."""
        if config.train.metric not in self.validated:
            raise ValueError(f"train.metric must be one of {', '.join(self.validated)}, got {config.train.metric!r}")

    def require_given(self, task: Any, asked: Asked) -> None:
        """Raises UsageError for a metric that these data do not give: before all the training."""
        for name in asked.metrics:
            if not asked.test and name in getattr(task, "unmeasured", {}):
                raise UsageError(f"compare.metrics: {name} is not measured, for {task.unmeasured[name]}.")

    def data_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a configuration, as plain data, that decides what is in the folder of data."""
        kept = {name: part for name, part in settings.items() if name not in NOT_DATA}
        kept["data"] = {name: part for name, part in settings["data"].items() if name != "max_tokens"}
        return kept

    def require_metrics(self, metrics: Sequence[str]) -> None:
        """Raises UsageError for a metric that this task does not have."""
        known = self.metrics()
        for name in metrics:
            if name not in known:
                raise UsageError(
                    f"compare.metrics: {self.name} is not measured by {name!r}.{did_you_mean(name, known)} "
                    f"There are: {', '.join(known)}."
                )

    def pick(self, values: Mapping[str, float], metrics: Sequence[str]) -> dict[str, float]:
        """The figures that were asked for. Raises UsageError for one that these data do not give."""
        for name in metrics:
            if name not in values:
                raise UsageError(
                    f"compare.metrics: these data do not give {name}, only {', '.join(values)}. Choose among them."
                )
        return {name: values[name] for name in metrics}

    def lower_is_better(self, metric: str) -> bool:
        return metric in self.lower

    @abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """All that a trained model can be measured by."""

    @abstractmethod
    def usual_metrics(self, task: Any) -> tuple[str, ...]:
        """What it is measured by if nothing else is asked for, the most telling first."""

    @abstractmethod
    def hold_out(self, config: Any, folder: Path) -> dict[str, Any]:
        """Write what is trained on and what is held out to files, if no validation file is given.

        Gives settings of `data`, with the names of the files; none where there was nothing to do.

        Seeds hold out different examples. A comparison holds out once.
        """

    @abstractmethod
    def count(self, batch: Any) -> int:
        """What the loss of a batch is the mean of: tokens, labels or gaps."""

    @abstractmethod
    def score(self, task: Any, config: Any, folder: Path, asked: Asked) -> Scored:
        """Measure a trained task on the test data, or else on those for validation."""


def chosen_lengths(lengths: Sequence[int], asked: Sequence[int] = ()) -> list[int]:
    """The longest of each group: as asked, or a few round ones that have enough examples each.

    >>> chosen_lengths([length for length in range(1, 41) for _ in range(10)])
    [5, 10, 15, 20, 25, 30, 35, 40]
    >>> chosen_lengths([3] * 50 + [12] * 4)
    [12]
    """
    longest = max(lengths)
    if asked:
        return sorted({*(length for length in asked if length < longest), longest})
    step = next(step for step in _round_steps() if step * MOST_BUCKETS >= longest)
    ends, waiting = [], 0
    for end in range(step, longest + step, step):
        waiting += sum(end - step < length <= end for length in lengths)
        if waiting >= FEWEST:
            ends.append(min(end, longest))
            waiting = 0
    if waiting or not ends:  # the few longest join those before them
        ends = [*ends[:-1], longest]
    return ends


def _round_steps() -> Any:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def grouped(lengths: Sequence[int], asked: Sequence[int] = ()) -> dict[int, list[int]]:
    """The numbers of the examples of each group, by its longest length."""
    ends = chosen_lengths(lengths, asked)
    groups: dict[int, list[int]] = {end: [] for end in ends}
    for number, length in enumerate(lengths):
        groups[next(end for end in ends if length <= end)].append(number)
    return {end: numbers for end, numbers in groups.items() if numbers}


def in_percent(figures: Mapping[str, float]) -> dict[str, float]:
    """What `validate` of a task gives, with shares as per cent, as scores are."""
    return {name: value * (100 if name == "accuracy" else 1) for name, value in figures.items()}


def measured_lengths(texts: Sequence[str]) -> tuple[list[int], str]:
    """Lengths in words, or in characters where texts are mostly single words, and what they are counted in.

    >>> measured_lengths(["a b", "c d e"]), measured_lengths(["attention"])
    (([2, 3], 'words'), ([9], 'characters'))
    """
    words = [len(text.split()) for text in texts]
    if statistics.median(words) > 1:
        return words, "words"
    return [len(text) for text in texts], "characters"
