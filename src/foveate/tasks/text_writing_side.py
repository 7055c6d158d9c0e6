"""The interface between commands and the tasks that write a text for a thing: all of it except sizes, searches and
what is particular to recordings or pictures."""

import argparse
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from foveate.data.parallel import ParallelData
from foveate.data.transcript import TextConfig
from foveate.inspect.caption import printable
from foveate.metrics import Score
from foveate.storage.draft import require_writable, write_lines
from foveate.tasks.option import decode_config, metric_names
from foveate.tasks.report_page import score_rows, score_tiles, write_report
from foveate.tasks.side import Asked, Scored, Side, buckets, in_percent, written
from foveate.tasks.sight import Sight
from foveate.tasks.text_writing import Writer, count, store
from foveate.voice import say

SAMPLES = 6
Things = tuple[list[Any], list[Any]]
"""Things, and the reference or the references of each."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A trained model as a command asks for it."""

    model: Any
    search: Any
    """The way that texts are searched for."""
    change: str = ""
    """A change of the model in the words of a signature."""
    option: str = ""
    """The option of commands that makes this change, after a space."""
    card: Mapping[str, str] = field(default_factory=dict)
    """Entries of the model card on this change."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """Texts for things that a model was not trained with, and their scores."""

    file: str
    scores: Sequence[Score]
    texts: Sequence[Any]
    """The results of the model, each with `name` and `text`."""
    references: Sequence[Any]
    reading: Reading


class WritingSide(Side):
    """The side of a task that writes a text for a thing."""

    noun: ClassVar[str]
    """The singular noun for such a text."""
    limits: ClassVar[str]
    """The end of the sentence of the model card on limits, which begins with things like those of training."""
    text_metrics: ClassVar[tuple[str, ...]]
    """All metrics of texts."""
    evaluated: ClassVar[tuple[str, ...]]
    """The metrics of texts that `evaluate` measures by default."""
    unit: ClassVar[str] = ""
    """The unit of the lengths by which texts are compared; empty where all are of a length."""

    def sight(self, arguments: argparse.Namespace, text: str) -> Sight:
        """The attention while the model writes its own text, or the text of --target."""
        target = arguments.target
        reader = self.reader(argparse.Namespace(**{**vars(arguments), "target": None}), text)
        return Sight(lambda: reader.trace(self.thing(reader, text), target))

    @abstractmethod
    def things(self, config: Any, path: str) -> Things:
        """The things of a file with their references. Raises DataError for a file without any."""

    @abstractmethod
    def text_scores(self, texts: Sequence[str], references: Sequence[Any], names: Sequence[str]) -> list[Score]:
        """The named scores of texts."""

    @abstractmethod
    def require_text_metrics(self, names: Sequence[str]) -> None:
        """Raises UsageError for an unknown metric of texts, SetupError for a missing package."""

    @abstractmethod
    def summary(self, config: Any, texts: Sequence[str], references: Sequence[Any], seconds: float) -> str:
        """A sentence or two on the texts of `evaluate`."""

    @abstractmethod
    def card(self, config: Any, training: int, validation: int) -> dict[str, str]:
        """The entries `data` and `validation` of the model card, for so many examples."""

    def examples(self, config: Any) -> str:
        """The plural noun for the examples of training."""
        return str(config.what)

    def reference(self, texts: Any) -> str:
        """The references of a thing as one line."""
        return str(texts)

    def reading(self, arguments: argparse.Namespace) -> Reading:
        """The model of a run and its search, as `evaluate` is asked for them."""
        model = self.load(arguments.run, precision=arguments.precision)
        return Reading(model=model, search=decode_config(model.config, arguments))

    def stored_rows(self, model: Any, data: ParallelData, numbers: Sequence[int]) -> list[Any]:
        """Rows of validation data, as the model reads them."""
        return [data.source[number] for number in numbers]

    def vocabulary(self, model: Writer) -> Any:
        return model

    def thing(self, model: Writer, text: str) -> Any:
        """The first thing that a file holds."""
        return next(iter(model.things([text])))

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        """Scores of a run's texts, which are saved and reported on request."""
        names = metric_names(arguments) or self.evaluated
        self.require_text_metrics(names)
        folder = Path(arguments.run)
        config = self.saved_config(folder)
        things, references = self.things(config, arguments.data)
        require_writable(arguments.save, arguments.report)
        reading = self.reading(arguments)
        started = time.perf_counter()
        results = _texts(reading.model, things, reading.search)
        seconds = time.perf_counter() - started
        texts = [one.text for one in results]
        say(self.summary(config, texts, references, seconds))
        if arguments.save:
            write_lines(arguments.save, texts)
        scores = _signed(self.text_scores(texts, references, names), config.text, reading.change)
        if arguments.report:
            file = Path(arguments.data).name
            test = Test(file=file, scores=scores, texts=results, references=references, reading=reading)
            self.write_report(reading.model, config, folder, Path(arguments.report), test)
            say(f"The report is in {arguments.report}.")
        return scores

    def write_report(self, model: Any, config: Any, folder: Path, path: Path, test: Test | None = None) -> None:
        """The samples are texts for things of the test data, or for the first ones of the validation data."""
        training, validation = (ParallelData.open(folder / "data" / part) for part in ("train", "valid"))
        what = config.what
        if test is None:
            numbers = range(min(SAMPLES, len(validation)))
            rows = self.stored_rows(model, validation, numbers)
            results = model.of_rows(rows, [f"line {validation.lines[number]}" for number in numbers])
            references = [model.tokeniser.decode(validation.target[number].tolist()) for number in numbers]
        else:
            results = list(test.texts[:SAMPLES])
            references = [self.reference(one) for one in test.references[:SAMPLES]]
        scores = test.scores if test else ()
        tested = f"{test.file}, {len(test.references):,} {what}" if test else ""
        option = test.reading.option if test else ""
        card = self.card(config, len(training), len(validation))
        write_report(
            model.model,
            folder,
            path,
            tiles=[(f"training {self.examples(config)}", f"{len(training):,}"), *score_tiles(scores)],
            scores=score_rows(scores, tested),
            samples=[(one.name, right, one.text, None) for one, right in zip(results, references, strict=True)],
            card={
                "data": card["data"],
                "texts": f"{config.text}",
                "validation": card["validation"],
                **(test.reading.card if test else {}),
                "test": tested or "not yet: foveate evaluate RUN --data FILE --report FILE",
                "limits": f"Only {what} like those it was trained on{self.limits}",
            },
            commands=[self.command(model, folder) + option, f"foveate evaluate {written(folder)} --data FILE{option}"],
            names=(what.removesuffix("s"), self.noun),
        )

    def trial(self, model: Any) -> str:
        return "FILE"

    def require_metrics(self, metrics: Sequence[str]) -> None:
        super().require_metrics(metrics)
        self.require_text_metrics([name for name in metrics if name in self.text_metrics])

    def require_given(self, task: Any, request: Asked) -> None:
        """Raises DataError, too, for a thing that is to be scored and has more vectors than the model's positions."""
        super().require_given(task, request)
        if task.model.longest_source is None or not set(request.metrics) & set(self.text_metrics):
            return
        model, (things, _) = self.in_use(task), self._scored(task.config, request)
        for thing in things:
            model.row(thing)

    def longest(self, config: Any) -> int:
        return int(config.longest)

    def count(self, batch: Any) -> int:
        return count(batch)

    def score(self, task: Any, config: Any, folder: Path, request: Asked) -> Scored:
        """Texts for all things are scored, as `foveate evaluate` scores the same file."""
        names = [name for name in request.metrics if name in self.text_metrics]
        values: dict[str, float] = {}
        if len(names) < len(request.metrics):
            data = task.validation
            if request.test:
                path = request.test["data"]
                data, _ = store(folder / "data" / "test", config.read(path), task.rows, task.tokeniser, config)
            values |= in_percent(task.figures(data))
        if not names:
            return Scored(values=self.pick(values, request.metrics))
        things, references = self._scored(config, request)
        model = self.in_use(task)
        rows = [model.row(thing) for thing in things]
        texts = [one.text for one in model.of_rows(rows, [str(thing) for thing in things])]
        scores = self.text_scores(texts, references, names)
        values |= {name: score.value for name, score in zip(names, scores, strict=True)}

        def value(numbers: Sequence[int]) -> float:
            ours, theirs = ([side[number] for number in numbers] for side in (texts, references))
            return self.text_scores(ours, theirs, names[:1])[0].value

        by_length = buckets([len(row) for row in rows], request, value) if self.unit else ()
        return Scored(values=self.pick(values, request.metrics), buckets=by_length, unit=self.unit)

    def _scored(self, config: Any, request: Asked) -> Things:
        """The things whose texts a comparison scores."""
        path = request.test.get("data") or config.data.valid_data
        assert path is not None  # see hold_out
        return self.things(config, path)


def _texts(model: Any, things: Sequence[Any], search: Any) -> list[Any]:
    return model.of_rows([model.row(thing) for thing in things], [str(thing) for thing in things], config=search)


def _signed(scores: Sequence[Score], form: TextConfig, change: str) -> list[Score]:
    """The scores, whose signatures name the change of the model and those of the references."""
    changes = [
        *([change] if change else []),
        *(["case:lower"] if form.lowercase else []),
        *([f"without:{printable(form.remove)}"] if form.remove else []),
    ]
    return [replace(score, signature="|".join([*changes, score.signature or ""]).strip("|")) for score in scores]
