"""Training with progress, and estimates of its time and of other sizes, for `train`, `resume` and `plan`."""

import argparse
import io
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from foveate import machine
from foveate.cli.files import option
from foveate.cli.setup import resolve
from foveate.config import modules_in, permit, to_dict
from foveate.errors import FoveateError, UsageError
from foveate.storage.checkpoint import STATE, Checkpoints, is_finished
from foveate.storage.manifest import file_digest, read_json
from foveate.suggestion import counted
from foveate.tasks import TASKS
from foveate.tasks.run_plan import MINUTES, Suggestion
from foveate.tasks.side import written
from foveate.train import Outcome, TrainConfig, fit, step_seconds, total_seconds, watch
from foveate.train.accelerator import chosen_device, described
from foveate.train.world import ALONE, World
from foveate.voice import say, tell

APART = {"command", "run", "out", "config", "modules", "threads", "no_tune", "processes", "quiet", "debug"}
"""Arguments that may differ between the processes of a launch: each machine may have its own names of folders and
files, and `fit` compares threads and switches itself."""
LENGTH = 30
"""The assumed tokens of an example without data."""


def train(
    name: str,
    task: Any,
    config: Any,
    folder: Path,
    *,
    quiet: bool,
    resume: bool = False,
    accepted: Collection[str] = (),
    others: Callable[[float], Iterator[str]] | None = None,
    world: World = ALONE,
) -> int:
    """Train, report how training ended, and write the task's report; returns 130 when the user interrupts.

    Of several processes each calls this, and the first one reports. `others` says what other sizes would take, given
    the seconds that this one takes.
    """
    side = TASKS[name].side
    done, used = _before(folder) if resume else (0, 0.0)
    say(f"{type(task.model).__name__} with {task.model.parameter_count():,} parameters; {side.size(task)}.")
    for sentence in () if quiet or world.size > 1 else outlook(task, config.train, done, others, used=used):
        say(sentence)
    device = chosen_device(config.train.device)
    on_cpu = device is None or device.type == "cpu"
    if on_cpu and config.train.precision == "bfloat16" and not machine.multiplies_bfloat16():
        say(
            "This processor multiplies bfloat16 without instructions for it, several times as slowly as float32: a run "
            "with --set train.precision=float32 is faster here."
        )
    if device:
        others_too = " Each process has one of its own." if world.size > 1 and device.type == "cuda" else ""
        say(f"Trains on {described(device)}.{others_too}")
    progress = watch(sys.stderr if world.is_first else io.StringIO(), quiet=quiet or not world.is_first)
    finished = is_finished(folder)
    outcome = fit(
        task,
        config.train,
        folder,
        resume=resume,
        progress=progress,
        configuration=to_dict(config),
        accepted=accepted,
        world=world,
    )
    shown = written(folder)
    if outcome.interrupted:
        if world.is_first:
            tell(f"Stopped at step {outcome.step:,}; everything is saved. Continue with:  foveate resume {shown}")
        if resume and (folder / "report.html").exists():
            say(f"report.html tells of the training before; `foveate report {shown}` writes it anew.")
        return 130
    before = finished and outcome.step == done

    def conclude() -> None:
        ending = "Finished before" if before else "Done"
        tell(f"{ending}: {outcome.stopped_because}, in {outcome.seconds / 60:.1f} minutes. {_best(outcome)}")
        if before:
            say(f"To train for longer:  foveate resume {shown} {_longer(config.train, outcome)}")
        with permit(*modules_in(to_dict(config))):  # the report reads the run, and these are imported already
            side.finish(task, folder)

    world.once(conclude, during="writing the report")
    return 0


def require_same_command(arguments: argparse.Namespace, world: World) -> None:
    """Raises UsageError, in all processes, where a launcher has given them different words: only those of the first
    process would have an effect.
    """
    if world.size == 1:
        return
    words: dict[str, str] = {}
    for name, value in vars(arguments).items():
        if name == "set":
            words |= {
                f"--set {path.strip()}": text.strip() for path, _, text in (each.partition("=") for each in value)
            }
        elif name not in APART and not callable(value) and value is not None:
            words[option(name)] = str(value)
    config = getattr(arguments, "config", None)
    if config is not None and Path(config).is_file():
        words["the TOML file's SHA-256"] = file_digest(Path(config))[:16]
    world.require_equal(words)


def outlook(
    task: Any,
    config: TrainConfig,
    done: int = 0,
    others: Callable[[float], Iterator[str]] | None = None,
    *,
    used: float = 0.0,
) -> Iterator[str]:
    """Sentences on the expected time of training, from some steps that are timed and undone.

    `used` are the seconds that the run has taken already, which count for `train.max_minutes`.
    """
    budget = None if config.max_minutes is None else 60 * config.max_minutes - used
    if budget is not None and budget <= 0:
        yield (
            f"{_whole_run(config.max_minutes)} {_minutes(used)} are used already, so there is no time left to train in."
        )
        return
    seconds = step_seconds(task, config) if done < config.steps else None
    if seconds is None:
        return
    left = total_seconds(task, config, seconds, done)
    ends = "" if config.patience is None else ", less if validations stop improving"
    sentence = f"Estimated time: {duration(left)} for {counted(config.steps - done, 'step')} of {_each(seconds)}{ends}."
    if budget is not None and budget < left:
        reached = done + int((config.steps - done) * budget / left)
        of = f" for the whole run, with {_minutes(used)} used already," if used else ""
        sentence += f" train.max_minutes = {config.max_minutes:g}{of} ends it before, at about step {reached:,}."
    yield sentence
    if others is not None:
        yield from others(left)


def duration(seconds: float) -> str:
    """
    >>> duration(20.0), duration(600.0), duration(20_000.0)
    ('less than a minute', 'about 10 minutes', 'about 5.6 hours')
    """
    if seconds < 50:
        return "less than a minute"
    if seconds < 5400:
        return f"about {counted(max(round(seconds / 60), 1), 'minute')}"
    return f"about {seconds / 3600:.1f} hours"


def require_time(folder: Path, config: TrainConfig) -> None:
    """Raises UsageError if a run has used up its minutes."""
    done, used = _before(folder)
    if config.max_minutes is not None and 60 * config.max_minutes <= used:
        raise UsageError(
            f"{_whole_run(config.max_minutes)} {folder} has used {_minutes(used)} already. Name more, or end it where "
            f"it is with --set train.steps={max(done, 1)}."
        )


def _before(folder: Path) -> tuple[int, float]:
    """The step and the seconds of a run's newest valid checkpoint."""
    checkpoints = Checkpoints(folder / "checkpoints")
    for step in reversed(checkpoints.steps()):
        if checkpoints.is_sound(step):
            seconds = read_json(checkpoints.path(step) / STATE).get("seconds")
            return step, seconds if isinstance(seconds, float) else 0.0
    return 0, 0.0


def _whole_run(minutes: float | None) -> str:
    return f"train.max_minutes = {minutes:g} counts the minutes of the whole run, resumed parts included."


def _minutes(seconds: float) -> str:
    """
    >>> _minutes(61.0), _minutes(1.2)
    ('1.0 minutes', '0.02 minutes')
    """
    return f"{seconds / 60:.1f} minutes" if seconds >= 6 else f"{seconds / 60:.2g} minutes"


def _each(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _longer(config: TrainConfig, outcome: Outcome) -> str:
    """The option that lets a finished run continue."""
    if "minute" in outcome.stopped_because:
        return f"--set train.max_minutes={2 * (config.max_minutes or 1):g}"
    if "steps" in outcome.stopped_because:
        return f"--set train.steps={2 * config.steps}"
    return "--set train.patience=none"


def _best(outcome: Outcome) -> str:
    figures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.best.items())
    return f"Best validation at step {outcome.best_step:,}: {figures}." if outcome.best_step is not None else ""


def lengths(name: str, suggestion: Suggestion | None = None) -> list[int]:
    """The lengths for `Side.probe`, from the data where there is a suggestion for them."""
    usual = suggestion.lengths if suggestion else TASKS[name].side.usual_lengths
    return [usual[place] if place < len(usual) else LENGTH for place in range(len(TASKS[name].lengths))]


def other_sizes(
    name: str, suggestion: Suggestion, config: Any, files: Mapping[str, Any], assignments: Sequence[str]
) -> Callable[[float], Iterator[str]]:
    """Sentences on parameters, steps and time of each larger size, given the seconds that this one takes.

    A step's time is taken to grow with parameters and with tokens: within a quarter of what was measured of
    Transformers from 1.6 to 34 million parameters, and of recurrent models from 1.4 to 3.9.
    """
    side = TASKS[name].side

    def parameters(of: Any) -> int:
        model = side.probe(of, lengths(name, suggestion), None).model
        return sum(weight.numel() for weight in model.parameters())

    def sentences(seconds: float) -> Iterator[str]:
        ours, minutes = None, MINUTES[suggestion.size]
        if seconds > 2 * 60 * minutes and config.train.steps == suggestion.settings["train"]["steps"]:
            fitting = max(int(config.train.steps * 60 * minutes / seconds), 1)
            yield (
                f"This machine is slower than the rule for {minutes} minutes takes it to be, or busy: "
                f"--set train.steps={fitting} would fit."
            )
        begun = getattr(config, "initialise_from", None) is not None  # which has a size already
        for size, settings in () if begun else suggestion.others.items():
            try:
                other = resolve(settings, None, files, assignments, kind=side.run_config)
                ours = ours or parameters(config)
                theirs = parameters(other)
            except FoveateError:  # what is set fits this size alone
                continue
            if theirs * other.train.steps <= ours * config.train.steps:
                continue
            work = theirs * other.train.steps * getattr(other.data, "max_tokens", 1)
            there = seconds * work / (ours * config.train.steps * getattr(config.data, "max_tokens", 1))
            steps = f"{other.train.steps:,} steps"
            time = duration(there).removeprefix("about ")
            yield f"--size {size} would be {theirs:,} parameters and {steps}: roughly {time}."

    return sentences
