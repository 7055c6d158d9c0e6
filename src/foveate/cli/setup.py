"""What the commands share: run configurations, the machine's switches, loading a model."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch

from foveate import machine
from foveate.cli.voice import say as say
from foveate.config import build, override, read_toml, setting, to_dict
from foveate.data.text import read_lines, short
from foveate.decode import Constraints, DecodeConfig
from foveate.errors import UsageError
from foveate.suggestion import counted, did_you_mean
from foveate.tasks.suggestion import Suggestion
from foveate.tasks.translate.task import TranslateConfig, require_measured
from foveate.train import TrainConfig
from foveate.train.resumption import differences

Run = TypeVar("Run")
DATA = ("data.", "second_column", "initialise_from")
"""Settings that say where the data are, how they are read, and what a run begins with."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(TranslateConfig):
    """A translation run: the task's configuration, and how to train."""

    train: TrainConfig = setting(TrainConfig(), "how to train")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_measured(self, self.train.metric)


def resolve(
    base: Mapping[str, Any],
    toml: str | None,
    files: Mapping[str, Any],
    assignments: Sequence[str],
    *,
    kind: type[Run] = RunConfig,  # type: ignore[assignment]
) -> Run:
    """A TOML file if there is one, otherwise `base`; then the files, then the assignments, which win.

    What task a file is for, it may say in `task`: see `task_of`.
    """
    mapping: Mapping[str, Any] = base if toml is None else read_toml(toml)
    mapping = {name: value for name, value in mapping.items() if name != "task"}
    data = mapping.get("data", {})
    if files and isinstance(data, Mapping):
        mapping = {**mapping, "data": {**data, **files}}
    return build(kind, assign(mapping, assignments), imports=True)


def data_config(files: Mapping[str, Any], assignments: Sequence[str], kind: type[Run]) -> Run:
    """Where the data are and how they are read, before anything else is chosen for them."""
    about = [one for one in assignments if one.partition("=")[0].strip().startswith(DATA)]
    return resolve({}, None, files, about, kind=kind)


def require_own_size(size: str | None, config: Any) -> None:
    """Raises UsageError for a size of a model that has one already: that of the weights it begins with."""
    begun = getattr(config, "initialise_from", None)
    if size and begun is not None:
        raise UsageError(
            f"--size {size} chooses a model, and initialise_from = {begun} brings its own. Leave one of them out; "
            "--set train.steps=N says how long to train."
        )


def choices(suggestion: Suggestion, config: Any, *, varied: Iterable[str] = (), budget: str = "") -> Iterator[str]:
    """What was chosen from the data and why, where it was not set otherwise; and what is used where it was.

    `varied` are settings that differ between what is compared, each within the `budget`.
    """
    yield suggestion.facts
    found = differences(to_dict(build(type(config), suggestion.settings)), to_dict(config))
    changed = {path: change.rpartition(" → ")[2] for path, change in found.items()}
    changed |= dict.fromkeys(varied, "varied")
    begun = getattr(config, "initialise_from", None)
    for reason in suggestion.reasons:
        ours = {
            path: new
            for path, new in changed.items()
            if new != "not set" and any(path == one or path.startswith(f"{one}.") for one in reason.about)
        }
        if begun and reason.name in ("model", "tokeniser", "source", "target"):
            yield f"{reason.name}: as in {begun}, which this begins with"
        else:
            yield f"{reason.name}: {_as_set(ours) if ours else reason.why}"
    yield f"training: {budget or _pace(config.train)}"
    yield "Change any of it with --set, or write a TOML file."


def _as_set(settings: Mapping[str, str]) -> str:
    """Of a table of another kind the kind, and otherwise some of the settings."""
    kinds = [path for path in settings if path.endswith(".kind")]
    inside = {
        path for path in settings for kind in kinds if path != kind and path.startswith(kind.removesuffix("kind"))
    }
    shown = [path for path in settings if path not in inside]
    said = ", ".join(f"{path.removesuffix('.kind')} = {settings[path]}" for path in shown[:4])
    return f"as set, {said}" + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


def _pace(train: TrainConfig) -> str:
    minutes = f" or {train.max_minutes:g} minutes" if train.max_minutes is not None else ""
    better = "nothing better" if train.metric == "loss" else f"no better {train.metric}"
    ends = "" if train.patience is None else f", stopping when {train.patience} validations bring {better}"
    return f"at most {counted(train.steps, 'step')}{minutes}{ends}"


def task_of(toml: str | None, named: str | None = None) -> str | None:
    """The task that is named, or else the one that a configuration file names.

    Raises UsageError when the file is for another task, or for one that there is not.
    """
    from foveate.cli.task import TASKS

    said = None if toml is None else read_toml(toml).get("task")
    if said is not None and said not in TASKS:
        raise UsageError(f"{toml} is for the task {said!r}, which there is not.{did_you_mean(str(said), TASKS)}")
    if named is not None and said not in (None, named):
        raise UsageError(f"{toml} is for the task {said}, not for {named}. Name that task, or another file.")
    return named or said


def assign(mapping: Mapping[str, Any], assignments: Sequence[str]) -> Mapping[str, Any]:
    """Assignments `a.b=c` in plain data, where `model = "luong"` may stand for a table."""
    for assignment in assignments:
        path, _, value = assignment.partition("=")
        mapping = _tables(mapping, path)
        if path.strip().endswith(".kind"):
            # Another kind has other settings: those of the kind that was there would be unknown to it.
            mapping = override(mapping, [f"{path.strip().removesuffix('.kind')}={value}"])
        else:
            mapping = override(mapping, [assignment])
    return mapping


def prepare_machine(arguments: argparse.Namespace, *, quiet: bool = False) -> None:
    """Set the threads, turn on the switches that suit this machine and say which they are. Nothing is measured."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if not arguments.no_tune:
        tuning = machine.tune()
        if not quiet:
            say(f"Switches for this machine: {tuning}. (`foveate doctor` says why.)")


def say_columns(path: str, columns: tuple[int, int] | None, names: tuple[str, str]) -> None:
    """Tell which columns of a table are read, with what stands there first."""
    if columns is None:
        return
    cells = next((line for line in read_lines(path) if line.strip()), "").split("\t")
    shown = [short(cells[column]) if column < len(cells) else "missing" for column in columns]
    taken = zip(names, columns, shown, strict=True)
    said = "; ".join(f"{name} is column {column}, in the first line {cell}" for name, column, cell in taken)
    say(f"columns, counted from 0: {said}.")


def colour_wanted(stream: Any = None) -> bool:
    """Colours on a terminal, unless NO_COLOR is set."""
    stream = sys.stdout if stream is None else stream
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR")


def _tables(mapping: Mapping[str, Any], path: str) -> dict[str, Any]:
    """`model = "luong"` written out as a table, so that `model.cell` can be set in it."""
    result = dict(mapping)
    here = result
    for key in path.split(".")[:-1]:
        value = here.get(key.strip(), {})
        if not isinstance(value, (str, Mapping)):
            break  # `override` says what is wrong
        here[key.strip()] = {"kind": value} if isinstance(value, str) else dict(value)
        here = here[key.strip()]
    return result


def decode_config(base: DecodeConfig, arguments: argparse.Namespace) -> DecodeConfig:
    """The model's way of decoding with the changes that the command line asks for."""
    assignments = [assignment.strip().removeprefix("decode.") for assignment in arguments.set]
    # Another kind has other settings: it comes first, so that none of those beside it is lost.
    assignments.sort(key=lambda assignment: assignment.partition("=")[0].strip() != "kind")
    if arguments.beam is not None and assignments and assignments[0].partition("=")[0].strip() == "kind":
        raise UsageError(
            f"--beam {arguments.beam} and --set {assignments[0]} both say how to search. Leave one of them out; "
            "--set kind=beam takes --set beam=N."
        )
    table = to_dict(_Decoding(decode=base))["decode"]
    if arguments.beam is not None:
        kind = "beam" if arguments.beam > 1 else "greedy"
        if table["kind"] != kind:
            table = {"kind": kind, **{field.name: table[field.name] for field in fields(Constraints)}}
        table |= {"beam": arguments.beam} if arguments.beam > 1 else {}
    if getattr(arguments, "n_best", None):
        assignments.append(f"num_best={arguments.n_best}")
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        table = {"kind": value.strip()} if path.strip() == "kind" and equals else dict(assign(table, [assignment]))
    return build(_Decoding, {"decode": table}).decode


@dataclass(frozen=True, kw_only=True)
class _Decoding:
    decode: DecodeConfig
