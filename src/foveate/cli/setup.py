"""Functions that commands share: configurations of runs, sentences about them, and the machine's switches."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from foveate import machine
from foveate.cli.files import option
from foveate.config import assign, build, read_toml, to_dict
from foveate.errors import UsageError
from foveate.suggestion import counted, did_you_mean, listing
from foveate.tasks import TASKS
from foveate.tasks.run_plan import BEGINNING, Allowance, Suggestion
from foveate.train import TrainConfig
from foveate.train.resumption import differences
from foveate.voice import say

Run = TypeVar("Run")
DATA = ("data.", "reader", "second_column", "track", *BEGINNING)
"""Settings that say where the data are, how they are read, and what a run begins with."""
TOKENISERS = ("tokeniser", "source", "target")
"""The reasons of tokenisers."""


def plain(base: Mapping[str, Any], files: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """A configuration as plain data: `base`, then the files of data, then the assignments, which win."""
    data = base.get("data", {})
    if files and isinstance(data, Mapping):
        base = {**base, "data": {**data, **files}}
    return dict(assign(base, assignments))


def resolve(
    base: Mapping[str, Any],
    toml: str | None,
    files: Mapping[str, Any],
    assignments: Sequence[str],
    *,
    kind: type[Run],
) -> Run:
    """The configuration of a run: a TOML file if there is one, otherwise `base`, then as in `plain`.

    A file may name in `task` what it is for: see `task_of`.
    """
    mapping: Mapping[str, Any] = base if toml is None else read_toml(toml)
    mapping = {name: value for name, value in mapping.items() if name != "task"}
    return build(kind, plain(mapping, files, assignments), imports=True)


def suggested(
    task: str, toml: str | None, files: Mapping[str, Any], arguments: argparse.Namespace
) -> Suggestion | None:
    """Settings that suit the data, by the size and the threads that are asked for; None where a TOML file has them.

    Raises UsageError where there are no data, and for a size of a model whose weights come from `initialise_from`.
    """
    size = arguments.size
    if toml is not None:
        if size:
            raise UsageError("--size chooses sizes where no TOML file does. Leave one of them out.")
        return None
    entry = TASKS[task]
    if entry.first not in files:
        partner = " (and --target FILE)" if "target" in entry.files else ""
        raise UsageError(f"There is nothing to train on. Give {option(entry.first)} FILE{partner}, or a TOML file.")
    assignments = [one for one in arguments.set if one.partition("=")[0].strip().startswith(DATA)]
    chosen = any(one.partition("=")[0].strip() in ("reader", "reader.kind") for one in assignments)
    parts = [one for one in assignments if one.strip().startswith("reader.") and not chosen]
    begun = [one for one in assignments if one not in parts]
    config = resolve({}, None, files, begun, kind=entry.side.run_config)
    initial = getattr(config, "initialise_from", None)
    if size and initial is not None:
        raise UsageError(
            f"--size {size} chooses a model, and initialise_from = {initial} brings its own. Leave one of them out; "
            "--set train.steps=N says how long to train."
        )
    allowance = Allowance.here(size, arguments.threads)
    if not parts:
        return entry.side.suggest(config, allowance)
    # A reader that the data suggest, with some settings of the user, by which sizes are chosen.
    reader = {"reader": entry.side.suggest(config, allowance).settings.get("reader", {})}
    config = resolve(reader, None, files, assignments, kind=entry.side.run_config)
    suggestion = entry.side.suggest(config, allowance)
    others = {size: {**reader, **settings} for size, settings in suggestion.others.items()}
    return replace(suggestion, settings={**reader, **suggestion.settings}, others=others)


def choices(suggestion: Suggestion, config: Any, *, varied: Iterable[str] = (), budget: str = "") -> Iterator[str]:
    """Sentences on the settings that were chosen for the data with their reasons, or that the user has set instead.

    `varied` are settings that differ between what is compared, each within the `budget`.
    """
    yield suggestion.facts
    changes = differences(to_dict(build(type(config), suggestion.settings)), to_dict(config))
    changed = {path: change.rpartition(" → ")[2] for path, change in changes.items()}
    changed |= dict.fromkeys(varied, "varied")
    begun, own = getattr(config, "initialise_from", None), getattr(config, "new_vocabulary", False)
    for reason in suggestion.reasons:
        ours = {
            path: new
            for path, new in changed.items()
            if new != "not set" and any(path == one or path.startswith(f"{one}.") for one in reason.about)
        }
        if begun and (reason.name == "model" or (reason.name in TOKENISERS and not own)):
            yield f"{reason.name}: as in {begun}, which this begins with{f'; {_as_set(ours)}' if ours else ''}"
        else:
            yield f"{reason.name}: {_as_set(ours) if ours else reason.why}"
    yield f"training: {budget or _pace(config.train)}"
    yield "Change any of it with --set, or write a TOML file."


def _as_set(settings: Mapping[str, str]) -> str:
    """The first few of the user's settings; a table of another kind is shown by its kind alone."""
    kinds = [path for path in settings if path.endswith(".kind")]
    inside = {
        path for path in settings for kind in kinds if path != kind and path.startswith(kind.removesuffix("kind"))
    }
    shown = [path for path in settings if path not in inside]
    pairs = (f"{path.removesuffix('.kind')} = {settings[path]}" for path in shown)
    return f"as set, {listing(pairs, 4)}"


def _pace(train: TrainConfig) -> str:
    minutes = f" or {train.max_minutes:g} minutes" if train.max_minutes is not None else ""
    better = "nothing better" if train.metric == "loss" else f"no better {train.metric}"
    ends = "" if train.patience is None else f", stopping when {train.patience} validations bring {better}"
    return f"at most {counted(train.steps, 'step')}{minutes}{ends}"


def task_of(toml: str | None, named: str | None = None) -> str | None:
    """The named task, or else the task that a configuration file names.

    Raises UsageError when the file is for another task, or names an unknown one.
    """
    task = None if toml is None else read_toml(toml).get("task")
    if task is not None and task not in TASKS:
        raise UsageError(f"{toml} names unknown task {task!r}.{did_you_mean(str(task), TASKS)}")
    if named is not None and task not in (None, named):
        raise UsageError(f"{toml} is for the task {task}, not for {named}. Name that task, or another file.")
    return named or task


def prepare_machine(arguments: argparse.Namespace, *, quiet: bool = False) -> None:
    """Set the threads, turn on the switches for this machine and report them. Nothing is measured."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if not arguments.no_tune:
        tuning = machine.tune()
        if not quiet:
            say(f"Switches for this machine: {tuning}. (`foveate doctor` says why.)")
