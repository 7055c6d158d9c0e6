"""A run that was stopped, killed or damaged ends with the same bits as one that was left alone."""

import importlib.util
import io
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from foveate.train import fit
from foveate.train.log import Quiet

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_and_resume.py"


def load(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    return module


killing = load(SCRIPT)
CONFIG = killing.CONFIG


class At(Quiet):
    """Calls a function after an update and keeps the notes."""

    tell = Quiet.note

    def __init__(self, step: int = 0, call: Callable[[], object] = lambda: None) -> None:
        super().__init__(buffer := io.StringIO())
        self.buffer = buffer
        self.step, self.call = step, call

    def advance(self, step: int, loss: float) -> None:
        if step == self.step:
            self.call()

    @property
    def text(self) -> str:
        return self.buffer.getvalue()


def stop(folder: Path, step: int) -> None:
    """Trains, continuing if there is something to continue, until Ctrl-C in the given step."""
    outcome = fit(killing.Addition(), CONFIG, folder, resume=True, progress=At(step, interrupt))
    assert outcome.interrupted
    assert outcome.step == step


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def resume(folder: Path) -> str:
    """Trains to the end; returns the notes."""
    progress = At()
    assert fit(killing.Addition(), CONFIG, folder, resume=True, progress=progress).step == CONFIG.steps
    return progress.text


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads on so small a model only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("alone")
    resume(folder)
    return killing.traces(folder)


def test_a_run_killed_at_random_moments_resumes_to_the_same_end() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "4", "--seed", str(random.randrange(10**6))],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kills" in done.stdout
    assert "Different from the run left alone: nothing." in done.stdout


@pytest.mark.parametrize("steps", [(1,), (7,), (60,), (149,), (15, 16, 45, 130)])
def test_interrupted_between_validations_at_one_and_at_checkpoints(tmp_path: Path, alone: dict, steps: tuple) -> None:
    for step in steps:
        stop(tmp_path, step)
    resume(tmp_path)
    assert killing.traces(tmp_path) == alone


def test_interrupted_again_right_after_each_resume(tmp_path: Path, alone: dict) -> None:
    for step in range(40, 48):
        stop(tmp_path, step)
    resume(tmp_path)
    assert killing.traces(tmp_path) == alone


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "state.json", "MANIFEST"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_leads_to_the_same_end(
    tmp_path: Path, alone: dict, harm: Callable[[Path], None], name: str
) -> None:
    stop(tmp_path, 133)
    newest = tmp_path / "checkpoints" / "step-00000133" / name
    harm(newest)
    notes = resume(tmp_path)
    assert str(newest) in notes
    assert "Resuming after step 130" in notes
    assert killing.traces(tmp_path) == alone


def test_another_seed_gives_another_end(tmp_path: Path, alone: dict) -> None:
    fit(killing.Addition(), replace(CONFIG, seed=1), tmp_path, progress=At())
    assert killing.traces(tmp_path)["final weights"] != alone["final weights"]
