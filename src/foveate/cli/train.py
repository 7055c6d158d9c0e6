"""foveate train"""

import argparse
from pathlib import Path

EXAMPLE = """
examples:
  foveate train translate --source train.en --target train.fr --out run/
  foveate train translate --source pairs.tsv --out run/ --set train.steps=2000 --set model=transformer
  foveate train translate run.toml --out run/

Without a TOML file sizes are chosen from the data, and the choice is explained. Ctrl-C saves; `foveate resume` goes on.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import machine_arguments

    parser.epilog = EXAMPLE
    parser.add_argument("task", choices=["translate"], help="what to train: sequences to sequences")
    parser.add_argument("config", nargs="?", metavar="TOML", help="configuration file; see `foveate plan --show`")
    parser.add_argument("--source", metavar="FILE", help="source lines, or tab-separated pairs (.gz and .xz too)")
    parser.add_argument("--target", metavar="FILE", help="target lines, partners of the source lines")
    parser.add_argument("--valid-source", metavar="FILE", help="validation pairs; without, some lines are held out")
    parser.add_argument("--valid-target", metavar="FILE", help="target side of the validation pairs")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="the run folder to create")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="set one setting; may be repeated")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.setup import prepare_machine, resolve, say
    from foveate.cli.training import train
    from foveate.config import to_dict
    from foveate.errors import UsageError
    from foveate.storage.run import create_run, require_new
    from foveate.tasks.suggestion import suggest
    from foveate.tasks.translate import TranslateTask

    named = {"source": arguments.source, "target": arguments.target}
    named |= {"valid_source": arguments.valid_source, "valid_target": arguments.valid_target}
    files = {name: str(Path(path).absolute()) for name, path in named.items() if path is not None}
    if "-" in named.values():
        raise UsageError("Training reads its data several times, so it cannot come from standard input. Save it first.")
    base = {}
    if arguments.config is None:
        if arguments.source is None:
            raise UsageError("There is nothing to train on. Give --source FILE (and --target FILE), or a TOML file.")
        suggestion = suggest(files["source"], files.get("target"))
        for reason in suggestion.reasons:
            say(reason)
        base = suggestion.settings
    config = resolve(base, arguments.config, files, arguments.set)
    if not config.data.source:
        raise UsageError("data.source is missing: there is nothing to train on. Give --source FILE, or set it.")
    folder = Path(arguments.out)
    require_new(folder)
    prepare_machine(arguments, quiet=arguments.quiet)
    task, reports = TranslateTask.prepare(config, folder)
    create_run(
        folder, "translate", to_dict(config), task.digests
    )  # last: data that cannot be used leave nothing to resume
    for part, report in reports.items():
        say(f"{part}: {report}")
    return train(task, config, folder, quiet=arguments.quiet)
