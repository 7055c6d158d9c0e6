"""foveate plan"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foveate.cli.files import file_arguments, files_given, option
from foveate.errors import UsageError
from foveate.suggestion import counted, did_you_mean
from foveate.tasks import TASKS
from foveate.tasks.option import columns_argument, count, machine_arguments, require_used, size_argument

USUAL = next(iter(TASKS))
"""The default task."""
DEVICES = ("a100", "h100", "h200")
"""The devices of `foveate.tasks.world_plan`, which imports torch."""


def lengths_of_all() -> list[str]:
    """The options for lengths of all tasks."""
    return list(dict.fromkeys(length for task in TASKS.values() for length in task.lengths))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate plan run.toml
  foveate plan translate --source train.en --target train.fr      what `foveate train` would choose, and its time
  foveate plan tag --data tagged.txt --size large
  foveate plan run.toml --set model.block.model_dim=512 --source-length 200 --target-length 200
  foveate plan language_model --set model.num_layers=12 --set data.block_length=1024
  foveate plan run.toml --processes 8 --device h200 --tokens 2.5e9 --set train.accumulate=8
  foveate plan tag --show > run.toml    a commented configuration with every default

Nothing is trained: a few steps are measured on a random batch. With data files, sizes and lengths are chosen as
`foveate train` would choose them.
"""

    parser.add_argument(
        "what",
        nargs="*",
        metavar="TASK TOML",
        help=f"the task ({', '.join(TASKS)}), a configuration file, or both; by default the task that the file names, "
        f"or {USUAL}",
    )
    file_arguments(parser)
    columns_argument(parser)
    size_argument(parser)
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="set one setting; may be repeated")
    parser.add_argument(
        "--show", action="store_true", help="print the resolved configuration as commented TOML, and stop"
    )
    for length in lengths_of_all():
        says = [task.lengths[length] for task in TASKS.values() if length in task.lengths]
        parser.add_argument(option(length), type=count, metavar="N", help=", or ".join(says))
    parser.add_argument("--vocab", type=count, metavar="N", help="vocabulary size, where the tokenisers do not fix it")
    parser.add_argument("--processes", type=count, metavar="N", help="also show the time of training by N processes")
    parser.add_argument(
        "--device",
        choices=DEVICES,
        help="with --processes: the GPU assumed for each; by default the cores of this machine",
    )
    parser.add_argument(
        "--tokens",
        type=amount,
        metavar="N",
        help="with --processes: tokens to train on, like 2.5e9; by default those of train.steps",
    )
    machine_arguments(parser)


def amount(text: str) -> float:
    """The type of --tokens: a number of at least 1, also as 2.5e9."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, like 2.5e9, got {text!r}")
    return value


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.setup import choices, prepare_machine
    from foveate.cli.training import duration, lengths, other_sizes
    from foveate.config import to_toml
    from foveate.tasks.run_plan import plan

    name, config, suggestion = _configuration(arguments)
    task = TASKS[name]
    uses = {each: _together([one for one in TASKS if each in TASKS[one].lengths]) for each in lengths_of_all()}
    require_used(arguments, uses, task.lengths, f"for {name}")
    usual = zip(task.lengths, lengths(name, suggestion), strict=True)
    planned = [getattr(arguments, length) or by_data for length, by_data in usual]
    if not arguments.processes:
        require_used(arguments, dict.fromkeys(("device", "tokens"), "--processes"), (), "without it")
    if arguments.show:
        print(to_toml(config) if name == USUAL else f'task = "{name}"\n{to_toml(config)}', end="")
        return 0
    if arguments.processes:  # before anything is measured
        from foveate.tasks.world_plan import require_batches

        require_batches(arguments.processes, config.train.accumulate)
    for sentence in choices(suggestion, config) if suggestion else ():
        print(sentence)
    prepare_machine(arguments)
    probe = task.side.probe(config, planned, arguments.vocab)
    costs = plan(probe, bfloat16=config.train.precision == "bfloat16")
    print(costs)
    seconds = costs.seconds * config.train.accumulate * config.train.steps
    lines = [f"training: {duration(seconds)} for {counted(config.train.steps, 'step')} like this, and validations"]
    if suggestion:
        files = files_given(arguments, name)
        lines += other_sizes(name, suggestion, config, files, arguments.set)(seconds)
    if config.train.device not in (None, "cpu"):
        lines.append(f"This is the time of the CPU; train.device = {config.train.device} is for the training itself.")
    print("", *lines, sep="\n")
    if arguments.processes:
        print(_world(arguments, costs, config, (name, config, planned, arguments.vocab)))
    return 0


def _world(arguments: argparse.Namespace, costs: Any, config: Any, probed: tuple[Any, ...]) -> Any:
    """The plan of several processes. Those of this machine are measured side by side, each with the task's probe of
    these arguments.
    """
    import os

    import torch

    from foveate.cli.busy_process import beside_others
    from foveate.tasks import world_plan
    from foveate.tasks.run_plan import timed

    train, device, beside = config.train, arguments.device, None
    threads = torch.get_num_threads()
    cores = max((os.cpu_count() or 1) // threads, 1)
    if device is None and (others := min(arguments.processes, cores) - 1):
        with beside_others(others, *probed, threads=threads):
            beside = timed(costs.probe, bfloat16=train.precision == "bfloat16")
    return world_plan.WorldPlan(
        costs=costs,
        processes=arguments.processes,
        accumulate=train.accumulate,
        reduction=train.reduction,
        sharding=train.sharding,
        tokens=arguments.tokens or float(train.steps * train.accumulate * costs.probe.tokens),
        device=world_plan.DEVICES.get(device),
        name=device or "this machine",
        cores=cores,
        beside=beside,
    )


def _configuration(arguments: argparse.Namespace) -> tuple[str, Any, Any]:
    """The task, its configuration, and the suggestion for its data, if there are any."""
    from foveate.cli.setup import resolve, suggested, task_of

    named = [word for word in arguments.what if word in TASKS]
    files = [word for word in arguments.what if word not in TASKS]
    if len(named) > 1 or len(files) > 1:
        raise UsageError(f"Name one task and one configuration file at most, not {' '.join(arguments.what)!r}.")
    path = files[0] if files else None
    if path and not Path(path).exists() and (similar := did_you_mean(path, TASKS)):
        raise UsageError(f"{path} is neither a task nor a file.{similar}")
    name = task_of(path, *named) or USUAL
    task, paths = TASKS[name], files_given(arguments, name)
    if arguments.size and (path or not paths):
        raise UsageError(
            "--size chooses sizes for files of data, where no TOML file does. Give the data, or leave it out."
        )
    if paths and not path and task.first not in paths:
        raise UsageError(f"There is nothing to plan for. Give {option(task.first)} FILE.")
    suggestion = suggested(name, path, paths, arguments) if paths else None
    base = suggestion.settings if suggestion else {}
    return name, resolve(base, path, paths, arguments.set, kind=task.side.run_config), suggestion


def _together(names: Sequence[str]) -> str:
    """Names as in a sentence: "translate, transcribe and speak"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
