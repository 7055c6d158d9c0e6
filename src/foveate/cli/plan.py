"""foveate plan"""

import argparse
from typing import Any

from foveate.cli.task import TASKS, module_of

USUAL_LENGTH = 30
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
  foveate plan run.toml --set model.block.model_dim=512 --source-length 200 --target-length 200
  foveate plan language_model --set model.num_layers=12 --set data.block_length=1024
  foveate plan tag --show > run.toml    a commented configuration with every default

Nothing is trained: a random batch of this size makes a few probe steps.
"""
    from foveate.cli.options import count, machine_arguments

    parser.add_argument(
        "what",
        nargs="*",
        metavar="TASK TOML",
        help=f"the task ({', '.join(TASKS)}), a configuration file, or both; by default the task that the file names, "
        "or translate",
    )
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
    from foveate.cli.setup import prepare_machine
    from foveate.config import to_toml
    from foveate.tasks.plan import plan

    task, config = _configuration(arguments)
    require_used(arguments, LENGTHS, LENGTHS_OF.get(task, ("length",)), f"for {task}")
    for name in LENGTHS:
        setattr(arguments, name, getattr(arguments, name) or USUAL_LENGTH)
    if arguments.show:
        print(to_toml(config) if task == "translate" else f'task = "{task}"\n{to_toml(config)}', end="")
        return 0
    prepare_machine(arguments)
    print(plan(module_of(task).probe(config, arguments), bfloat16=config.train.precision == "bfloat16"))
    return 0


def _configuration(arguments: argparse.Namespace) -> tuple[str, Any]:
    """The task, and its configuration."""
    from foveate.cli.setup import resolve, task_of
    from foveate.errors import UsageError

    named = [word for word in arguments.what if word in TASKS]
    files = [word for word in arguments.what if word not in TASKS]
    if len(named) > 1 or len(files) > 1:
        raise UsageError(f"Name one task and one configuration file at most, not {' '.join(arguments.what)!r}.")
    path = files[0] if files else None
    task = task_of(path, *named) or "translate"
    return task, resolve({}, path, {}, arguments.set, kind=module_of(task).RunConfig)
