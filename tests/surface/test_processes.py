"""`--processes` trains a run in several processes, which begin again when one is killed; refusals name the setting."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.run import parse_args

from foveate.cli.program import build_parser
from foveate.storage.manifest import file_digest

SET = "--set"
SHARED = (
    *(SET, "train.accumulate=3", SET, "train.reduction=exact", SET, "train.steps=24"),
    *(SET, "train.validate_every=12", SET, "train.save_every=4"),
)


def children() -> list[int]:
    return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def kill_one(run: Path, before: list[int]) -> None:
    """Waits for the first checkpoint, then kills the newest of the processes that were started since."""
    while not (run / "checkpoints" / "step-00000004").exists():
        time.sleep(0.005)
    os.kill([process for process in children() if process not in before][-1], signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes by Linux's /proc")
def test_a_killed_process_begins_again_and_the_run_ends_like_one_process(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert foveate(*recipe, *SHARED, "--out", alone).code == 0
    killer = threading.Thread(target=kill_one, args=(together, children()), daemon=True)
    killer.start()
    said = foveate(*recipe, *SHARED, "--out", together, "--processes", 2)
    assert said.code == 0, said.err
    assert "2 processes with 1 thread each." in said.err
    assert "A process was killed: rank 1 by SIGKILL. All begin again from the checkpoint of step " in said.err
    assert file_digest(together / "model.safetensors") == file_digest(alone / "model.safetensors")
    assert (together / "report.html").exists()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_more_processes_than_batches_are_refused_before_the_data_are_read(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path, trained: Path
) -> None:
    for said in (
        foveate(*recipe, "--out", tmp_path / "run", "--processes", 2),
        foveate("resume", trained, "--processes", 2),
    ):
        assert said.code == 2
        assert "2 processes cannot share the 1 batch of an update (train.accumulate = 1)" in said.err
        assert "--set train.accumulate=2" in said.err
    assert not (tmp_path / "run").exists()


def test_processes_inside_torchrun_are_refused(
    recipe: tuple[str, ...], foveate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foveate.cli.supervision import require_processes
    from foveate.errors import UsageError

    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="torchrun has started several processes already"):
        require_processes(2, 4)


@pytest.mark.parametrize("command", ["train", "resume"])
def test_torchrun_takes_no_option_of_ours_for_its_own(command: str) -> None:
    options = build_parser([command]).commands[command]._option_string_actions
    words = [command, *(name for name in options if name.startswith("--")), "run"]
    parsed = parse_args(["--nproc-per-node=2", "-m", "foveate", *words])
    assert parsed.training_script_args == words
