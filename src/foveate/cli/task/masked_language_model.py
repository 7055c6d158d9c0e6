"""The command line's side of masked language modelling: sizes from the text, gaps filled when it is trained."""

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
from foveate.errors import UsageError
from foveate.tasks.language_model_suggestion import suggest_masked_language_model
from foveate.tasks.masked_language_model.task import VALIDATED, MaskedLanguageModelConfig, MaskedLanguageModelTask
from foveate.tasks.masked_language_model.use import GAP, Filler
from foveate.tasks.plan import Probe
from foveate.tasks.probe import masked_language_model_probe
from foveate.tasks.size import Allowance
from foveate.tasks.suggestion import Suggestion
from foveate.tasks.text import TextData, text_of
from foveate.train import TrainConfig

__all__ = ["RunConfig", "evaluate_text", "finish", "open_task", "prepare", "probe", "report", "size", "suggest"]


@dataclass(frozen=True, kw_only=True)
class RunConfig(MaskedLanguageModelConfig):
    """A masked language model's run: the task's configuration, and how to train."""

    train: TrainConfig = setting(TrainConfig(), "how to train")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_measured(self.train, VALIDATED)


def suggest(config: RunConfig, allowance: Allowance) -> Suggestion:
    """Sizes for a run without a configuration; `config` says where the text is."""
    return suggest_masked_language_model(config.data, allowance)


def probe(config: RunConfig, arguments: argparse.Namespace) -> Probe:
    """What `foveate plan` measures."""
    return masked_language_model_probe(config, vocab=arguments.vocab)


def prepare(config: RunConfig, folder: Path) -> MaskedLanguageModelTask:
    """Read the text into the run folder, and say how much there is."""
    task = MaskedLanguageModelTask.prepare(config, folder)
    say_sizes(task)
    if task.report:
        say(task.report)
    return task


def open_task(config: RunConfig, folder: Path) -> MaskedLanguageModelTask:
    """The task of a run folder that `prepare` has filled."""
    return MaskedLanguageModelTask.open(config, folder)


def finish(task: MaskedLanguageModelTask, config: RunConfig, folder: Path) -> None:
    """report.html, and what to try next."""
    _report(Filler(task.model, task.data.tokeniser, config), task.data, folder, folder / "report.html")
    say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
    say(f'Try:  foveate fill {shlex.quote(str(folder))} "… {GAP} …"')


def report(folder: Path, path: Path) -> None:
    """The report of a run, by its files."""
    _report(Filler.load(folder, note=say), TextData.open(folder), folder, path)


def evaluate_text(arguments: argparse.Namespace) -> None:
    """Print loss, perplexity and accuracy of the gaps in a text; with a report on request."""
    if arguments.context is not None:
        raise UsageError("--context is for models that read from left to right: this one fills gaps. Leave it out.")
    if arguments.precision != "float32":
        raise UsageError(f"--precision {arguments.precision}: gaps are scored in float32. Leave it out.")
    folder = Path(arguments.run)
    filler = Filler.load(folder, note=say)
    figures = filler.evaluate(text_lines(arguments))
    print_figures(arguments, figures)
    if arguments.report:
        _report(filler, TextData.open(folder), folder, Path(arguments.report), (Path(arguments.text).name, figures))
        say(f"The report is in {arguments.report}.")


def _report(filler: Filler, data: TextData, folder: Path, path: Path, test: tuple[str, Figures] | None = None) -> None:
    """The samples are lines, of which a third token from the middle is asked for."""
    samples: list[Sample] = []
    for line in validation_lines(data):
        tokens = data.tokeniser.encode(line)
        parts = [tokens[: len(tokens) // 3], tokens[len(tokens) // 3 + 1 :]]
        asked = GAP.join(text_of(data.tokeniser, part) for part in parts)
        samples.append((asked, line, filler.fill(asked).text, filler.align(asked)))
    shown = shlex.quote(str(folder))
    commands = [f'foveate fill {shown} "… {GAP} …"', f"foveate evaluate {shown} --text FILE"]
    names = ("read", "gap")
    write_text_report(filler.model, data, folder, path, samples=samples, commands=commands, test=test, names=names)
