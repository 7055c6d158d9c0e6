import io
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from foveate import native
from foveate.errors import UsageError
from foveate.train import Constant, Outcome, TrainConfig, fit
from foveate.train.interrupt import Interrupt
from foveate.train.log import Quiet
from foveate.train.resumption import differences, exclusive
from foveate.train.world import World

CONFIG = TrainConfig(steps=8, schedule=Constant(), validate_every=2, save_every=2, log_every=1)


class At(Quiet):
    """Calls a function after an update."""

    tell = Quiet.note

    def __init__(self, step: int, call: Callable[[], object]) -> None:
        super().__init__(buffer := io.StringIO())
        self.buffer = buffer
        self.step, self.call = step, call

    def advance(self, step: int, loss: float) -> None:
        if step == self.step:
            self.call()

    @property
    def text(self) -> str:
        return self.buffer.getvalue()


def interrupted(line: Any, folder: Path, **keywords: Any) -> Outcome:
    return fit(line(), CONFIG, folder, progress=At(3, lambda: signal.raise_signal(signal.SIGINT)), **keywords)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_step_finish_saves_it_and_returns(line: Any, tmp_path: Path, number: signal.Signals) -> None:
    progress = At(3, lambda: signal.raise_signal(number))
    outcome = fit(line(), CONFIG, tmp_path, progress=progress)
    assert outcome.interrupted
    assert (outcome.step, outcome.weights, outcome.stopped_because) == (3, "", "interrupted")
    assert (tmp_path / "checkpoints" / "step-00000003" / "MANIFEST").exists()
    assert not (tmp_path / "model.safetensors").exists()
    assert "again to stop at once" in progress.text


@pytest.mark.parametrize("torchrun", [True, False])
def test_a_process_saves_and_stops_when_its_torchrun_is_killed(
    line: Any, tmp_path: Path, torchrun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orphan has another parent. Without torchrun it is one on purpose, such as by nohup."""
    if torchrun:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    progress = At(3, lambda: monkeypatch.setattr(os, "getppid", lambda: -1))
    outcome = fit(line(), CONFIG, tmp_path, progress=progress, world=World())
    assert outcome.interrupted == torchrun
    assert outcome.step == (4 if torchrun else 8)
    assert not torchrun or (tmp_path / "checkpoints" / "step-00000004" / "MANIFEST").exists()


def test_a_second_interrupt_stops_at_once(line: Any, tmp_path: Path) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(line(), CONFIG, tmp_path, progress=At(3, twice))
    assert not (tmp_path / "checkpoints" / "step-00000003").exists()


def test_the_handlers_of_before_are_put_back(line: Any, tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    interrupted(line, tmp_path)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Interrupt(lambda sentence: None) as interrupt:
            signal.raise_signal(signal.SIGTERM)
        assert not interrupt.requested
    finally:
        signal.signal(signal.SIGTERM, before)


def test_training_works_outside_the_main_thread(line: Any, tmp_path: Path) -> None:
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(fit(line(), CONFIG, tmp_path)))
    thread.start()
    thread.join()
    assert outcomes[0].step == 8


def test_a_changed_configuration_is_refused_with_the_difference(line: Any, tmp_path: Path) -> None:
    interrupted(line, tmp_path, configuration={"model": {"dim": 2}})
    changed = replace(CONFIG, learning_rate=0.5, schedule=Constant(warmup=3))
    with pytest.raises(UsageError) as error:
        fit(line(), changed, tmp_path, resume=True, configuration={"model": {"dim": 4}})
    for difference in ("model.dim: 2 → 4", "train.learning_rate: 0.001 → 0.5", "train.schedule.warmup: 0 → 3"):
        assert difference in str(error.value)


def test_a_change_can_be_accepted_and_is_noted(line: Any, tmp_path: Path) -> None:
    interrupted(line, tmp_path)
    progress = At(0, lambda: None)
    changed = replace(CONFIG, steps=12)
    assert fit(line(), changed, tmp_path, resume=True, accept_changes=True, progress=progress).step == 12
    assert "train.steps: 8 → 12" in progress.text


def test_a_change_that_cannot_alter_the_weights_needs_no_permission(line: Any, tmp_path: Path) -> None:
    interrupted(line, tmp_path)
    assert fit(line(), replace(CONFIG, max_minutes=5.0, keep=5), tmp_path, resume=True).step == 8


def test_another_number_of_threads_is_noted(line: Any, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    interrupted(line, tmp_path)
    progress = At(0, lambda: None)
    try:
        torch.set_num_threads(threads + 1)
        fit(line(), CONFIG, tmp_path, resume=True, progress=progress)
    finally:
        torch.set_num_threads(threads)
    assert f"made with {threads} threads, this run has {threads + 1}" in progress.text


@pytest.mark.parametrize("before", [True, False])
def test_kernels_that_came_or_went_are_noted(
    line: Any, tmp_path: Path, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "in_use", lambda: before)
    interrupted(line, tmp_path)
    progress = At(0, lambda: None)
    monkeypatch.setattr(native, "in_use", lambda: not before)
    fit(line(), CONFIG, tmp_path, resume=True, progress=progress)
    assert f"made with{'' if before else 'out'} compiled kernels" in progress.text
    assert "dropout draws other noise" in progress.text.lower()


def test_the_same_kernels_are_not_worth_a_note(line: Any, tmp_path: Path) -> None:
    interrupted(line, tmp_path)
    progress = At(0, lambda: None)
    fit(line(), CONFIG, tmp_path, resume=True, progress=progress)
    assert "compiled kernels" not in progress.text


def test_a_run_without_a_checkpoint_resumes_from_its_beginning(line: Any, tmp_path: Path) -> None:
    progress = At(0, lambda: None)
    assert fit(line(), CONFIG, tmp_path, resume=True, progress=progress).step == 8
    assert "starting from the beginning" in progress.text


def test_resuming_a_finished_run_changes_nothing(line: Any, tmp_path: Path) -> None:
    fit(line(), CONFIG, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    outcome = fit(line(), CONFIG, tmp_path, resume=True)
    assert outcome.stopped_because == "all 8 steps are done"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_lock_goes_with_the_process(tmp_path: Path) -> None:
    ready, started = os.pipe()
    process = os.fork()
    if process == 0:
        with exclusive(tmp_path):
            os.write(started, b"x")
            signal.pause()
        os._exit(0)
    os.read(ready, 1)
    with pytest.raises(UsageError, match="Another process"), exclusive(tmp_path):
        pass
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    with exclusive(tmp_path):
        pass


def test_differences_list_what_was_added_and_removed() -> None:
    changes = differences({"a": {"kind": "x", "n": 1}, "b": (1, 2)}, {"a": {"kind": "y", "m": 2}, "b": [1, 2]})
    assert changes == {"a.kind": "x → y", "a.n": "1 → not set", "a.m": "not set → 2"}
