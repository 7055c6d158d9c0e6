"""The command line's side of language modelling: sizes from the text, and a sample when it is trained."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from foveate.cli.setup import say
from foveate.config import setting
from foveate.tasks.generator import Generator
from foveate.tasks.language_model import VALIDATED, LanguageModelTask, LanguageModelTaskConfig
from foveate.tasks.language_model_suggestion import suggest_language_model
from foveate.tasks.suggestion import Suggestion
from foveate.train import TrainConfig

SAMPLE_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class RunConfig(LanguageModelTaskConfig):
    """A language model's run: the task's configuration, and how to train."""

    train: TrainConfig = setting(TrainConfig(), "how to train")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train.metric not in VALIDATED:
            raise ValueError(f"train.metric must be one of {', '.join(VALIDATED)}, got {self.train.metric!r}")


def suggest(files: Mapping[str, str]) -> Suggestion:
    """Sizes for a run without a configuration."""
    return suggest_language_model(files["text"])


def prepare(config: RunConfig, folder: Path) -> LanguageModelTask:
    """Read the text into the run folder, and say how much there is."""
    task = LanguageModelTask.prepare(config, folder)
    for part, store in (("train", task.data.training), ("valid", task.data.validation)):
        say(f"{part}: {len(store) - 1:,} lines, {store.num_tokens - 1:,} tokens.")
    return task


def open_task(config: RunConfig, folder: Path) -> LanguageModelTask:
    """The task of a run folder that `prepare` has filled."""
    return LanguageModelTask.open(config, folder)


def size(task: LanguageModelTask) -> str:
    """How much there is to train on, in words."""
    return f"{task.data.training.num_tokens - 1:,} tokens to train on"


def finish(task: LanguageModelTask, config: RunConfig, folder: Path) -> None:
    """A sample, and what to try next."""
    generator = Generator(task.model, task.data.tokeniser, config.decode, config.data)
    [sample] = generator.generate(length=SAMPLE_LENGTH)
    say(f"A sample:\n{sample}\n")
    say(f"The model is in {folder}.")
    say(f'Try:  foveate generate {shlex.quote(str(folder))} "…"')
