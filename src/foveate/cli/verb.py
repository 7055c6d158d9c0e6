"""foveate translate, generate, fill, tag, classify: the commands of tasks, which their sides implement."""

import argparse

from foveate.cli.program import verbs
from foveate.tasks.entry import Entry
from foveate.tasks.option import CORPUS, given, machine_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    verb = verbs()[parser.name][0].verb  # type: ignore[attr-defined]
    parser.epilog = verb.epilog
    parser.add_argument("run", metavar="RUN", help=verb.run)
    parser.add_argument("inputs", nargs="*", metavar=verb.placeholder, help=verb.input)
    verb.options(parser)
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    task, corpus = _task(arguments), any(given(arguments, name) for name in CORPUS)
    if not corpus and task.quick(arguments):
        return 0
    _require(task, arguments.run)
    from foveate.cli.setup import prepare_machine

    prepare_machine(arguments, quiet=True)
    side = task.side
    if corpus:
        from foveate.tasks.corpus_part import answer_corpus

        answer_corpus(side, arguments)
    else:
        side.use(arguments)
    return 0


def _require(task: Entry, run: str) -> None:
    """Raises UsageError for a run of another task, before torch is imported. Folders of Hugging Face may serve several
    tasks, whose sides look at them.
    """
    from foveate.storage.run import read_run
    from foveate.storage.shipped import run_folder

    own = read_run(run_folder(run))
    if not own.guest:
        own.require(task.name)


def _task(arguments: argparse.Namespace) -> Entry:
    """The task of the command; of several, the run's. Raises UsageError for a run of none of several tasks."""
    from foveate.errors import UsageError
    from foveate.storage.run import read_run
    from foveate.storage.shipped import name_of, name_such_a_run, run_folder

    tasks = verbs()[arguments.command]
    if len(tasks) == 1:
        return tasks[0]
    run = read_run(run_folder(arguments.run))
    for task in tasks:
        if task.name == run.task:
            return task
    names = " and ".join(task.name for task in tasks)
    raise UsageError(
        f"{name_of(run.folder)} is a run of the task {run.task}, but this command is for runs of {names}. "
        f"{name_such_a_run([task.name for task in tasks])}, or see `foveate --help` for the commands of {run.task}."
    )
