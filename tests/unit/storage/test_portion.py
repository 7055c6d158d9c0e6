from pathlib import Path

import pytest
import torch
from torch import Tensor

from foveate.storage.checkpoint import MODEL, Checkpoints, load_weights, stored_weights
from foveate.storage.manifest import DamagedError
from foveate.storage.portion import Portion, TensorFiles, portion_name, write_portions

TENSORS = {"table": torch.arange(14.0).view(7, 2), "gain": torch.arange(5.0), "count": torch.tensor(3)}


def write(folder: Path, tensors: dict[str, Tensor], count: int) -> None:
    """Writes the tensors as `count` processes do; the last ones may have no rows."""
    for number in range(count):
        portions = {}
        for name, tensor in tensors.items():
            if tensor.ndim:
                each = -(-len(tensor) // count)
                portions[name] = Portion(tensor[number * each : (number + 1) * each], number * each, tensor.shape)
            elif not number:
                portions[name] = Portion.all_of(tensor)
        write_portions(folder / portion_name(MODEL, number, count), portions)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_rows_are_those_of_the_whole_however_many_files_have_them(tmp_path: Path, count: int) -> None:
    write(tmp_path, TENSORS, count)
    files = TensorFiles(tmp_path / MODEL)
    whole = files.whole()
    assert whole.keys() == TENSORS.keys()
    assert files.size == (20, 3)
    for name, tensor in TENSORS.items():
        assert files.shape(name) == tensor.shape
        assert torch.equal(whole[name], tensor)
    for first in range(7):
        for last in range(first, 8):
            assert torch.equal(files.rows("table", first, last), TENSORS["table"][first:last])


def test_a_missing_file_or_row_is_damage(tmp_path: Path) -> None:
    write(tmp_path, TENSORS, 3)
    (tmp_path / portion_name(MODEL, 1, 3)).unlink()
    with pytest.raises(DamagedError, match=r"has some files of model.safetensors only: model-00001-of-00003"):
        TensorFiles(tmp_path / MODEL)
    write(tmp_path, TENSORS, 3)
    write_portions(tmp_path / portion_name(MODEL, 1, 3), {"gain": Portion(torch.ones(1), 3, torch.Size([5]))})
    with pytest.raises(DamagedError, match=r"rows of \w+ are missing"):
        TensorFiles(tmp_path / MODEL)
    with pytest.raises(DamagedError, match=r"model.safetensors is missing"):
        TensorFiles(tmp_path / "none" / MODEL)


def test_a_run_offers_the_weights_of_several_files_and_skips_damaged_ones(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for step in (1, 2):
        with checkpoints.draft(step, 0) as folder:
            write(folder, {"w": torch.full((5,), float(step))}, 2)
            checkpoints.write_state(folder.name, step, {})
    assert stored_weights(tmp_path) == (checkpoints.path(2) / MODEL, 5, 1)
    assert load_weights(tmp_path)[0]["w"].tolist() == [2.0] * 5
    damaged = checkpoints.path(2) / portion_name(MODEL, 1, 2)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\1")
    notes: list[str] = []
    assert load_weights(tmp_path, notes.append)[0]["w"].tolist() == [1.0] * 5
    assert "Skipping the damaged checkpoint" in notes[0]
