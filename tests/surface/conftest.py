"""The command line, called as a user calls it, and one tiny run that is trained once."""

import contextlib
import io
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from foveate.cli import main
from foveate.data.synthetic import synthetic

TINY = (
    *("--no-tune", "--threads", "1"),
    *("--set", "model.hidden_dim=16", "--set", "model.embedding_dim=8", "--set", "model.maxout_dim=8"),
    *("--set", "model.attention.score.hidden_dim=8", "--set", "data.max_tokens=256", "--set", "train.log_every=1"),
)
STEPS = ("--set", "train.steps=120", "--set", "train.validate_every=40", "--set", "train.save_every=40")


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Foveate = Callable[..., Said]


def call(*argv: object, stdin: bytes = b"") -> Said:
    out, err = io.StringIO(), io.StringIO()
    reading = patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    with reading, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in argv])
        except SystemExit as end:  # argparse: help and usage
            code = int(end.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def foveate() -> Foveate:
    return call


@pytest.fixture(scope="session")
def tiny() -> tuple[str, ...]:
    """Options that make training take a second or two."""
    return TINY


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 300 pairs, as one file of tabs and as two files."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(synthetic("reverse", 300, longest=6))
    (folder / "pairs.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
    (folder / "source.txt").write_text("".join(f"{pair.source}\n" for pair in pairs))
    (folder / "target.txt").write_text("".join(f"{pair.target}\n" for pair in pairs))
    return folder


@pytest.fixture(scope="session")
def recipe(corpus: Path) -> tuple[str, ...]:
    """What the tiny run is trained with, all but its folder."""
    return ("train", "translate", "--source", str(corpus / "pairs.tsv"), *TINY, *STEPS)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, recipe: tuple[str, ...]) -> Path:
    """A finished run. Read only: those who change it take `run`."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    said = call(*recipe, "--out", folder)
    assert said.code == 0, said.err
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(trained, tmp_path / "run"))
