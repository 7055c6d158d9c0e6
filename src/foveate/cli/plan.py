"""foveate plan"""

import argparse
from typing import Any

from foveate.cli.task import TASKS, file_arguments, module_of, option

LENGTHS = {"source_length": "translate", "target_length": "translate", "length": "tag and classify"}
LENGTHS_OF: dict[str, tuple[str, ...]] = {
    "translate": ("source_length", "target_length"),
    "language_model": (),
    "masked_language_model": (),
}
"""The lengths that a plan needs; language models have data.block_length."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate plan run.toml
  foveate plan translate --source train.en --target train.fr      what `foveate train` would choose, and its time
  foveate plan tag --data tagged.txt --size large
  foveate plan run.toml --set model.block.model_dim=512 --source-length 200 --target-length 200
  foveate plan language_model --set model.num_layers=12 --set data.block_length=1024
  foveate plan tag --show > run.toml    a commented configuration with every default

Nothing is trained: a random batch of this size makes a few probe steps. With files of data sizes and lengths are chosen
from them as `foveate train` would.
"""
    from foveate.cli.options import columns_argument, count, machine_arguments, size_argument

    parser.add_argument(
        "what",
        nargs="*",
        metavar="TASK TOML",
        help=f"the task ({', '.join(TASKS)}), a configuration file, or both; by default the task that the file names, "
        "or translate",
    )
    file_arguments(parser)
    columns_argument(parser)
    size_argument(parser)
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="set one setting; may be repeated")
    parser.add_argument(
        "--show", action="store_true", help="print the resolved configuration as commented TOML, and stop"
    )
    parser.add_argument("--source-length", type=count, metavar="N", help="tokens of a source (default 30)")
    parser.add_argument("--target-length", type=count, metavar="N", help="tokens of a target (default 30)")
    parser.add_argument("--length", type=count, metavar="N", help="words to tag, or tokens to classify (default 30)")
    parser.add_argument("--vocab", type=count, metavar="N", help="vocabulary size, where the tokenisers do not fix it")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.options import require_used
    from foveate.cli.outlook import lengths, other_sizes
    from foveate.cli.setup import choices, prepare_machine
    from foveate.cli.train import files_given
    from foveate.cli.training import duration
    from foveate.config import to_toml
    from foveate.suggestion import counted
    from foveate.tasks.plan import plan

    task, config, suggestion = _configuration(arguments)
    require_used(arguments, LENGTHS, LENGTHS_OF.get(task, ("length",)), f"for {task}")
    usual = lengths(suggestion)
    for name in LENGTHS:
        setattr(arguments, name, getattr(arguments, name) or getattr(usual, name))
    if arguments.show:
        print(to_toml(config) if task == "translate" else f'task = "{task}"\n{to_toml(config)}', end="")
        return 0
    for sentence in choices(suggestion, config) if suggestion else ():
        print(sentence)
    prepare_machine(arguments)
    costs = plan(module_of(task).probe(config, arguments), bfloat16=config.train.precision == "bfloat16")
    print(costs)
    seconds = costs.seconds * config.train.accumulate * config.train.steps
    lines = [f"training: {duration(seconds)} for {counted(config.train.steps, 'step')} like this, and validations"]
    if suggestion:
        files = files_given(arguments, task)
        lines += other_sizes(task, suggestion, config, files, arguments.set)(seconds)
    print("", *lines, sep="\n")
    return 0


def _configuration(arguments: argparse.Namespace) -> tuple[str, Any, Any]:
    """The task, its configuration, and what was chosen for the data where they are given."""
    from foveate.cli.setup import data_config, require_own_size, resolve, task_of
    from foveate.cli.train import files_given
    from foveate.errors import UsageError
    from foveate.tasks.size import Allowance

    named = [word for word in arguments.what if word in TASKS]
    files = [word for word in arguments.what if word not in TASKS]
    if len(named) > 1 or len(files) > 1:
        raise UsageError(f"Name one task and one configuration file at most, not {' '.join(arguments.what)!r}.")
    path = files[0] if files else None
    task = task_of(path, *named) or "translate"
    module, given = module_of(task), files_given(arguments, task)
    if arguments.size and (path or not given):
        raise UsageError(
            "--size chooses sizes for files of data, where no TOML file does. Give the data, or leave it out."
        )
    if path or not given:
        return task, resolve({}, path, given, arguments.set, kind=module.RunConfig), None
    if TASKS[task].first not in given:
        raise UsageError(f"There is nothing to plan for. Give {option(TASKS[task].first)} FILE.")
    allowance = Allowance.here(arguments.size, arguments.threads)
    about = data_config(given, arguments.set, module.RunConfig)
    require_own_size(arguments.size, about)
    suggestion = module.suggest(about, allowance)
    return task, resolve(suggestion.settings, None, given, arguments.set, kind=module.RunConfig), suggestion
