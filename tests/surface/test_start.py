"""A start is quick, and Ctrl-C is quiet from its first moment on."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

INTERRUPTED = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt

from foveate.cli import main
sys.meta_path.insert(0, Interrupting())
sys.modules.pop({name!r}, None)
sys.exit(main(["plan", "--show"]))
"""
LAZY = """
import contextlib, sys
from foveate.cli import main
with contextlib.suppress(SystemExit):
    main({words!r})
print(*sorted({{{names}}} & set(sys.modules)), file=sys.stderr)
"""

TILES = """
import sys
from foveate.attention import Positions, causal
from foveate.attention.paths.layout import tiles
assert len(tiles(causal(), Positions.of(300, 300), 64)) == 5
print(*sorted({"sympy", "torch._dynamo"} & set(sys.modules)), file=sys.stderr)
"""


def python(program: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)


def test_an_interrupt_while_modules_are_read_says_stopped_and_nothing_else() -> None:
    for name, who in (
        ("argparse", "foveate"),
        ("foveate.cli.plan", "foveate"),
        ("foveate.tasks.run_plan", "foveate plan"),
    ):
        done = python(INTERRUPTED.format(name=name))
        assert (done.returncode, done.stderr, done.stdout) == (130, f"{who}: stopped.\n", ""), name


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["resume", "--help"], ("importlib.metadata", "traceback", "torch")),
        (["--help"], ("dataclasses", "difflib", "pathlib", "foveate.config", "torch")),
    ],
    ids=["help of a command", "help"],
)
def test_help_imports_no_module_that_it_does_not_need(words: list[str], names: tuple[str, ...]) -> None:
    program = LAZY.format(words=words, names=", ".join(map(repr, names)))
    assert python(program).stderr.split() == []


def test_tiles_import_no_module_of_the_compiler() -> None:
    """Some functions of torch import it, which takes half a second and 50 MB of whoever serves a model."""
    assert python(TILES).stderr.split() == []


def test_no_command_measures_the_machine_unless_it_is_asked_to(
    foveate: Any, trained: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user waits for every second of a start."""

    def refuse(*works: object, **settings: object) -> None:
        raise AssertionError("a race")

    monkeypatch.setattr("foveate.machine.measure.race", refuse)
    files = ("--source", corpus / "source.txt", "--target", corpus / "target.txt")
    for words in (
        ("translate", trained, "abc", "--align"),
        ("look", trained, "abc"),
        ("evaluate", trained, *files, "--metrics", "chrf"),
        (
            "train",
            "translate",
            *files,
            "--out",
            tmp_path / "run",
            "--set",
            "train.steps=1",
            "--set",
            "model.hidden_dim=8",
        ),
        ("doctor",),
    ):
        said = foveate(*words)
        assert (said.code, "Traceback" in said.err) == (0, False), (words, said.err)
    with pytest.raises(AssertionError, match="a race"):
        foveate("doctor", "--calibrate")


def test_a_run_of_another_task_is_refused_without_torch() -> None:
    said = python(LAZY.format(words=["tag", "en-fr", "a"], names="'torch'")).stderr.splitlines()
    assert said[0].startswith("foveate tag: en-fr is a run of the task translate")
    assert said[1:] == [""]
