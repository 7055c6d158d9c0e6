"""Pictures in IDX and `.npz` files: their labels, their levels, and what is said about damaged ones."""

import gzip
import re
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate.data import archive, picture_array
from foveate.data.picture_array import is_array, labels_beside, parts_of, pictures_in, read_array
from foveate.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 4, 6)).astype(np.uint8)
RANDOM = np.random.default_rng(0).bytes(70_000)
LABELS = np.array([3, 1, 4, 1, 5], np.uint8)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist(folder: Path, end: str = "") -> Path:
    """Pictures and labels under the names of MNIST."""
    pack = gzip.compress if end else bytes
    (folder / f"train-labels-idx1-ubyte{end}").write_bytes(pack(idx(LABELS)))
    path = folder / f"train-images-idx3-ubyte{end}"
    path.write_bytes(pack(idx(PIXELS)))
    return path


@pytest.mark.parametrize("end", ["", ".gz"])
def test_idx_files_are_read_with_the_labels_beside_them(end: str, tmp_path: Path) -> None:
    path = str(mnist(tmp_path, end))
    assert is_array(path)
    examples = list(read_array(path))
    assert [(one.line, one.label) for one in examples] == [(1, "3"), (2, "1"), (3, "4"), (4, "1"), (5, "5")]
    assert all((one.thing.pixels == pixels[..., None]).all() for one, pixels in zip(examples, PIXELS, strict=True))
    assert str(examples[2].thing) == f"{path}, picture 3"
    assert len(list(pictures_in(path))) == 5


def test_labels_may_be_packed_when_pictures_are_not(tmp_path: Path) -> None:
    path = mnist(tmp_path)
    plain = tmp_path / "train-labels-idx1-ubyte"
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert labels_beside(path).name == "train-labels-idx1-ubyte.gz"
    assert len(list(read_array(str(path)))) == 5
    dotted = tmp_path / "t10k-images.idx3-ubyte"
    dotted.write_bytes(path.read_bytes())
    (tmp_path / "t10k-labels.idx1-ubyte").write_bytes(idx(LABELS))
    assert [one.label for one in read_array(str(dotted))][:2] == ["3", "1"]


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (idx(PIXELS)[:-1], idx(LABELS), "states 120 bytes of images, and it has at most 119"),
        (idx(PIXELS) + b"x", idx(LABELS), "states 120 bytes of images, and it has more"),
        (idx(PIXELS)[:3], idx(LABELS), "train-images-idx3-ubyte is damaged or truncated. Fetch it again."),
        (b"\x89PNG" + idx(PIXELS), idx(LABELS), "is not an IDX file of bytes"),
        (idx(PIXELS), idx(LABELS[:4]), "has 5 pictures, and "),
        (
            idx(PIXELS[0]),
            idx(LABELS),
            "has an array of shape (4, 6). Pictures have the shape",
        ),
        (idx(PIXELS), None, "has its labels in train-labels-idx1-ubyte, which is missing"),
        (None, idx(LABELS), "there is no such file"),
        (struct.pack(">HBB3I", 0, 8, 3, 1 << 20, 1 << 10, 1 << 10), idx(LABELS), "unpacks to 1024.0 GiB"),
    ],
)
def test_damaged_idx_files_are_named(images: bytes | None, labels: bytes | None, message: str, tmp_path: Path) -> None:
    for name, content in (("images-idx3", images), ("labels-idx1", labels)):
        if content is not None:
            (tmp_path / f"train-{name}-ubyte").write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)) as refusal:
        list(read_array(str(tmp_path / "train-images-idx3-ubyte")))
    assert str(tmp_path) in str(refusal.value)


def test_a_truncated_gzip_is_named(tmp_path: Path) -> None:
    path = mnist(tmp_path, ".gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"ubyte\.gz is damaged or truncated"):
        list(read_array(str(path)))
    with pytest.raises(DataError, match="has no `images` in its name"):
        list(read_array(str(tmp_path / "train-labels-idx1-ubyte.gz")))


HUGE = struct.pack(">HBB3I", 0, 8, 3, 1 << 13, 1 << 10, 1 << 10)
"""A header of 8 GiB, the most that is read."""


@pytest.mark.parametrize(
    ("end", "content", "more"),
    [
        ("", HUGE + bytes(24), "it has at most 24"),
        (".gz", gzip.compress(HUGE + bytes(24)), "it has at most"),
        (".gz", gzip.compress(idx(PIXELS)[:-1]), "it has 119"),
        (".gz", gzip.compress(struct.pack(">HBB3I", 0, 8, 3, 64, 1 << 10, 1 << 10) + RANDOM), "it has 70,000"),
    ],
    ids=["plain", "packed", "truncated", "random"],
)
def test_memory_is_not_reserved_for_what_a_header_states(end: str, content: bytes, more: str, tmp_path: Path) -> None:
    path = mnist(tmp_path, end)
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=more):
            list(pictures_in(str(path)))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def saved(folder: Path, **arrays: Any) -> str:
    np.savez(folder / "data.npz", **arrays)
    return str(folder / "data.npz")


@pytest.mark.parametrize(
    ("pictures", "labels"),
    [("x", "y"), ("images", "labels"), ("X", "y"), ("x_train", "y_train"), ("train_images", "train_labels")],
)
def test_the_names_of_arrays_tell_pictures_and_labels(pictures: str, labels: str, tmp_path: Path) -> None:
    path = saved(tmp_path, **{pictures: PIXELS, labels: ["a", "b", "a", "b", "c"]})
    assert is_array(path)
    assert [one.label for one in read_array(path)] == ["a", "b", "a", "b", "c"]


def test_a_part_is_named_behind_a_colon_and_never_guessed(tmp_path: Path) -> None:
    path = saved(tmp_path, x_train=PIXELS, y_train=LABELS, x_test=PIXELS[:2], y_test=LABELS[:2, None])
    assert [one.label for one in read_array(f"{path}:test")] == ["3", "1"]
    assert len(list(read_array(f"{path}:train"))) == 5
    assert is_array(f"{path}:test")
    with pytest.raises(DataError, match=re.escape(f"several parts. Name one: {path}:train, {path}:test.")):
        read_array_all(path)
    with pytest.raises(DataError, match="no part 'valid'"):
        read_array_all(f"{path}:valid")


def read_array_all(path: str) -> list[Any]:
    return list(read_array(path))


@pytest.mark.parametrize(
    ("array", "levels"),
    [
        (PIXELS[..., None], PIXELS[..., None]),
        (PIXELS.astype(np.int64), PIXELS[..., None]),
        (PIXELS.astype(np.float64), PIXELS[..., None]),
        ((PIXELS / 255).astype(np.float32), PIXELS[..., None]),
        (PIXELS > 99, 255 * (PIXELS > 99)[..., None]),
        (np.stack([PIXELS] * 3, -1), PIXELS[..., None]),
        (np.stack([PIXELS, PIXELS // 2, PIXELS // 3], 1), np.stack([PIXELS, PIXELS // 2, PIXELS // 3], -1)),
        (np.stack([PIXELS] * 3 + [np.zeros_like(PIXELS)], -1), np.full((5, 4, 6, 1), 255)),
    ],
    ids=["one channel", "int", "float", "share", "bool", "colours", "channels first", "clear"],
)
def test_levels_of_every_type_become_bytes(array: np.ndarray, levels: np.ndarray, tmp_path: Path) -> None:
    for one, expected in zip(pictures_in(saved(tmp_path, x=array)), levels, strict=True):
        assert (one.pixels == expected).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.astype(float) * 2 - 5, "has a level that is not from 0 to 255"),
        (lambda x: x.astype(float) + np.eye(5)[3][:, None, None] / 3, "picture 4, has a level between two of 0 to 255"),
        (lambda x: np.where(np.arange(5)[:, None, None] == 1, np.nan, x), "picture 2, has a level that is not from 0"),
        (lambda x: x.astype(complex), "complex128, which are not numbers"),
        (lambda x: x.reshape(5, 24), "has an array of shape (5, 24)"),
        (lambda x: x[:, :0], "has an array of shape (5, 0, 6)"),
    ],
)
def test_levels_outside_of_the_scale_are_refused_with_their_picture(change: Any, message: str, tmp_path: Path) -> None:
    path = saved(tmp_path, x=change(PIXELS // 2 + 2), y=LABELS)
    with pytest.raises(DataError, match=re.escape(message)):
        list(read_array(path))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": PIXELS}, "has pictures in `x` and no labels in `y`. Save them too"),
        ({"x": PIXELS, "y": LABELS[:3]}, "has 5 pictures, and "),
        ({"x": PIXELS, "y": np.eye(5)}, "must be a list of names or whole numbers, one a picture; it is float64"),
        ({"x": PIXELS, "y": ["a", "b", " ", "c", "d"]}, "picture 3 has an empty label"),
        ({"z": PIXELS}, "has no array `x` or `images` with pictures; it has: z."),
        ({"x": np.array([None, "a"]), "y": LABELS}, "is not an .npz file of numbers and names"),
    ],
)
def test_archives_that_lack_an_array_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read_array_all(saved(tmp_path, **arrays))


def test_limits_on_unpacked_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST", 64)
    with pytest.raises(DataError, match=r"data\.npz unpacks to 0\.0 GiB, and at most"):
        read_array_all(saved(tmp_path, x=PIXELS, y=LABELS))
    monkeypatch.setattr(picture_array, "LARGEST", 10)
    with pytest.raises(DataError, match=r"ubyte unpacks to 0\.0 GiB"):
        read_array_all(str(mnist(tmp_path)))


def test_vectors_are_not_pictures(tmp_path: Path) -> None:
    assert not is_array(saved(tmp_path, inputs=np.eye(3), labels=[1, 2, 3]))
    assert parts_of(["inputs", "labels", "lengths"]) == {}
    assert not is_array(str(tmp_path / "none.npz"))
