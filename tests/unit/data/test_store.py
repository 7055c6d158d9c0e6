"""The token store: rows on disk, written as a stream, whole or absent, and aware of damage."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate.data import row_writer
from foveate.data.store import FeatureStore, TokenStore
from foveate.errors import DataError, SetupError

ROWS = [[4, 5, 6], [], [65_535], [7, 7]]


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore.write(tmp_path / "store", ROWS, "abc", vocab_size=65_536)


def refusal(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        TokenStore.open(folder).verify()
    return str(caught.value)


def test_rows_come_back(store: TokenStore) -> None:
    assert [row.tolist() for row in store] == ROWS
    assert store[-1].tolist() == [7, 7]
    assert store.lengths.tolist() == [3, 0, 1, 2]
    assert (len(store), store.num_tokens, store.tokeniser_digest) == (4, 6, "abc")
    assert store.tokens.tolist() == [4, 5, 6, 65_535, 7, 7]
    store.verify()
    with pytest.raises(IndexError):
        store[4]


def test_rows_cannot_be_changed(store: TokenStore) -> None:
    with pytest.raises(ValueError, match="read-only"):
        store[0][0] = 1


def test_a_small_vocabulary_takes_two_bytes_an_id(store: TokenStore, tmp_path: Path) -> None:
    assert (store.folder / "tokens.bin").stat().st_size == 2 * store.num_tokens
    wide = TokenStore.write(tmp_path / "wide", [[70_000]], "abc", vocab_size=70_001)
    assert wide[0].tolist() == [70_000]
    assert TokenStore.write(tmp_path / "any", [[4_000_000_000]], "abc")[0].tolist() == [4_000_000_000]


def test_an_id_beyond_the_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        TokenStore.write(tmp_path / "store", [[4], [70_000]], "abc", vocab_size=100)
    assert str(caught.value) == "Ids must be from 0 to 65,535, got some from 4 to 70,000."
    assert list(tmp_path.iterdir()) == []


def test_an_open_store_keeps_its_rows_when_its_files_are_gone(store: TokenStore) -> None:
    lengths = store.lengths_between(0, len(store)).tolist()
    shutil.rmtree(store.folder)
    assert store.lengths_between(0, len(store)).tolist() == lengths
    assert store.require(below=65_536) is store


def test_checks_leave_no_pages_of_a_store_in_memory(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "large", ([7] * 10 for _ in range(200_000)), "")
    store.require(below=100, shortest=1)
    assert store.lengths_between(0, len(store)).sum() == store.num_tokens
    assert resident(tmp_path / "large") < 100  # of 5,500 kB
    assert store.tokens.sum() == 7 * store.num_tokens
    assert resident(tmp_path / "large") > 1000


def resident(folder: Path) -> int:
    """The mapped files of a folder that this process has in memory, in kB."""
    maps = re.findall(
        rf" {folder}/.*\n(?:Size|KernelPageSize|MMUPageSize).*\n(?:.*\n)*?Rss: +(\d+) kB",
        Path("/proc/self/smaps").read_text(),
    )
    assert maps
    return sum(map(int, maps))


def test_a_store_may_be_empty(tmp_path: Path) -> None:
    store = TokenStore.write(tmp_path / "store", [], "abc")
    assert (len(store), store.num_tokens, list(store)) == (0, 0, [])
    store.verify()


def test_writing_streams_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_writer, "CHUNK", 8)
    rows = [[i, i + 1, i + 2][: i % 4] for i in range(100)]
    with TokenStore.writer(tmp_path / "store", "abc") as writer:
        for row in rows:
            writer.append(row)
            assert len(writer._tokens) < 8 > len(writer._offsets)
    store = TokenStore.open(tmp_path / "store")
    assert [row.tolist() for row in store] == rows
    store.verify()


def test_a_failed_write_leaves_what_was_there(store: TokenStore) -> None:
    def rows() -> Iterator[list[int]]:
        yield [1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TokenStore.write(store.folder, rows(), "abc")
    assert [row.tolist() for row in TokenStore.open(store.folder)] == ROWS
    assert [path.name for path in store.folder.parent.iterdir()] == ["store"]


def test_writing_again_replaces(store: TokenStore) -> None:
    assert [row.tolist() for row in TokenStore.write(store.folder, [[9]], "abc")] == [[9]]
    assert [path.name for path in store.folder.parent.iterdir()] == ["store"]


def test_everything_is_flushed_before_the_store_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        assert (tmp_path / "store").exists() == (flushed[-1] == tmp_path.name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    TokenStore.write(tmp_path / "store", ROWS, "abc")
    assert {"tokens.bin", "offsets.bin", "index.json", tmp_path.name} <= set(flushed)


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SetupError, match="The disk is full"):
        TokenStore.write(tmp_path / "store", ROWS, "abc")
    assert list(tmp_path.iterdir()) == []


def test_a_cut_file_is_noticed_when_opened(store: TokenStore) -> None:
    path = store.folder / "tokens.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError) as caught:
        TokenStore.open(store.folder)
    assert str(caught.value) == f"{path} has 11 bytes but 12 were written. Prepare the data again."
    path.unlink()
    assert refusal(store.folder) == f"{path} is missing. Prepare the data again."


@pytest.mark.parametrize("name", ["tokens.bin", "offsets.bin"])
def test_a_flipped_bit_is_noticed_on_verification(store: TokenStore, name: str) -> None:
    path = store.folder / name
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(content)
    message = {
        "tokens.bin": " since it was written: its SHA-256 differs",
        "offsets.bin": ": it does not contain the beginnings of rows",
    }
    assert refusal(store.folder) == f"{path} has changed{message[name]}. Prepare the data again."


def test_a_changed_index_is_noticed(store: TokenStore) -> None:
    path = store.folder / "index.json"
    right = path.read_text()
    path.write_text(right.replace('"rows": 4', '"rows": 3'))
    assert refusal(store.folder) == (
        f"{path} has changed since it was written: its digest differs. Prepare the data again."
    )
    path.write_text(right[:-20])
    assert refusal(store.folder) == f"{path} is damaged. Prepare the data again."
    path.write_text(json.dumps(json.loads(right) | {"format": "foveate token store 2"}))
    assert refusal(store.folder) == (
        f"{store.folder} has the format 'foveate token store 2'; this version of foveate reads 'foveate token store 1'."
    )
    path.unlink()
    assert refusal(store.folder) == (
        f"{store.folder} is not a token store: it has no index.json. Run the training command again."
    )


def test_views_are_plain_arrays(store: TokenStore) -> None:
    assert type(store[0]) is np.ndarray


VECTORS = [np.arange(6, dtype=np.float32).reshape(3, 2), np.empty((0, 2), np.float32), np.full((1, 2), 0.5, np.float32)]


@pytest.fixture
def features(tmp_path: Path) -> FeatureStore:
    return written(tmp_path / "features", VECTORS)


def written(folder: Path, rows: list[np.ndarray], **settings: Any) -> FeatureStore:
    with FeatureStore.writer(folder, 2, **settings) as writer:
        for row in rows:
            writer.append(row)
    return FeatureStore.open(folder)


def test_rows_of_vectors_come_back(features: FeatureStore) -> None:
    assert [row.tolist() for row in features] == [row.tolist() for row in VECTORS]
    assert (len(features), features.width, features.lengths.tolist()) == (3, 2, [3, 0, 1])
    features.verify()
    features.require(width=2)
    assert features[0].dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        features[0][0, 0] = 1


def test_vectors_may_take_two_bytes_a_number(tmp_path: Path) -> None:
    half = written(tmp_path / "half", VECTORS, dtype="float16")
    assert (half.folder / "features.bin").stat().st_size == 2 * 8
    assert [row.tolist() for row in half] == [row.tolist() for row in VECTORS]


def test_vectors_stream_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_writer, "CHUNK", 8)
    rows = [np.full((i % 4, 2), i, np.float32) for i in range(50)]
    with FeatureStore.writer(tmp_path / "features", 2) as writer:
        for row in rows:
            writer.append(row)
            assert writer._waiting < 8 > len(writer._offsets)
    store = FeatureStore.open(tmp_path / "features")
    assert [row.tolist() for row in store] == [row.tolist() for row in rows]
    store.verify()


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        (np.ones((3, 4), np.float32), {}, "A row has the shape (3, 4), but this store contains vectors of 2 numbers."),
        (np.array([[1, np.nan]], np.float32), {}, "A row has a number that is not finite, or too large for float32."),
        (np.array([[1, 1e6]], np.float32), {"dtype": "float16"}, "not finite, or too large for float16."),
    ],
)
def test_a_row_that_does_not_fit_leaves_no_store(
    tmp_path: Path, row: np.ndarray, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        written(tmp_path / "features", [VECTORS[0], row], **settings)
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_damage_to_vectors_is_noticed(features: FeatureStore) -> None:
    path = features.folder / "features.bin"
    whole = path.read_bytes()
    path.write_bytes(bytes([whole[0] ^ 1, *whole[1:]]))
    with pytest.raises(DataError, match="its SHA-256 differs"):
        FeatureStore.open(features.folder).verify()
    path.write_bytes(whole[:-4])
    with pytest.raises(DataError) as caught:
        FeatureStore.open(features.folder)
    assert str(caught.value) == f"{path} has 28 bytes but 32 were written. Prepare the data again."
    path.write_bytes(np.array(np.nan, "<f4").tobytes() + whole[4:])
    with pytest.raises(DataError, match="has a number that is not finite"):
        FeatureStore.open(features.folder).require(width=2)
    with pytest.raises(DataError, match="has vectors of 2 numbers, but 3 are needed"):
        features.require(width=3)


def test_a_store_of_vectors_is_not_taken_for_one_of_ids(features: FeatureStore) -> None:
    with pytest.raises(DataError, match="has the format 'foveate feature store 1'"):
        TokenStore.open(features.folder)


def test_the_format_of_ids_is_that_of_the_first_version(store: TokenStore) -> None:
    index = json.loads((store.folder / "index.json").read_text())
    assert list(index) == ["format", "rows", "tokens", "dtype", "sha256", "tokeniser", "digest"]
    assert index["format"] == "foveate token store 1"
    assert (store.folder / "tokens.bin").read_bytes() == np.array([id for row in ROWS for id in row], "<u2").tobytes()
