"""foveate resume"""

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from foveate.errors import UsageError
from foveate.suggestion import counted
from foveate.tasks import task_of
from foveate.tasks.option import device_argument, machine_arguments, processes_argument, with_device
from foveate.voice import hush, say

if TYPE_CHECKING:
    from foveate.storage.run import Run
    from foveate.train.world import World


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate resume run/
  foveate resume run/ --set train.steps=12000       train longer, also after the run has ended
  foveate resume run/ --set train.max_minutes=20    in total, with the minutes before the stop
  foveate resume run/ --processes 4                 in four processes, whatever their number was before
  foveate resume run/ --device cuda                 on a GPU; --device cpu goes back

Continues from the newest valid checkpoint; on CPU the result is bit for bit that of an uninterrupted run.

--set changes when a run ends (train.steps, train.max_minutes, train.patience), train.log_every and train.keep, and how
several processes hold the model (train.sharding=replicate, moments or full); --device changes where it trains. With
more steps the schedules constant, inverse_square_root and plateau continue as if the run had been longer from the
start; cosine is stretched over all steps, so that the learning rate rises again.
"""
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument(
        "--set", action="append", default=[], metavar="A.B=C", help="change when the run ends; may be repeated"
    )
    parser.add_argument("--quiet", action="store_true", help="print only results and errors")
    machine_arguments(parser)
    device_argument(parser)
    processes_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.training import require_same_command
    from foveate.config import build, modules_in
    from foveate.storage.run import model_type_of, read_run
    from foveate.storage.shipped import is_shipped, run_folder
    from foveate.train.accelerator import require_device
    from foveate.train.world import joined

    folder = run_folder(arguments.run, say)
    if is_shipped(folder) or model_type_of(folder) is not None:
        raise UsageError(
            f"{arguments.run} came trained, without checkpoints and data: there is nothing to resume. Name a run that "
            "`foveate train` began."
        )
    with joined() as world:
        hush(arguments.quiet or not world.is_first)
        require_same_command(arguments, world)
        kind = task_of(read_run(folder)).side.run_config
        if assignments := with_device(arguments):
            world.once(lambda: extend(read_run(folder), assignments, kind, arguments.processes))
        saved = read_run(folder)
        if arguments.processes:
            from foveate.cli.supervision import require_processes, supervise  # here: they import all of torchrun

            train = build(kind, saved.config, where="").train
            require_device(train.device, arguments.processes)
            require_processes(arguments.processes, train.accumulate)
            return supervise(folder, arguments, modules_in(saved.config), train.reduction)
        return proceed(saved, arguments, world)


def proceed(saved: "Run", arguments: argparse.Namespace, world: "World") -> int:
    """Continue a run in this process."""
    from foveate.cli.setup import prepare_machine
    from foveate.cli.training import train
    from foveate.config import build
    from foveate.train.accelerator import require_device

    side = task_of(saved).side
    config = build(side.run_config, saved.config, where="")
    require_device(config.train.device)
    prepare_machine(arguments, quiet=arguments.quiet)
    return train(
        saved.task,
        side.open(config, saved.folder),
        config,
        saved.folder,
        quiet=arguments.quiet,
        resume=True,
        accepted=[path for change in saved.changes for path in change],
        world=world,
    )


def extend(saved: "Run", assignments: Sequence[str], kind: type[Any], processes: int | None = None) -> None:
    """Writes other settings for the end of a run to its config.json, with the previous ones.

    Raises UsageError for settings that would make it another run, and for fewer steps than it has made.
    """
    from foveate.cli.training import require_time
    from foveate.config import build, override, to_dict
    from foveate.storage.checkpoint import Checkpoints
    from foveate.storage.run import change_run
    from foveate.train.accelerator import require_device
    from foveate.train.resumption import EXTENDING, differences, exclusive

    before = to_dict(build(kind, saved.config, where=""))
    config = build(kind, override(saved.config, assignments), where="")
    change = differences(before, to_dict(config))
    others = [path for path in change if path not in EXTENDING]
    if others:
        begins = task_of(saved).side.begins_with_own
        own = shlex.quote(f"initialise_from={saved.folder}")
        again = f"; --set {own} begins it with these weights" * begins
        raise UsageError(
            f"A run keeps what it was begun with, so {others[0]} ({change[others[0]]}) cannot change. Changeable are "
            f"{', '.join(EXTENDING)}. For anything else begin another run{again}."
        )
    reached = max(Checkpoints(saved.folder / "checkpoints").steps(), default=0)
    if config.train.steps < reached:
        raise UsageError(
            f"{saved.folder} has made {counted(reached, 'step')} already, so train.steps = {config.train.steps:,} is "
            "too few. Name more, or fewer in a new run."
        )
    if "train.device" in change:
        require_device(config.train.device, processes)
    if "train.max_minutes" in change:
        require_time(saved.folder, config.train)
    if change:
        with exclusive(saved.folder):
            change_run(saved, to_dict(config), change)
