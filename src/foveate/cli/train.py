"""foveate train"""

import argparse
from pathlib import Path
from typing import Any

from foveate.cli.task import TASKS, examples, file_arguments, module_of, option, pairs_hint

EXAMPLE = """
examples:
  foveate train translate --source train.en --target train.fr --out run/
  foveate train translate --source pairs.tsv --out run/ --set train.steps=2000 --set model=transformer
  foveate train translate run.toml --out run/
  foveate train language_model --text shakespeare.txt --out run/
  foveate train tag --data tagged.txt --out run/
  foveate train classify --data texts.tsv --out run/

Without a TOML file sizes are chosen from the data and for this machine, and the choice is explained: --size small ends
in about 10 minutes, medium in an hour, large in a night. Ctrl-C saves; `foveate resume` goes on.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import columns_argument, machine_arguments, size_argument

    parser.epilog = examples(EXAMPLE, parser)
    what = "; ".join(f"{name}: {task.summary}" for name, task in TASKS.items())
    parser.add_argument("task", choices=list(TASKS), help=f"what to train; {what}")
    parser.add_argument("config", nargs="?", metavar="TOML", help="configuration file; see `foveate plan --show`")
    file_arguments(parser)
    columns_argument(parser)
    parser.add_argument("--out", metavar="FOLDER", required=True, help="the run folder to create")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="set one setting; may be repeated")
    size_argument(parser)
    parser.add_argument("--quiet", action="store_true", help="only results and errors")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.outlook import other_sizes
    from foveate.cli.setup import choices, data_config, prepare_machine, require_own_size, resolve, say, task_of
    from foveate.cli.training import train
    from foveate.config import to_dict
    from foveate.errors import UsageError
    from foveate.storage.run import begin_run, create_run, require_new
    from foveate.tasks.size import Allowance
    from foveate.train import require_measured

    task_of(arguments.config, arguments.task)
    task, files = module_of(arguments.task), files_given(arguments)
    first = TASKS[arguments.task].first
    base, suggestion, others = {}, None, None
    if arguments.config is not None and arguments.size:
        raise UsageError("--size chooses sizes where no TOML file does. Leave one of them out.")
    if arguments.config is None:
        if first not in files:
            raise UsageError(
                f"There is nothing to train on. Give {option(first)} FILE{_partner(first)}, or a TOML file."
            )
        allowance = Allowance.here(arguments.size, arguments.threads)
        about = data_config(files, arguments.set, task.RunConfig)
        require_own_size(arguments.size, about)
        suggestion = task.suggest(about, allowance)
        base = suggestion.settings
    config = resolve(base, arguments.config, files, arguments.set, kind=task.RunConfig)
    if not getattr(config.data, first):
        raise UsageError(
            f"data.{first} is missing: there is nothing to train on. Give {option(first)} FILE, or set it."
        )
    folder = Path(arguments.out)
    require_new(folder)
    for sentence in choices(suggestion, config) if suggestion else ():
        say(sentence)
    prepare_machine(arguments, quiet=arguments.quiet)
    begin_run(folder)
    prepared = task.prepare(config, folder)
    config = prepared.config  # with the sizes of an encoder that it begins with
    require_measured(prepared, config.train)
    # Last: data that cannot be used leave nothing to resume.
    create_run(folder, arguments.task, to_dict(config), prepared.digests)
    if suggestion is not None:
        others = other_sizes(arguments.task, suggestion, config, files, arguments.set)
    return train(arguments.task, prepared, config, folder, quiet=arguments.quiet, others=others)


def files_given(arguments: argparse.Namespace, task: str | None = None) -> dict[str, Any]:
    """The files that were named, and the columns, by the setting of `data` they are for."""
    from foveate.errors import UsageError

    task = task or str(arguments.task)
    taken = TASKS[task].files
    files: dict[str, Any] = {}
    for name in {name for task in TASKS.values() for name in task.files}:
        path = getattr(arguments, name)
        if path is None:
            continue
        if name not in taken:
            others = ", ".join(map(option, taken))
            raise UsageError(f"{task} does not take {option(name)}; it takes {others}.{pairs_hint(task, name)}")
        if path == "-":
            raise UsageError(
                "Training reads its data several times, so it cannot come from standard input. Save it first."
            )
        files[name] = str(Path(path).absolute())
    if arguments.columns is not None:
        if "text" in taken:
            raise UsageError(f"{task} reads lines, not columns. Leave --columns out.")
        if "target" in files:
            raise UsageError("--columns is for one tab-separated file. Leave it out, or --target.")
        files["columns"] = list(arguments.columns)
    return files


def _partner(first: str) -> str:
    return " (and --target FILE)" if first == "source" else ""
