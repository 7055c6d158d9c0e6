"""What `--help` prints, word for word: `help/*.txt`. After an intended change: FOVEATE_RENEW=1 pytest tests/surface."""

import os
from pathlib import Path
from typing import Any

import pytest

from foveate.cli.program import commands

HELP = Path(__file__).parent / "help"


@pytest.mark.parametrize("command", ["foveate", *commands()])
def test_the_help_of_every_command_is_the_stored_one(
    command: str, foveate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    said = foveate("--help") if command == "foveate" else foveate(command, "--help")
    path = HELP / f"{command}.txt"
    if os.environ.get("FOVEATE_RENEW"):
        path.write_text(said.out)
    assert (said.code, said.err) == (0, "")
    assert said.out == path.read_text()


def test_there_is_no_help_for_removed_commands() -> None:
    assert {path.stem for path in HELP.iterdir()} == {"foveate", *commands()}


def test_the_version_is_the_packages(foveate: Any) -> None:
    from importlib.metadata import version

    assert foveate("--version").out == f"foveate {version('foveate')}\n"
