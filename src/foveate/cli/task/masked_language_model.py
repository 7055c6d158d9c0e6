"""The command line's side of masked language modelling: sizes from the text."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from foveate.cli.setup import say
from foveate.config import setting
from foveate.tasks.language_model_suggestion import suggest_masked_language_model
from foveate.tasks.masked_language_model import VALIDATED, MaskedLanguageModelConfig, MaskedLanguageModelTask
from foveate.tasks.suggestion import Suggestion
from foveate.train import TrainConfig


@dataclass(frozen=True, kw_only=True)
class RunConfig(MaskedLanguageModelConfig):
    """A masked language model's run: the task's configuration, and how to train."""

    train: TrainConfig = setting(TrainConfig(), "how to train")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train.metric not in VALIDATED:
            raise ValueError(f"train.metric must be one of {', '.join(VALIDATED)}, got {self.train.metric!r}")


def suggest(files: Mapping[str, str]) -> Suggestion:
    """Sizes for a run without a configuration."""
    return suggest_masked_language_model(files["text"])


def prepare(config: RunConfig, folder: Path) -> MaskedLanguageModelTask:
    """Read the text into the run folder, and say how much there is."""
    task = MaskedLanguageModelTask.prepare(config, folder)
    for part, store in (("train", task.data.training), ("valid", task.data.validation)):
        say(f"{part}: {len(store) - 1:,} lines, {store.num_tokens - 1:,} tokens.")
    return task


def open_task(config: RunConfig, folder: Path) -> MaskedLanguageModelTask:
    """The task of a run folder that `prepare` has filled."""
    return MaskedLanguageModelTask.open(config, folder)


def size(task: MaskedLanguageModelTask) -> str:
    """How much there is to train on, in words."""
    return f"{task.data.training.num_tokens - 1:,} tokens to train on"


def finish(task: MaskedLanguageModelTask, config: RunConfig, folder: Path) -> None:
    """What to try next."""
    say(f"The model is in {folder}.")
    say(f'Try, in Python:  foveate.tasks.filler.Filler.load("{folder}").fill("… ___ …")')
