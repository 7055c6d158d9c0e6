import errno
import json
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from foveate.errors import DataError, SetupError
from foveate.storage.checkpoint import Checkpoints, load_weights, model_tensors, restore_model, save_final
from foveate.storage.draft import remove_stale
from foveate.storage.manifest import MANIFEST, DamagedError


def save(checkpoints: Checkpoints, step: int, value: float = 0.0) -> None:
    tensors = {"w": torch.full((64,), value or float(step))}
    checkpoints.save(step, model=tensors, optimiser={"w/exp_avg": tensors["w"] * 2}, state={"tokens": step})


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def checkpoints(tmp_path: Path, notes: list[str]) -> Checkpoints:
    checkpoints = Checkpoints(tmp_path / "checkpoints", notes.append)
    for step in (10, 20, 30):
        save(checkpoints, step)
    return checkpoints


def test_what_is_loaded_is_what_was_saved(checkpoints: Checkpoints) -> None:
    checkpoint = checkpoints.newest()
    assert checkpoint
    assert checkpoint.state == {"format": 1, "step": 30, "tokens": 30}
    assert torch.equal(checkpoint.model["w"], torch.full((64,), 30.0))
    assert torch.equal(checkpoint.optimiser["w/exp_avg"], torch.full((64,), 60.0))


def test_a_folder_without_checkpoints_has_no_newest(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "none").newest() is None


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "state.json", MANIFEST])
def test_a_flipped_bit_anywhere_in_any_file_is_noticed(checkpoints: Checkpoints, name: str) -> None:
    path = checkpoints.path(30) / name
    sound = path.read_bytes()
    for position in range(0, len(sound), max(1, len(sound) // 60)):
        flipped = bytearray(sound)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        with pytest.raises(DamagedError, match=r"step-00000030"):
            checkpoints.load(30)


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "state.json", MANIFEST])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    checkpoints: Checkpoints, notes: list[str], name: str, damage: str
) -> None:
    path = checkpoints.path(30) / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-5] if damage == "cut" else b"")
    checkpoint = checkpoints.newest()
    assert checkpoint
    assert checkpoint.state["step"] == 20
    assert len(notes) == 1
    assert str(path) in notes[0]


def test_several_damaged_ones_are_all_named(checkpoints: Checkpoints, notes: list[str]) -> None:
    for step in (20, 30):
        (checkpoints.path(step) / "state.json").unlink()
    checkpoint = checkpoints.newest()
    assert checkpoint
    assert checkpoint.state["step"] == 10
    assert len(notes) == 2


def test_nothing_is_guessed_when_all_are_damaged(checkpoints: Checkpoints) -> None:
    for step in checkpoints.steps():
        (checkpoints.path(step) / MANIFEST).unlink()
    with pytest.raises(DataError, match="All 3 checkpoints"):
        checkpoints.newest()


def test_a_damaged_one_is_set_aside_and_replaced(checkpoints: Checkpoints) -> None:
    (checkpoints.path(30) / MANIFEST).unlink()
    checkpoints.set_aside(20)
    assert checkpoints.steps() == [10, 20]
    assert (checkpoints.folder / "damaged-step-00000030").is_dir()
    save(checkpoints, 30)
    assert checkpoints.steps() == [10, 20, 30]


def test_saving_a_step_again_replaces_it(checkpoints: Checkpoints) -> None:
    save(checkpoints, 30, value=7.0)
    assert checkpoints.load(30).model["w"][0] == 7
    assert not list(checkpoints.folder.glob(".tmp-*"))


def test_pruning_keeps_the_newest_and_the_spared(checkpoints: Checkpoints) -> None:
    save(checkpoints, 40)
    checkpoints.prune(keep=2, spare={10})
    assert checkpoints.steps() == [10, 30, 40]


def test_a_checkpoint_of_another_format_is_refused(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.storage.checkpoint.FORMAT", 2)
    with pytest.raises(DataError, match="has format 1, but this version of foveate reads format 2"):
        checkpoints.newest()


def test_files_have_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        checkpoints = Checkpoints(tmp_path)
        save(checkpoints, 1)
        save_final(tmp_path, {"w": torch.ones(1)}, {})
    finally:
        os.umask(before)
    files = [*checkpoints.path(1).iterdir(), tmp_path / "model.safetensors", tmp_path / "model.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o640}


# -- a process that ends in the middle of a save -----------------------------------------------------------------------


@pytest.mark.parametrize("step", [40, 30])
def test_a_save_cut_anywhere_leaves_the_old_state_or_the_new_one(
    tmp_path: Path, step: int, run_until_call: Callable[[Callable[[], object], int], bool]
) -> None:
    number, died = 0, True
    while died:
        number += 1
        checkpoints = Checkpoints(tmp_path / str(number))
        for earlier in (20, 30):
            save(checkpoints, earlier)
        died = run_until_call(partial(save, checkpoints, step, value=0.5), number)
        remove_stale(checkpoints.folder)
        checkpoint = checkpoints.newest()
        assert checkpoint
        assert (checkpoint.state["step"], checkpoint.model["w"][0].item()) in {(30, 30.0), (step, 0.5)}
        assert not list(checkpoints.folder.glob(".tmp-*"))
    assert number > 12


def test_final_weights_cut_anywhere_are_old_or_new_or_the_checkpoint(
    tmp_path: Path, run_until_call: Callable[[Callable[[], object], int], bool]
) -> None:
    number, died = 0, True
    while died:
        number += 1
        run = tmp_path / str(number)
        save(Checkpoints(run / "checkpoints"), 10)
        save_final(run, {"w": torch.full((64,), 1.0)}, {})
        died = run_until_call(partial(save_final, run, {"w": torch.full((64,), 2.0)}, {}), number)
        assert load_weights(run)[0]["w"][0].item() in {1.0, 2.0, 10.0}
    assert number > 8


def test_a_full_disk_is_reported_in_one_sentence_and_harms_nothing(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("foveate.storage.checkpoint.write_tensors", full)
    with pytest.raises(SetupError, match=r"The disk is full: .* MB are needed, .* MB are free at .*checkpoints"):
        save(checkpoints, 40)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == [f"step-{n:08d}" for n in (10, 20, 30)]
    checkpoint = checkpoints.newest()
    assert checkpoint
    assert checkpoint.state["step"] == 30


def test_free_space_is_checked_before_anything_is_written(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "shutil.disk_usage", lambda path: os.terminal_size((0, 0)) and type("Usage", (), {"free": 1000})
    )
    with pytest.raises(SetupError, match=r"1\.0 MB are needed, 0\.0 MB are free"):
        save(checkpoints, 40)


# -- weights for use ---------------------------------------------------------------------------------------------------


def test_weights_of_an_unfinished_run_are_those_of_its_best_checkpoint(checkpoints: Checkpoints) -> None:
    run = checkpoints.folder.parent
    assert load_weights(run)[1] == "checkpoint of step 30 (the run is not finished)"
    (run / "best.json").write_text(json.dumps({"step": 20}))
    assert load_weights(run)[1] == "checkpoint of step 20 (the run is not finished)"
    (checkpoints.path(20) / MANIFEST).unlink()
    assert load_weights(run)[1] == "checkpoint of step 30 (the run is not finished)"


def test_damaged_final_weights_are_refused(tmp_path: Path) -> None:
    save_final(tmp_path, {"w": torch.ones(8)}, {})
    data = bytearray((tmp_path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(DataError, match="its SHA-256 differs"):
        load_weights(tmp_path)


def test_a_folder_without_weights_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no trained weights"):
        load_weights(tmp_path)


def test_weights_of_another_model_are_refused_with_the_differences(tmp_path: Path) -> None:
    tensors = model_tensors(nn.Linear(2, 3))
    with pytest.raises(DataError, match=r"weight is float32 \(3, 2\) but the model has float32 \(3, 4\)"):
        restore_model(nn.Linear(4, 3), tensors, source=tmp_path)
    with pytest.raises(DataError, match="bias is unknown to the model"):
        restore_model(nn.Linear(2, 3, bias=False), tensors, source=tmp_path)
