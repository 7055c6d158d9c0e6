"""foveate train"""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foveate.cli.files import examples, file_arguments, files_given, named, option
from foveate.errors import UsageError
from foveate.tasks import TASKS
from foveate.tasks.option import (
    columns_argument,
    device_argument,
    machine_arguments,
    processes_argument,
    size_argument,
    with_device,
)
from foveate.voice import hush, say

LAUNCH = ".launch"
"""The file of a run folder that identifies the launch by torchrun that has begun the run."""
EXAMPLE = """
examples:
  foveate train translate --source train.en --target train.fr --out run/
  foveate train translate --source pairs.tsv --out run/ --set train.steps=2000 --set model=transformer
  foveate train translate run.toml --out run/
  foveate train language_model --text shakespeare.txt --out run/
  foveate train masked_language_model --text articles.txt --out run/
  foveate train tag --data tagged.txt --out run/
  foveate train tag --data recordings-with-label-tracks.tsv --out phones/
  foveate train classify --data texts.tsv --out run/
  foveate train classify --data folder-of-folders/ --out run/
  foveate train transcribe --data clips.tsv --out asr/
  foveate train transcribe --data clips.tsv --valid-data other-voices.tsv --out asr/ --size medium
  foveate train speak --data clips.tsv --out voice/
  foveate train caption --data captions.tsv --out captions/
  foveate train molecule --data solubility.csv --out solubility/

Without a TOML file, sizes are chosen for the data and this machine, and the choice is explained: --size small takes
about 10 minutes, medium an hour, large a night. Ctrl-C saves the run; `foveate resume` continues it.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = examples(EXAMPLE, parser)
    what = "; ".join(f"{name}: {task.summary}" for name, task in TASKS.items())
    parser.add_argument("task", choices=list(TASKS), help=f"the task; {what}")
    parser.add_argument("config", nargs="?", metavar="TOML", help="configuration file; see `foveate plan --show`")
    file_arguments(parser)
    tasks = named(parser)
    columns_argument(parser, hidden=bool(tasks) and not any(TASKS[task].reads_columns for task in tasks))
    parser.add_argument("--out", metavar="FOLDER", required=True, help="the run folder to create")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="set one setting; may be repeated")
    size_argument(parser)
    parser.add_argument("--quiet", action="store_true", help="print only results and errors")
    machine_arguments(parser)
    device_argument(parser)
    processes_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.resume import proceed
    from foveate.cli.training import require_same_command, train
    from foveate.config import modules_in, permit, to_dict
    from foveate.storage.run import read_run
    from foveate.train.world import joined, restarts

    folder = Path(arguments.out)
    with joined() as world:
        hush(arguments.quiet or not world.is_first)
        require_same_command(arguments, world)
        begun: list[Begun] = []
        again = any(int(count) for count in world.gather(str(restarts())))  # each machine counts its own

        def start() -> None:
            if not ((again or _has_begun(arguments, folder)) and (folder / "config.json").exists()):
                begun.append(begin(arguments, folder, world.size))

        world.once(start, during="the preparation of the data")
        if not begun:  # another process has begun it, or this one before a restart
            saved = read_run(folder)
            with permit(*modules_in(saved.config)):
                return proceed(saved, arguments, world)
        first = begun[0]
        if arguments.processes:
            from foveate.cli.supervision import supervise  # here: it imports all of torchrun

            return supervise(folder, arguments, modules_in(to_dict(first.config)), first.config.train.reduction)
        return train(
            arguments.task, first.task, first.config, folder, quiet=arguments.quiet, others=first.others, world=world
        )


@dataclass(frozen=True)
class Begun:
    """A run that is ready to be trained, and sentences on other sizes."""

    task: Any
    config: Any
    others: Callable[[float], Iterator[str]] | None


def begin(arguments: argparse.Namespace, folder: Path, size: int = 1) -> Begun:
    """Chooses the settings, prepares the data and makes the run folder, for a world of `size` processes, or of those
    that --processes starts.
    """
    from foveate.cli.setup import choices, prepare_machine, resolve, suggested, task_of
    from foveate.cli.training import other_sizes
    from foveate.config import to_dict
    from foveate.storage.draft import write_file
    from foveate.storage.run import begin_run, create_run, require_new
    from foveate.train import require_measured
    from foveate.train.accelerator import require_device
    from foveate.train.resumption import exclusive
    from foveate.train.sharing import require_batches

    name, assignments = arguments.task, with_device(arguments)
    for assignment in assignments:  # before any file is read
        if assignment.partition("=")[0].strip() == "train.device":
            require_device(assignment.partition("=")[2].strip().strip("\"'"), arguments.processes)
    task_of(arguments.config, name)
    task, files = TASKS[name], files_given(arguments, name)
    suggestion = suggested(name, arguments.config, files, arguments)
    base = suggestion.settings if suggestion else {}
    config = resolve(base, arguments.config, files, assignments, kind=task.side.run_config)
    require_device(config.train.device, arguments.processes)
    if not getattr(config.data, task.first):
        raise UsageError(
            f"data.{task.first} is missing: there is nothing to train on. Give {option(task.first)} FILE, or set it."
        )
    if arguments.processes:
        from foveate.cli.supervision import require_processes

        require_processes(arguments.processes, config.train.accumulate)
    require_batches(config.train.accumulate, size)
    require_new(folder)
    for sentence in choices(suggestion, config) if suggestion else ():
        say(sentence)
    prepare_machine(arguments, quiet=arguments.quiet or bool(arguments.processes))  # which report it themselves
    begin_run(folder)
    with exclusive(folder):
        require_new(folder)  # another process may have made it a run meanwhile
        prepared = task.side.prepare(config, folder, say)
        config = prepared.config  # with the sizes of an encoder that it begins with
        require_measured(prepared, config.train)
        if identity := _identity(arguments):
            write_file(folder / LAUNCH, identity.encode())
        # Last: data that cannot be used leave nothing to resume.
        create_run(folder, name, to_dict(config), prepared.digests)
    others = other_sizes(name, suggestion, config, files, assignments) if suggestion else None
    return Begun(prepared, config, others)


def _has_begun(arguments: argparse.Namespace, folder: Path) -> bool:
    """Whether the same launch, by the same command, has begun the run of this folder."""
    identity, path = _identity(arguments), folder / LAUNCH
    return bool(identity) and path.exists() and path.read_bytes() == identity.encode()


def _identity(arguments: argparse.Namespace) -> str:
    """The digest of a launch that has a name, and of its command; empty without a name."""
    from foveate.train.world import launch

    words = {name: value for name, value in vars(arguments).items() if not callable(value)}
    named = json.dumps([launch(), words], sort_keys=True, default=str)
    return hashlib.sha256(named.encode()).hexdigest() if launch() else ""
