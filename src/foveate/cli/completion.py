"""foveate completion"""

import argparse

FILES, FOLDERS = {"FILE", "TOML", "TASK TOML"}, {"FOLDER", "RUN", "OUT"}
"""Placeholders of what is completed by names of files, and of folders."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate completion bash > ~/.local/share/bash-completion/completions/foveate
  foveate completion zsh > "${fpath[1]}/_foveate"
  foveate completion tcsh > ~/.foveate.completion.csh

bash finds the file by itself, in new shells; zsh too, where the folder is on its fpath; tcsh reads it by `source`.
"""
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"], help="the shell to complete in")


def run(arguments: argparse.Namespace) -> int:
    import shtab

    from foveate.cli.program import build_parser

    program = build_parser((), whole=True)
    for parser in program.commands.values():
        for action in parser._actions:
            if action.metavar in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar in FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(program, arguments.shell))
    return 0
