"""foveate translate, generate, fill, tag, classify: the commands of tasks, which their sides implement."""

import argparse

from foveate.cli.program import verbs
from foveate.tasks.option import machine_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    verb = verbs()[parser.name].verb  # type: ignore[attr-defined]
    parser.epilog = verb.epilog
    parser.add_argument("run", metavar="RUN", help=verb.run)
    parser.add_argument("inputs", nargs="*", metavar=verb.placeholder, help=verb.input)
    verb.options(parser)
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.setup import prepare_machine

    prepare_machine(arguments, quiet=True)
    verbs()[arguments.command].side.use(arguments)
    return 0
