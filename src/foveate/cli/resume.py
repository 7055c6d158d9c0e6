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
    parser.add_argument("--quiet", action="store_true", help="only results and errors")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.setup import prepare_machine, say
    from foveate.cli.task import known_task, module_of
    from foveate.cli.training import train
    from foveate.config import build
    from foveate.errors import UsageError
    from foveate.storage.run import model_type_of, read_run
    from foveate.storage.shipped import is_shipped, run_folder

    folder = run_folder(arguments.run, say)
    if is_shipped(folder) or model_type_of(folder) is not None:
        raise UsageError(
            f"{arguments.run} came trained, without checkpoints and data: there is nothing to resume. Name a run that "
            "`foveate train` began."
        )
    saved = read_run(folder)
    task = module_of(known_task(saved))
    config = build(task.RunConfig, saved.config, where="")
    prepare_machine(arguments, quiet=arguments.quiet)
    return train(saved.task, task.open_task(config, folder), config, folder, quiet=arguments.quiet, resume=True)
