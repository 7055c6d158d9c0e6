"""The interface between a task and commands: `train`, `plan`, `evaluate`, `report`, `look`, `export`, `compare`, and
the task's own."""

import argparse
import dataclasses
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from foveate.config import build, modules_in, setting
from foveate.data.text import read_lines, short
from foveate.errors import DataError, UsageError
from foveate.inspect.answer_switch import Reader
from foveate.inspect.attribution import Answer, Faithfulness, faithfulness
from foveate.metrics import Score
from foveate.nn.precision import set_precision
from foveate.nn.transfer import device_of
from foveate.storage.run import read_run
from foveate.storage.shipped import run_folder
from foveate.suggestion import counted, did_you_mean
from foveate.tasks.answering import Answering
from foveate.tasks.entry import Entry
from foveate.tasks.exported import Exported, Note
from foveate.tasks.length_group import grouped
from foveate.tasks.option import require_used
from foveate.tasks.run_plan import Allowance, Probe, Suggestion
from foveate.tasks.served import Served
from foveate.tasks.sight import ReadingSight, Sight
from foveate.tasks.stranger import Strangers
from foveate.train import TrainConfig
from foveate.voice import say, watched

Figures = Mapping[str, float]
"""The measurements of `validate` on a text that was not trained on."""
NOT_DATA = frozenset({"model", "train", "seed", "label_smoothing", "decode"})
"""Parts of a configuration that do not change the data in a run's folder, whatever the task."""

ORDER = ("max_tokens", "processes", "shard")
"""Settings of `data` that do not change the stored rows, only how they are made or ordered."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The measurements that a comparison is asked for, and their data."""

    metrics: tuple[str, ...]
    test: Mapping[str, str] = field(default_factory=dict)
    """Files of test data by the setting of `data` that they replace; none: the validation data."""
    columns: tuple[int, int] | None = None
    """The columns of the test data, where they are a table."""
    lengths: tuple[int, ...] = ()
    """The longest of each group of lengths; none: chosen from the data."""


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """The examples of some lengths, and how good they are."""

    longest: int
    count: int
    value: float


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The measurements of a trained model."""

    values: Mapping[str, float]
    buckets: Sequence[Bucket] = ()
    """The first metric by the length of the input."""
    unit: str = ""
    """The unit of the lengths; empty where there are none."""


class Side(ABC):
    """The methods of a task that commands call. Python refuses an incomplete subclass and names the missing methods."""

    lower: ClassVar[frozenset[str]] = frozenset({"loss", "perplexity"})
    """Metrics whose smaller values are better."""
    per_token: ClassVar[frozenset[str]] = frozenset({"loss", "perplexity", "accuracy"})
    """Metrics per token, which cannot be compared between tokenisers."""
    not_data: ClassVar[frozenset[str]] = NOT_DATA
    """Parts of the configuration that do not change the prepared data of a run."""
    compared_data: ClassVar[frozenset[str]] = frozenset({"data.max_tokens"})
    """Settings of data in which variants may differ, because their examples stay the same."""
    columns: ClassVar[tuple[str, str] | None] = None
    """The contents of the two columns of a table, where the task reads tables."""
    usual_lengths: ClassVar[tuple[int, ...]] = ()
    """The lengths of an example without data, in the order of the entry's; none: 30 tokens each."""
    engines: ClassVar[tuple[str, ...]] = ("onnx",)
    """The engines that a trained model can be exported for."""
    begins_with_own: ClassVar[bool] = False
    """Whether `initialise_from` accepts a run of the same task."""

    # Definition.

    @property
    @abstractmethod
    def entry(self) -> Entry:
        """The task's line in the list of tasks."""

    @property
    @abstractmethod
    def config(self) -> type[Any]:
        """The task's configuration, without how it is trained."""

    @property
    @abstractmethod
    def task(self) -> type[Any]:
        """The class that training fits, with the class methods `prepare(config, folder)` and `open(config, folder)`."""

    @property
    @abstractmethod
    def validated(self) -> tuple[str, ...]:
        """The metrics of validation during training."""

    @cached_property
    def run_config(self) -> Any:
        """The task's configuration together with that of training, as `config.json` of a run has it."""
        config, require = self.config, self.require_measured

        def check(self: Any) -> None:
            getattr(config, "__post_init__", lambda self: None)(self)
            require(self)

        return dataclasses.make_dataclass(
            "RunConfig",
            [("train", TrainConfig, setting(TrainConfig(), "how to train"))],
            bases=(config,),
            namespace={"__post_init__": check, "__doc__": f"A run of {self.entry.name}, and how to train."},
            frozen=True,
            kw_only=True,
        )

    def require_measured(self, config: Any) -> None:
        """Raises ValueError for a choice of the best checkpoint by a metric that validation does not measure."""
        if config.train.metric not in self.validated:
            raise ValueError(f"train.metric must be one of {', '.join(self.validated)}, got {config.train.metric!r}")

    def saved_config(self, folder: Path) -> Any:
        """The configuration of a run folder."""
        return build(self.run_config, read_run(folder).config, where="")

    # Before training.

    @abstractmethod
    def suggest(self, config: Any, allowance: Allowance) -> Suggestion:
        """Sizes for a run without a configuration; `config` names the data."""

    @abstractmethod
    def probe(self, config: Any, lengths: Sequence[int], vocab: int | None) -> Probe:
        """The batch that `foveate plan` measures; `lengths` are in the order of the entry's."""

    def prepare(self, config: Any, folder: Path, note: Note = lambda sentence: None) -> Any:
        """The task, with its data read into a folder; `note` receives which columns were read and what was left out."""
        data = config.data
        columns = getattr(data, "columns", None)
        if self.columns and columns and not getattr(data, "target", None):  # which a second file would have
            note(_columns(getattr(data, self.entry.first), columns, self.columns))
        prepared = self.task.prepare(config, folder)
        if not isinstance(prepared, tuple):
            return prepared
        task, reports = prepared
        for part, report in reports.items():
            note(f"{part}: {report}")
        return task

    def open(self, config: Any, folder: Path) -> Any:
        """The task of a folder that `prepare` has filled."""
        return self.task.open(config, folder)

    @abstractmethod
    def size(self, task: Any) -> str:
        """The amount of training data, in words."""

    # A trained model.

    @abstractmethod
    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> Any:
        """The trained model of a run, as users load it."""

    @abstractmethod
    def in_use(self, task: Any) -> Any:
        """The model of a task in memory, as users load it."""

    @abstractmethod
    def use(self, arguments: argparse.Namespace) -> None:
        """The task's own command: read inputs and print the model's outputs."""

    def answering(self, arguments: argparse.Namespace) -> Answering:
        """The answers of the task's command to texts. Raises UsageError for a model that reads something else."""
        raise UsageError(
            f"--input is a file of texts, and {arguments.run} is a run of {self.entry.name} that reads something else. "
            "Name what it reads as arguments."
        )

    @abstractmethod
    def evaluate(self, arguments: argparse.Namespace) -> Sequence[Score] | Figures | None:
        """Scores of a run on a file of data; None where they are printed already."""

    @abstractmethod
    def export(self, run: Path | str, note: Note) -> Exported:
        """A trained model and the files that another engine needs."""

    def served(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> Served:
        """The trained model of a run, as `foveate serve` offers it. Raises UsageError for a model that reads
        something else than texts, recordings, pictures or vectors.
        """
        model = self.load(run, precision=precision, note=note)
        served = self.offered(model, run_folder(run))
        if served is None:
            raise UsageError(
                f"`foveate serve` offers models that read texts, recordings, pictures or vectors, and {run} is a run "
                f"of {self.entry.name} that reads something else. Use `foveate {self.entry.verb.name}`."
            )
        return served

    def offered(self, model: Any, folder: Path) -> Served | None:
        """A loaded model as a service offers it; None for one that it does not offer."""
        return None

    def sight(self, arguments: argparse.Namespace, text: str) -> Sight:
        """The attention of a run's model in a text that it reads once."""
        reader = self.reader(arguments, text)
        thing = self.thing(reader, text)
        return ReadingSight(reader, thing) if isinstance(reader, Reader) else Sight(lambda: reader.trace(thing))

    def answer(self, arguments: argparse.Namespace, text: str) -> Answer:
        """The answer of a run's model to a text. Raises UsageError for a model that does not read words."""
        reader = self.reader(arguments, text)
        self.require_words(reader, "--why")
        answer: Answer = reader.answer(text)
        chosen = arguments.site if arguments.layer is None else str(arguments.layer)
        return answer if chosen is arguments.head is None else answer.seen_at(chosen, arguments.head)

    def texts(self, model: Any, arguments: argparse.Namespace) -> Iterable[str]:
        """The texts of the file that `evaluate` names."""
        raise NotImplementedError

    def faithfulness(self, arguments: argparse.Namespace) -> Faithfulness:
        """The figures of `foveate evaluate --faithfulness` over the texts of a file. A text without an answer, such as
        one word for a language model, is left out with a note. Raises UsageError for things without words, and where
        all texts are left out.
        """
        model = self.asked(self.load(arguments.run), arguments)
        self.require_words(model, "--faithfulness")
        texts = [text for text in self.texts(model, arguments) if text.strip()]
        reasons: list[UsageError] = []

        def answers() -> Iterator[Answer]:
            for text in watched(texts, "texts"):
                try:
                    answer: Answer = model.answer(text)
                except UsageError as error:
                    reasons.append(error)
                    if len(reasons) == len(texts):
                        raise
                    continue
                yield answer

        measured = faithfulness(answers(), way=arguments.occlude)
        if reasons:
            say(f"Left out {counted(len(reasons), 'text')} of {len(texts)}. The first: {reasons[0]}")
        return measured

    def asked(self, model: Any, arguments: argparse.Namespace) -> Any:
        """A model with what options of its task choose, such as the language that a translator writes."""
        return model

    def require_words(self, model: Any, option: str) -> None:
        """Raises UsageError for a model that does not read words, which could be switched off."""
        if not isinstance(model, Reader):
            raise UsageError(
                f"{option} switches words off, and a run of the task {self.entry.name} that reads no words has none. "
                "Leave it out: `foveate look` shows the attention."
            )

    def reader(self, arguments: argparse.Namespace, text: str) -> Any:
        """The model of a run for `look`; a note names parts of the text that it does not know. Raises UsageError for
        options of runs that translate.
        """
        where = f"of the task {self.entry.name}"
        require_used(arguments, dict.fromkeys(("target", "beam", "set", "when"), "runs that translate"), (), where)
        reader = self.load(arguments.run, note=say)
        set_precision(reader.model, arguments.precision)
        Strangers(self.vocabulary(reader), say).note(self.parts(reader, text))
        return reader

    def thing(self, model: Any, text: str) -> Any:
        """The model's input for an argument of the command line."""
        return text

    def vocabulary(self, model: Any) -> Any:
        """The part of a model whose `strange(text)` names words or characters that the model does not know."""
        return model.tokeniser

    def parts(self, model: Any, text: str) -> Sequence[str]:
        """The parts of a text that the model reads as text."""
        return text.split("\n")

    # Reports.

    @abstractmethod
    def write_report(self, model: Any, config: Any, folder: Path, path: Path, test: Any = None) -> None:
        """Curves, scores, samples and the model card of a run. `model` comes from `load`, `config` is the task's,
        `test` has the measurements of `evaluate`."""

    @abstractmethod
    def trial(self, model: Any) -> str:
        """Arguments of the task's command, after the run folder, for a user to try."""

    def finish(self, task: Any, folder: Path) -> None:
        """Write report.html into the folder of a trained run, and suggest a command."""
        left = device_of(task.model).type != "cpu"  # where several processes have divided the model
        model = self.load(folder) if left else self.in_use(task)
        try:
            self.write_report(model, task.config, folder, folder / "report.html")
        except DataError as error:  # the model is there whatever became of the data
            say(f"The model is in {folder}, without a report of this training: {error}")
        else:
            say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
        say(f"Try:  {self.command(model, folder)}")

    def command(self, model: Any, folder: Path) -> str:
        """The task's command for a run, for a user to try."""
        return f"foveate {self.entry.verb.name} {written(folder)} {self.trial(model)}"

    # Comparisons.

    @abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """All metrics of a trained model."""

    @abstractmethod
    def usual_metrics(self, task: Any) -> tuple[str, ...]:
        """The default metrics, the most important first."""

    @abstractmethod
    def hold_out(self, config: Any, folder: Path) -> dict[str, Any]:
        """Write training and held-out examples to files, once for all seeds, if no validation file is given.

        Returns settings of `data` with the names of the files; none where nothing was written.
        """

    @abstractmethod
    def count(self, batch: Any) -> int:
        """The number of tokens, labels or gaps in a batch, whose mean is the loss."""

    @abstractmethod
    def score(self, task: Any, config: Any, folder: Path, request: Asked) -> Scored:
        """Measure a trained task on the test data, or without them on the validation data."""

    def longest(self, config: Any) -> int | None:
        """The length of the longest example that is kept, where the model may limit it."""
        return None

    def whole(self, config: Any) -> Any:
        """A configuration completed by other files, such as the sizes of a pretrained encoder."""
        return config

    def require_given(self, task: Any, request: Asked) -> None:
        """Raises UsageError, before any training, for a metric that these data do not give."""
        for name in request.metrics:
            if not request.test and name in getattr(task, "unmeasured", {}):
                raise UsageError(f"compare.metrics: {name} is not measured, for {task.unmeasured[name]}.")

    def data_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a configuration, as plain data, that determines the content of the folder of data."""
        chosen = {name: part for name, part in settings.items() if name not in self.not_data}
        chosen["data"] = {name: part for name, part in settings["data"].items() if name not in ORDER}
        return chosen

    def require_metrics(self, metrics: Sequence[str]) -> None:
        """Raises UsageError for a metric that this task does not have."""
        known = self.metrics()
        for name in metrics:
            if name not in known:
                raise UsageError(
                    f"compare.metrics: {self.entry.name} is not measured by {name!r}.{did_you_mean(name, known)} "
                    f"Choose one of: {', '.join(known)}."
                )

    def pick(self, values: Mapping[str, float], metrics: Sequence[str]) -> dict[str, float]:
        """The values of these metrics. Raises UsageError for one that these data do not give."""
        for name in metrics:
            if name not in values:
                raise UsageError(
                    f"compare.metrics: these data do not give {name}, only {', '.join(values)}. Choose among them."
                )
        return {name: values[name] for name in metrics}


def written(folder: Path) -> str:
    """A run folder on a command line, with permission for the user's modules that its configuration names."""
    permissions = (f" --import {shlex.quote(module)}" for module in modules_in(read_run(folder).config))
    return shlex.quote(str(folder)) + "".join(permissions)


def _columns(path: str, columns: tuple[int, int], names: tuple[str, str]) -> str:
    """A sentence on the columns of a table that are read, and what its first line has there."""
    cells = next((line for line in read_lines(path) if line.strip()), "").split("\t")
    shown = [short(cells[column]) if column < len(cells) else "missing" for column in columns]
    parts = zip(names, columns, shown, strict=True)
    listing = "; ".join(f"{name} is column {column}, in the first line {cell}" for name, column, cell in parts)
    return f"columns, counted from 0: {listing}."


def buckets(lengths: Sequence[int], request: Asked, value: Callable[[Sequence[int]], float | None]) -> list[Bucket]:
    """The groups of lengths, each with the `value` of its examples; without those that have none."""
    groups = ((end, numbers, value(numbers)) for end, numbers in grouped(lengths, request.lengths).items())
    return [Bucket(longest=end, count=len(numbers), value=one) for end, numbers, one in groups if one is not None]


def in_percent(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures of `validate`, with shares in per cent, as scores are."""
    return {name: value * (100 if name == "accuracy" else 1) for name, value in figures.items()}
