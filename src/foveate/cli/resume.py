"""foveate resume"""

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import machine_arguments

    parser.epilog = """
example:
  foveate resume run/

Continues from the newest sound checkpoint; on CPU the result is the same to the last bit as without the stop.
"""
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from foveate.cli.setup import prepare_machine
    from foveate.cli.task import known_task, module_of
    from foveate.cli.training import train
    from foveate.config import build
    from foveate.storage.run import read_run

    folder = Path(arguments.run)
    saved = read_run(folder)
    task = module_of(known_task(saved))
    config = build(task.RunConfig, saved.config, where="")
    prepare_machine(arguments, quiet=arguments.quiet)
    return train(saved.task, task.open_task(config, folder), config, folder, quiet=arguments.quiet, resume=True)
