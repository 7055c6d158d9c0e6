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

    from foveate.cli.setup import RunConfig, prepare_machine
    from foveate.cli.training import train
    from foveate.config import build
    from foveate.storage.run import read_run
    from foveate.tasks.translate import TranslateTask

    folder = Path(arguments.run)
    config = build(RunConfig, read_run(folder).config, where="")
    prepare_machine(arguments, quiet=arguments.quiet)
    return train(TranslateTask.open(config, folder), config, folder, quiet=arguments.quiet, resume=True)
