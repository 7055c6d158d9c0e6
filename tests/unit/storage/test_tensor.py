import errno
import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from foveate.storage.manifest import DamagedError
from foveate.storage.tensor import read_tensors, write_tensors


def test_tensors_come_back_in_memory_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"w": torch.arange(6).view(2, 3).T, "b": torch.tensor([0.5], dtype=torch.bfloat16)})
    tensors = read_tensors(path)
    path.unlink()
    assert tensors["w"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert tensors["b"].dtype == torch.bfloat16


def test_tensors_that_share_memory_are_written_whole(tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    originals = {"a": whole, "b": whole, "part": whole[2:4], "turned": whole.reshape(2, 3).mT}
    write_tensors(tmp_path / "a.safetensors", originals)
    tensors = read_tensors(tmp_path / "a.safetensors")
    assert tensors.keys() == originals.keys()
    assert all(torch.equal(tensors[name], tensor) for name, tensor in originals.items())


def test_the_file_has_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_tensors(tmp_path / "a.safetensors", {"w": torch.ones(1)})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.safetensors").stat().st_mode) == 0o640


@pytest.mark.parametrize(("message", "number"), [("I/O error: No space left", errno.ENOSPC), ("other", errno.EIO)])
def test_a_failure_to_write_is_the_systems_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, number: int
) -> None:
    def failing(*arguments: object) -> None:
        raise SafetensorError(message)

    monkeypatch.setattr("foveate.storage.tensor.save_file", failing)
    with pytest.raises(OSError, match=message) as caught:
        write_tensors(tmp_path / "a.safetensors", {"w": torch.ones(1)})
    assert caught.value.errno == number


def test_a_missing_or_foreign_file_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match=r"a\.safetensors is missing"):
        read_tensors(tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").write_text("no")
    with pytest.raises(DamagedError, match=r"a\.safetensors cannot be read as safetensors"):
        read_tensors(tmp_path / "a.safetensors")
