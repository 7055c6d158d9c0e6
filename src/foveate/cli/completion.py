"""foveate completion"""

import argparse

FILES, FOLDERS = {"FILE", "TOML", "TASK TOML"}, {"FOLDER", "RUN", "OUT"}
"""Placeholders that are completed by names of files, and by names of folders."""
NAMED = {"look", "evaluate", "export", "serve"}
"""Commands that accept the models of the package, besides the commands of these models' tasks."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate completion bash > ~/.local/share/bash-completion/completions/foveate
  foveate completion zsh > "${fpath[1]}/_foveate"         a folder in zsh's fpath
  foveate completion tcsh > ~/.foveate.completion.csh     followed by: source ~/.foveate.completion.csh

Prints the script, which completes commands, tasks, options and files. New shells load the files of the first two
examples; in tcsh, run `source` as shown or add it to ~/.tcshrc.
"""
    parser.add_argument(
        "shell", metavar="SHELL", choices=["bash", "zsh", "tcsh"], help="the shell to complete in: bash, zsh or tcsh"
    )


def run(arguments: argparse.Namespace) -> int:
    import shtab

    from foveate.cli.program import build_parser
    from foveate.storage.shipped import SHIPPED
    from foveate.tasks import TASKS

    program = build_parser((), whole=True)
    known = NAMED | {TASKS[model.task].verb.name for model in SHIPPED.values()}
    for name, parser in program.commands.items():
        for action in parser._actions:
            if action.metavar in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar in FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            if action.metavar == "RUN" and name in known:
                action.complete = {**shtab.DIRECTORY, "bash": "_foveate_dirs"}  # type: ignore[attr-defined]
            if action.metavar == "TASK TOML":
                action.complete = {**shtab.FILE, "bash": "_foveate_files"}  # type: ignore[attr-defined]
    functions = (
        f'_foveate_dirs() {{ compgen -d -- "$1"; compgen -W \'{" ".join(SHIPPED)}\' -- "$1"; }}\n'
        f'_foveate_files() {{ compgen -f -- "$1"; compgen -W \'{" ".join(TASKS)}\' -- "$1"; }}'
    )
    _split_by_task(program.commands["train"])
    print(shtab.complete(program, arguments.shell, preamble={"bash": functions}))  # type: ignore[arg-type]
    return 0


def _split_by_task(train: argparse.ArgumentParser) -> None:
    """Turn each task into a subcommand with the options that it accepts."""
    from foveate.tasks import TASKS

    shared = [action for action in train._actions if action.dest not in ("help", "task")]
    files = {name for task in TASKS.values() for name in task.files}
    train._actions[:] = [action for action in train._actions if action.dest not in ("task", "config")]
    tasks = train.add_subparsers(parser_class=argparse.ArgumentParser)
    for name, task in TASKS.items():
        others = (files - set(task.files)) | (set() if task.reads_columns else {"columns"})
        parser = tasks.add_parser(name, help=task.summary)
        for action in shared:
            if action.dest not in others:
                action.help = None if action.help == argparse.SUPPRESS else action.help
                parser._add_action(action)
