"""Reads labelled vectors from `.npz` files and lists of `.npy` files: measurements of sensors, outputs of models.

An `.npz` file holds `inputs`, numbers of shape (examples, width) or (examples, length, width), and `labels`, one name
or whole number an example. With `lengths`, whole numbers that sum to the rows of `inputs`, the shape is
(vectors, width), and each example is that many consecutive vectors. A list is a text file with the path of an
`.npy` file, a tab and a label on each line; paths are relative to the list's folder, and shapes are (width,) or
(length, width).
"""

import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Shaped

from foveate.data.archive import read_archive
from foveate.data.reader import Example, Reader, StoredRows
from foveate.data.row import Row
from foveate.data.text import read_cells
from foveate.errors import DataError
from foveate.nn.embed import Vectors
from foveate.suggestion import missing_file

GREATEST = np.finfo(np.float32).max
"""The limit on the absolute value of a number."""
_FORM = "(examples, width) or (examples, length, width), or (vectors, width) with `lengths`"


@dataclass(frozen=True, eq=False)
class Vector:
    """The vectors of one example, and the name of their file."""

    name: str
    values: Shaped[np.ndarray, "length width"]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True)
class VectorReader(Reader):
    """Labelled vectors, or sequences of them, from an `.npz` file or a list of `.npy` files."""

    kind: ClassVar[str] = "vector"
    what: ClassVar[str] = "vectors"

    @property
    def about(self) -> str:
        return "vectors, each number scaled by its mean and deviation"

    def read(self, path: str) -> Iterator[Example]:
        """Read examples. Raises DataError for unreadable files, missing labels and shapes that do not match."""
        if Path(path).suffix.lower() == ".npz":
            arrays = _unpacked(path, "inputs", "labels")
            yield from _labelled(path, _sequences(path, arrays), arrays["labels"])
            return
        folder = Path(path).parent
        write = "write the path of an .npy file, a tab and its label"
        for line, (name, label) in read_cells(path, (0, 1), otherwise=write, only=("path", "label")):
            if name.strip() or label.strip():
                if not (name.strip() and label.strip()):
                    raise DataError(f"{path}:{line}: the {'label' if name.strip() else 'path'} is missing: {write}.")
                yield Example(line, one_vector(folder / name.strip()), label.strip())

    def learn(self, examples: Iterable[Example]) -> "VectorRows":
        """Learn the mean and deviation of each number, for scaling."""
        total, mean, squares = 0, np.zeros(0), np.zeros(0)
        for example in examples:
            thing = example.thing
            values = thing.values.astype(np.float64)
            if not total:
                mean, squares = np.zeros(values.shape[1]), np.zeros(values.shape[1])
            _require_width(thing, len(mean))
            here, away = values.mean(0), values.mean(0) - mean
            squares += ((values - here) ** 2).sum(0) + away**2 * total * len(values) / (total + len(values))
            total += len(values)
            mean = mean + away * len(values) / total
        if not total:
            raise DataError("The training data have no vectors. Check the file.")
        deviation = np.sqrt(squares / total)
        # A constant number is not scaled; only its mean is subtracted.
        deviation[deviation <= 1e-6 * np.maximum(np.abs(mean), 1e-30)] = 1.0
        return VectorRows(mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))

    def open(self, folder: Path) -> "VectorRows":
        return VectorRows.open(folder)


@dataclass(frozen=True, kw_only=True)
class VectorRows(StoredRows):
    """(v − mean) / deviation, for each number of a vector"""

    kind: ClassVar[str] = "vector"
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.mean or len(self.mean) != len(self.deviation) or min(self.deviation) <= 0:
            raise ValueError("mean and deviation need as many numbers as a vector has, deviations above 0")

    @property
    def input(self) -> Vectors:
        return Vectors(len(self.mean))

    def row(self, thing: Vector | Path | str) -> Row:
        """The scaled vectors of a thing, or of the `.npy` file with this path. Raises DataError for other widths and
        for numbers out of range.
        """
        thing = _vector(thing)
        _require_width(thing, len(self.mean))
        scaled = (thing.values - np.array(self.mean)) / np.array(self.deviation)
        if not (np.abs(scaled) <= GREATEST).all():
            raise DataError(
                f"{thing} has a number that is too far from the training data: scaled by their mean and deviation, it "
                f"is beyond ±{GREATEST:.1e}. Replace it, or leave it out."
            )
        return Row(scaled.astype(np.float32))

    def track(self, thing: Vector | Path | str) -> Mapping[str, Any]:
        return {"labels": tuple(str(number) for number in range(len(_vector(thing).values))), "kind": "frames"}

    def things(self, path: str) -> Iterator[Vector]:
        """The examples of an `.npz` file, with or without labels, or that of an `.npy` file."""
        if Path(path).suffix.lower() == ".npz":
            return iter(_sequences(path, _unpacked(path, "inputs")))
        return iter([one_vector(Path(path))])


def one_vector(path: Path) -> Vector:
    """A vector or a sequence of them from an `.npy` file. Raises DataError for other files."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(missing_file(path)) from None
    except (OSError, ValueError, EOFError):
        raise _other_file(str(path)) from None
    if not isinstance(values, np.ndarray) or values.ndim not in (1, 2):
        raise _other_shape(str(path))
    return Vector(str(path), _numbers(str(path), np.atleast_2d(values)))


def _vector(thing: Vector | Path | str) -> Vector:
    if isinstance(thing, Vector):
        return thing
    if isinstance(thing, str | Path):
        return one_vector(Path(thing))
    raise TypeError(
        f"vectors are a Vector(name, numbers of shape (length, width)) or the path of an .npy file, not "
        f"{type(thing).__name__}"
    )


def vector_of(content: bytes, name: str, *, longest: int) -> Vector:
    """A vector or a sequence of at most `longest` of them from the content of an `.npy` file.

    Raises DataError for other contents. No memory is taken for numbers that a header promises and the content lacks.
    """
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, columns_first, dtype = read(stream)
    except Exception:  # numpy reads the header as Python, and a damaged one fails in many ways
        raise _other_file(name) from None
    if len(shape) not in (1, 2) or not all(type(length) is int and length >= 0 for length in shape):
        raise _other_shape(name)
    if dtype.kind not in "iufb":
        raise DataError(f"{name} holds {dtype.name}, not numbers.")
    if 0 in shape:
        raise DataError(f"{name} is empty: its shape is {shape}. Leave it out.")
    if len(shape) == 2 and shape[0] > longest:
        raise DataError(f"{name} has {shape[0]:,} vectors, and at most {longest:,} are allowed. Divide it.")
    expected, present = math.prod(shape) * dtype.itemsize, len(content) - stream.tell()
    if expected != present:
        raise DataError(
            f"{name} has {present:,} bytes of numbers, and the shape {shape} of {dtype.name} has {expected:,}. Save it "
            "again with numpy.save."
        )
    values = np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape, order="F" if columns_first else "C")
    return Vector(name, _numbers(name, np.atleast_2d(values)))


def _other_file(name: str) -> DataError:
    return DataError(f"{name} is not an .npy file of numbers. Save an array of numbers with numpy.save.")


def _other_shape(name: str) -> DataError:
    return DataError(f"{name} has no array of shape (width,) or (length, width). Save one with numpy.save.")


def _unpacked(path: str, *needed: str) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file. Raises DataError if it is damaged, too large, or lacks an array."""
    instead = "Give a list of .npy files, which are not read as a whole."
    read = {"inputs", "labels", "lengths"}
    arrays, names = read_archive(path, lambda names: read.intersection(names), instead=instead)
    for name in needed:
        if name not in arrays:
            raise DataError(
                f"{path} has no array {name!r}; it has: {', '.join(names) or 'none'}. Save {' and '.join(needed)}."
            )
    return arrays


def _sequences(path: str, arrays: Mapping[str, np.ndarray]) -> list[Vector]:
    inputs, lengths = arrays["inputs"], arrays.get("lengths")
    if lengths is not None:
        whole = lengths.ndim == 1 and lengths.dtype.kind in "iu" and (not len(lengths) or int(lengths.min()) > 0)
        if not whole or inputs.ndim != 2 or int(lengths.sum()) != len(inputs):
            raise DataError(
                f"{path}: `lengths` must be whole numbers above 0 that sum to the {len(inputs):,} vectors of `inputs`, "
                f"whose shape must be (vectors, width); it is {inputs.shape}."
            )
        parts: Iterable[np.ndarray] = np.split(inputs, np.cumsum(lengths)[:-1])
    elif inputs.ndim == 2:
        parts = inputs[:, None]
    elif inputs.ndim == 3:
        parts = inputs
    else:
        raise DataError(f"{path}: `inputs` has the shape {inputs.shape}; it must be {_FORM}.")
    names = (f"{path}, example {number}" for number in range(1, len(inputs) + 1))
    return [Vector(name, _numbers(name, part)) for name, part in zip(names, parts, strict=False)]


def _labelled(path: str, things: list[Vector], labels: np.ndarray) -> Iterator[Example]:
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise DataError(f"{path}: `labels` must be a list of names or whole numbers, not {labels.dtype.name}.")
    if len(labels) != len(things):
        raise DataError(f"{path} has {len(things):,} examples but {len(labels):,} labels. Save one for each.")
    for line, (thing, label) in enumerate(zip(things, labels.tolist(), strict=True), start=1):
        if not str(label).strip():
            raise DataError(f"{thing} has an empty label. Name it, or leave the example out.")
        yield Example(line, thing, str(label).strip())


def _numbers(name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iufb":
        raise DataError(f"{name} holds {values.dtype.name}, not numbers.")
    if not values.size:
        raise DataError(f"{name} is empty: its shape is {values.shape}. Leave it out.")
    if not (np.abs(values) <= GREATEST).all():
        raise DataError(
            f"{name} has a number that is not finite (NaN or infinite), or beyond ±{GREATEST:.1e}. Replace it, or "
            "leave it out."
        )
    return values


def _require_width(thing: Vector, width: int) -> None:
    if thing.values.shape[1] != width:
        raise DataError(
            f"{thing} has vectors of {thing.values.shape[1]} numbers, but {width} are needed, as in the first of the "
            "training data. Give vectors of one width."
        )
