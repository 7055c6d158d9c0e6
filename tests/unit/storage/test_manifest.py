"""What was written is noticed when it is no longer that."""

from pathlib import Path

import pytest

from foveate.errors import SetupError
from foveate.storage.manifest import MANIFEST, DamagedError, read_json, sealed_folder, verify, write_json


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    with sealed_folder(tmp_path / "sealed") as folder:
        (folder / "a.txt").write_text("one")
        (folder / "b c.txt").write_text("two")
    return tmp_path / "sealed"


def test_a_file_that_another_process_should_have_written_is_missed_before_the_folder_appears(tmp_path: Path) -> None:
    with (
        pytest.raises(SetupError, match="sealed cannot be written"),
        sealed_folder(tmp_path / "sealed", digests={"b.txt": "0" * 64}) as folder,
    ):
        (folder / "a.txt").write_text("one")
    assert not list(tmp_path.iterdir())


def refusal(folder: Path) -> str:
    with pytest.raises(DamagedError) as caught:
        verify(folder)
    return str(caught.value)


def test_a_sealed_folder_is_sound(sealed: Path) -> None:
    verify(sealed)
    assert sorted(path.name for path in sealed.iterdir()) == [MANIFEST, "a.txt", "b c.txt"]


def test_each_kind_of_damage_has_its_sentence(sealed: Path) -> None:
    path = sealed / "b c.txt"
    path.write_text("twa")
    assert refusal(sealed) == f"{path} has changed since it was written: its SHA-256 differs."
    path.write_text("tw")
    assert refusal(sealed) == f"{path} has 2 bytes but 3 were written."
    path.unlink()
    assert refusal(sealed) == f"{path} is missing."
    manifest = sealed / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-1])
    assert refusal(sealed) == f"{manifest} has changed since it was written: its SHA-256 differs."
    manifest.write_bytes(b"")
    assert refusal(sealed) == f"{manifest} is truncated."
    manifest.unlink()
    assert refusal(sealed) == f"{manifest} is missing."


def test_json_comes_back(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"é": [1, 2.5, None]})
    assert read_json(tmp_path / "a.json") == {"é": [1, 2.5, None]}


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 100_000, "\udcff"])
def test_json_other_than_a_mapping_counts_as_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text, errors="surrogateescape")
    with pytest.raises(DamagedError, match=r"a\.json"):
        read_json(tmp_path / "a.json")
