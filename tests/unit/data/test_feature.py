"""Labelled vectors from .npz files and lists of .npy files, and what is said about bad ones."""

import contextlib
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate.data import archive as module
from foveate.data.feature import VectorReader, VectorRows, one_vector, vector_of
from foveate.data.reader import ROWS
from foveate.errors import DataError

READER = VectorReader()
FLAT = np.arange(6.0).reshape(3, 2)


def saved(folder: Path, **arrays: Any) -> str:
    np.savez(folder / "a.npz", **arrays)
    return str(folder / "a.npz")


def refusal(path: str) -> str:
    with pytest.raises(DataError) as caught:
        list(READER.read(path))
    return str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "values"),
    [
        ({"inputs": FLAT}, [[[0, 1]], [[2, 3]], [[4, 5]]]),
        ({"inputs": np.arange(6).reshape(3, 2, 1)}, [[[0], [1]], [[2], [3]], [[4], [5]]]),
        ({"inputs": np.arange(8).reshape(4, 2), "lengths": [1, 1, 2]}, [[[0, 1]], [[2, 3]], [[4, 5], [6, 7]]]),
    ],
)
def test_an_npz_holds_vectors_or_sequences_of_them(tmp_path: Path, arrays: dict[str, Any], values: list[Any]) -> None:
    path = saved(tmp_path, **arrays, labels=["a", "b", "a"])
    examples = list(READER.read(path))
    assert [example.thing.values.tolist() for example in examples] == values
    assert [(example.line, example.label) for example in examples] == [(1, "a"), (2, "b"), (3, "a")]
    assert str(examples[1].thing) == f"{path}, example 2"
    assert [thing.values.tolist() for thing in VectorRows(mean=(0.0,), deviation=(1.0,)).things(path)] == values


def test_the_ending_may_be_in_capitals(tmp_path: Path) -> None:
    path = Path(saved(tmp_path, inputs=FLAT, labels=["a", "b", "a"])).rename(tmp_path / "A.NPZ")
    assert [example.label for example in READER.read(str(path))] == ["a", "b", "a"]


def test_labels_may_be_whole_numbers(tmp_path: Path) -> None:
    path = saved(tmp_path, inputs=FLAT, labels=[7, 8, 7])
    assert [example.label for example in READER.read(path)] == ["7", "8", "7"]


def test_a_list_names_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "parts" / "one.npy", FLAT)
    np.save(tmp_path / "two.npy", FLAT[0])
    (tmp_path / "list.tsv").write_text("parts/one.npy\ta\n\ntwo.npy\tb\n")
    one, two = READER.read(str(tmp_path / "list.tsv"))
    assert (one.line, one.thing.values.tolist(), one.label) == (1, FLAT.tolist(), "a")
    assert (two.line, two.thing.values.tolist(), two.label) == (3, [[0, 1]], "b")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no labels": ({"inputs": FLAT}, "has no array 'labels'; it has: inputs. Save inputs and labels."),
    "few labels": ({"inputs": FLAT, "labels": ["a"]}, "has 3 examples but 1 labels. Save one for each."),
    "empty label": ({"inputs": FLAT, "labels": ["a", " ", "b"]}, "example 2 has an empty label."),
    "float labels": ({"inputs": FLAT, "labels": [0.5] * 3}, "must be a list of names or whole numbers, not float64."),
    "not a number": ({"inputs": [[1.0], [np.nan]], "labels": [0, 1]}, "example 2 has a number that is not finite"),
    "huge": ({"inputs": [[1.0], [1e300]], "labels": [0, 1]}, "or beyond ±3.4e+38. Replace it, or leave it out."),
    "no numbers": ({"inputs": [["x"], ["y"]], "labels": [0, 1]}, "example 1 holds str32, not numbers."),
    "shape": (
        {"inputs": np.zeros(3), "labels": [0, 1, 2]},
        "`inputs` has the shape (3,); it must be (examples, width)",
    ),
    "lengths": ({"inputs": FLAT, "lengths": [1, 1], "labels": [0, 1]}, "above 0 that sum to the 3 vectors of `inputs`"),
    "objects": ({"inputs": np.array([None, "x"]), "labels": [0, 1]}, "is not an .npz file of numbers and names"),
}


@pytest.mark.parametrize(("arrays", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_npz_is_named_with_its_place(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = saved(tmp_path, **arrays)
    assert refusal(path).startswith(path)
    assert message in refusal(path)


def test_a_file_of_another_format_than_npz_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"no zip")
    assert "is not an .npz file" in refusal(str(tmp_path / "a.npz"))
    assert "no.npz" in refusal(str(tmp_path / "no.npz"))


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.LARGEST == 8 * 2**30
    monkeypatch.setattr(module, "LARGEST", 1 << 10)
    np.savez_compressed(tmp_path / "a.npz", inputs=np.zeros((1000, 10)), labels=np.zeros(1000, int))
    assert refusal(str(tmp_path / "a.npz")).startswith(f"{tmp_path / 'a.npz'} unpacks to 0.0 GiB, and at most")


def test_bad_lines_of_a_list_are_named(tmp_path: Path) -> None:
    path = tmp_path / "list.tsv"
    path.write_text("one.npy\t\n")
    assert refusal(str(path)) == f"{path}:1: the label is missing: write the path of an .npy file, a tab and its label."
    path.write_text("one.npy\ta\n")
    assert str(tmp_path / "one.npy") in refusal(str(path))
    (tmp_path / "one.npy").write_bytes(b"no array")
    assert "is not an .npy file of numbers" in refusal(str(path))
    np.save(tmp_path / "one.npy", np.array([None, "pickled"]))
    assert refusal(str(path)).endswith("is not an .npy file of numbers. Save an array of numbers with numpy.save.")
    np.save(tmp_path / "one.npy", np.zeros((1, 2, 3)))
    assert "has no array of shape (width,) or (length, width)" in refusal(str(path))


def test_rows_are_scaled_by_the_training_data(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(3, 5, (7, 4, 2)) * [1, 1000]
    values[..., 1] = 2.5  # never varies
    examples = list(READER.read(saved(tmp_path, inputs=values, labels=np.zeros(7, int))))
    rows = READER.learn(examples)
    np.testing.assert_allclose(rows.mean, values.mean((0, 1)))
    np.testing.assert_allclose(rows.deviation, [values[..., 0].std(), 1.0])
    built = np.stack([rows.row(example.thing).values for example in examples])
    assert built.dtype == np.float32
    np.testing.assert_allclose(built.mean((0, 1)), 0, atol=1e-6)
    np.testing.assert_allclose(built[..., 0].std(), 1, rtol=1e-6)


def test_a_path_is_the_vectors_of_its_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", FLAT)
    rows = VectorRows(mean=(0.0, 1.0), deviation=(1.0, 2.0))
    read = one_vector(tmp_path / "a.npy")
    for path in (tmp_path / "a.npy", str(tmp_path / "a.npy")):
        assert np.array_equal(rows.row(path).values, rows.row(read).values)
        assert rows.track(path) == rows.track(read)


@pytest.mark.usefixtures("unchecked")
def test_an_array_without_a_name_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match=r"Vector\(name, .* not ndarray"):
        VectorRows(mean=(0.0, 1.0), deviation=(1.0, 2.0)).row(FLAT)  # type: ignore[arg-type]


def test_another_width_is_refused_with_the_name(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros(3))
    (thing,) = VectorRows(mean=(0.0, 0.0), deviation=(1.0, 1.0)).things(str(tmp_path / "one.npy"))
    with pytest.raises(DataError) as caught:
        VectorRows(mean=(0.0, 0.0), deviation=(1.0, 1.0)).row(thing)
    assert str(caught.value).startswith(f"{tmp_path / 'one.npy'} has vectors of 3 numbers, but 2 are needed")


def test_what_makes_rows_is_kept_and_damage_to_it_noticed(tmp_path: Path) -> None:
    rows = VectorRows(mean=(0.1, -2.0), deviation=(1.0, 3e-7))
    rows.save(tmp_path)
    assert VectorRows.open(tmp_path) == rows
    assert VectorRows.open(tmp_path).digests() == rows.digests()
    path = tmp_path / ROWS
    text = path.read_text()
    for damaged in (text.replace("0.1", "0.2"), text[:-9], "[]", text.replace("vector", "image")):
        path.write_text(damaged)
        with pytest.raises(DataError, match=r"is damaged or does not describe vector rows"):
            VectorRows.open(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        VectorRows.open(tmp_path)


def content(values: Any, version: tuple[int, int] | None = None) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(values), version=version)
    return stream.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("kind", ["<f4", ">f8", "<f2", "u1", "<i8", "?"])
@pytest.mark.parametrize("shape", [(3,), (4, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_bytes_have_the_numbers_of_the_file(
    tmp_path: Path, version: tuple[int, int], kind: str, shape: tuple[int, ...], order: Any
) -> None:
    values = np.asarray(np.arange(np.prod(shape)).reshape(shape), dtype=kind, order=order)
    stored = content(values, version)
    (tmp_path / "a.npy").write_bytes(stored)
    there, here = one_vector(tmp_path / "a.npy"), vector_of(stored, "The file", longest=10)
    assert here.values.tolist() == there.values.tolist() == np.atleast_2d(values).tolist()
    assert str(here) == "The file"


def test_a_promise_of_numbers_takes_no_memory() -> None:
    stored = content(np.zeros((2, 3))).replace(b"(2, 3)", b"(9, 99999999999)")
    with pytest.raises(DataError, match=r"has \d+ bytes of numbers, and the shape \(9, 99999999999\)"):
        vector_of(stored, "The file", longest=10)
    stored = content(np.zeros((2, 3))).replace(b"(2, 3)", b"(9999999999, 3)")
    with pytest.raises(DataError, match=r"has 9,999,999,999 vectors, and at most 10 are allowed"):
        vector_of(stored, "The file", longest=10)


@pytest.mark.parametrize("shape", ["(-2, -3)", "(-6, -1)", "(0, -1)", f"(0, {10**30})", "(True, 6)", "(6.0,)", "()"])
def test_shapes_that_no_array_has_are_refused(shape: str) -> None:
    stored = content(np.zeros((2, 3))).replace(b"(2, 3)", shape.encode())
    with pytest.raises(DataError, match=r"^The file "):
        vector_of(stored, "The file", longest=10)


def test_numbers_that_are_infinite_when_they_are_scaled_are_refused() -> None:
    rows = VectorRows(mean=(0.0, 0.0), deviation=(0.5, 1.0))
    rows.row(vector_of(content(np.array([1.0, 3e38])), "The file", longest=10))
    with pytest.raises(DataError, match="The file has a number that is too far from the training data"):
        rows.row(vector_of(content(np.array([3e38, 1.0])), "The file", longest=10))


def test_objects_are_not_unpickled() -> None:
    with pytest.raises(DataError, match="holds object, not numbers"):
        vector_of(content(np.array([{"a": 1}], dtype=object)), "The file", longest=10)


def test_damaged_bytes_are_refused_in_words() -> None:
    noise, sound = random.Random(0), content(np.arange(6.0).reshape(2, 3))
    refusals = []
    for _ in range(2000):
        damaged = bytearray(sound)
        for _ in range(noise.randint(1, 4)):
            damaged[noise.randrange(len(damaged))] = noise.randrange(256)
        cut = damaged[: noise.randrange(len(damaged) + 1)] if noise.random() < 0.3 else damaged
        with contextlib.suppress(DataError):
            vector_of(bytes(cut), "The file", longest=10)
            continue
        refusals.append(bytes(cut))
    assert len(refusals) > 1000
    for refused in refusals[:50]:
        with pytest.raises(DataError, match=r"^The file "):
            vector_of(refused, "The file", longest=10)
