"""The command line's side of language modelling: sizes from the text, a sample when it is trained, scores of texts."""

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path

from foveate.cli.setup import say
from foveate.cli.task.report import Sample
from foveate.cli.task.text import (
    Figures,
    print_figures,
    require_measured,
    say_sizes,
    size,
    text_lines,
    validation_lines,
    write_text_report,
)
from foveate.config import setting
from foveate.tasks.language_model.task import VALIDATED, LanguageModelTask, LanguageModelTaskConfig
from foveate.tasks.language_model.use import Generator
from foveate.tasks.language_model_suggestion import suggest_language_model
from foveate.tasks.plan import Probe
from foveate.tasks.probe import language_model_probe
from foveate.tasks.size import Allowance
from foveate.tasks.suggestion import Suggestion
from foveate.tasks.text import TextData
from foveate.train import TrainConfig

__all__ = ["RunConfig", "evaluate_text", "finish", "open_task", "prepare", "probe", "report", "size", "suggest"]

SAMPLE_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class RunConfig(LanguageModelTaskConfig):
    """A language model's run: the task's configuration, and how to train."""

    train: TrainConfig = setting(TrainConfig(), "how to train")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_measured(self.train, VALIDATED)


def suggest(config: RunConfig, allowance: Allowance) -> Suggestion:
    """Sizes for a run without a configuration; `config` says where the text is."""
    return suggest_language_model(config.data, allowance)


def probe(config: RunConfig, arguments: argparse.Namespace) -> Probe:
    """What `foveate plan` measures."""
    return language_model_probe(config, vocab=arguments.vocab)


def prepare(config: RunConfig, folder: Path) -> LanguageModelTask:
    """Read the text into the run folder, and say how much there is."""
    task = LanguageModelTask.prepare(config, folder)
    say_sizes(task)
    return task


def open_task(config: RunConfig, folder: Path) -> LanguageModelTask:
    """The task of a run folder that `prepare` has filled."""
    return LanguageModelTask.open(config, folder)


def finish(task: LanguageModelTask, config: RunConfig, folder: Path) -> None:
    """report.html, a sample, and what to try next."""
    generator = Generator(task.model, task.data.tokeniser, config.decode, config.data)
    _report(generator, task.data, folder, folder / "report.html")
    [sample] = generator.generate(length=SAMPLE_LENGTH)
    say(f"A sample:\n{sample}\n")
    say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
    say(f'Try:  foveate generate {shlex.quote(str(folder))} "…"')


def report(folder: Path, path: Path) -> None:
    """The report of a run, by its files."""
    _report(Generator.load(folder, note=say), TextData.open(folder), folder, path)


def evaluate_text(arguments: argparse.Namespace) -> None:
    """Print loss, perplexity, bits per byte and accuracy of a text; with a report on request."""
    folder = Path(arguments.run)
    generator = Generator.load(folder, precision=arguments.precision, note=say)
    figures = generator.evaluate(text_lines(arguments), context=arguments.context or 0)
    print_figures(arguments, figures)
    if arguments.report:
        test = Path(arguments.text).name, figures
        _report(generator, TextData.open(folder), folder, Path(arguments.report), test)
        say(f"The report is in {arguments.report}.")


def _report(
    generator: Generator, data: TextData, folder: Path, path: Path, test: tuple[str, Figures] | None = None
) -> None:
    """The samples are halves of lines, gone on from."""
    samples: list[Sample] = []
    for number, line in enumerate(validation_lines(data)):
        prompt = line[: len(line) // 2]
        [found] = generator.generate(prompt, first=number, lines=1, length=len(line))
        samples.append((prompt, line.removeprefix(prompt), found.text, generator.align(str(found))))
    shown = shlex.quote(str(folder))
    commands = [f'foveate generate {shown} "…"', f"foveate evaluate {shown} --text FILE"]
    names = ("read", "looked from")
    write_text_report(generator.model, data, folder, path, samples=samples, commands=commands, test=test, names=names)
