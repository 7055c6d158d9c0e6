"""foveate report"""

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import machine_arguments

    parser.epilog = """
examples:
  foveate report run/                      run/report.html, as `train` leaves it
  foveate report run/ --out now.html       of a run that is not finished, too: with its best checkpoint

Curves, scores of the validation, samples with what the model looked at, and the model card, in one file that loads
nothing from elsewhere. `foveate evaluate RUN … --report FILE` writes one with the scores of a test.
"""
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument("--out", metavar="FILE", help="where to write it; by default report.html in the run folder")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from foveate.cli.options import require_ending
    from foveate.cli.setup import prepare_machine, say
    from foveate.cli.task import known_task, module_of
    from foveate.errors import UsageError
    from foveate.storage.run import model_type_of, read_run
    from foveate.storage.shipped import is_shipped, run_folder

    folder = run_folder(arguments.run, say)
    if is_shipped(folder) or model_type_of(folder) is not None:
        raise UsageError(f"A report tells of a training, and {arguments.run} came without its own. Name a run.")
    if arguments.out:
        require_ending("--out", arguments.out, "HTML")
    task = known_task(read_run(folder))
    path = Path(arguments.out) if arguments.out else folder / "report.html"
    prepare_machine(arguments, quiet=True)
    module_of(task).report(folder, path)
    say(f"The report is in {path}.")
    return 0
