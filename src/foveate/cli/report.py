"""foveate report"""

import argparse

from foveate.errors import UsageError
from foveate.tasks import task_of
from foveate.tasks.option import machine_arguments, require_ending
from foveate.voice import say


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate report run/                      run/report.html, as `train` leaves it
  foveate report run/ --out now.html       the best checkpoint, also of an unfinished run

The report has curves, validation scores, samples with their attention, and the model card, in one file without external
resources. `foveate evaluate RUN … --report FILE` writes one with test scores.
"""
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument("--out", metavar="FILE", help="the file to write; by default report.html in the run folder")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from foveate.cli.setup import prepare_machine
    from foveate.storage.run import model_type_of, read_run
    from foveate.storage.shipped import is_shipped, run_folder

    folder = run_folder(arguments.run, say)
    if is_shipped(folder) or model_type_of(folder) is not None:
        raise UsageError(f"A report describes a training run, and {arguments.run} comes without one. Name a run.")
    if arguments.out:
        require_ending("--out", arguments.out, "HTML")
    side = task_of(read_run(folder)).side
    path = Path(arguments.out) if arguments.out else folder / "report.html"
    prepare_machine(arguments, quiet=True)
    side.write_report(side.load(folder), side.saved_config(folder), folder, path)
    say(f"The report is in {path}.")
    return 0
