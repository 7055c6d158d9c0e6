"""Pictures in arrays: the IDX files of MNIST, and `.npz` files.

An IDX file holds unsigned bytes of shape (pictures, rows, columns), its labels lie beside it in a file with `labels`
for `images` in its name, and both may be packed by gzip. An `.npz` file has pictures in `x` or `images`, with labels in
`y` or `labels`, or one such pair for each part of the data, such as `x_train` or `train_images`; `data.npz:train`
names a part.
"""

import gzip
import re
import struct
import zlib
from collections.abc import Collection, Iterator
from contextlib import closing
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from foveate.data.archive import LARGEST, read_archive
from foveate.data.picture import Picture
from foveate.data.reader import Example
from foveate.errors import DataError
from foveate.suggestion import listing, missing_file

_IDX = re.compile(r"[-._]idx\d[-._]ubyte(\.gz)?$", re.IGNORECASE)
_PAIRS = (("x", "y"), ("images", "labels"), ("X", "Y"), ("X", "y"))
PACKED = 1032
"""The largest number of bytes that gzip makes of one: the longest copy, 258 bytes, for two bits."""
CHUNK = 1 << 20
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4"}
_SHAPES = "(pictures, rows, columns), with 1, 3 or 4 channels as another last axis"


class Part(NamedTuple):
    """The names of the arrays of a part of an `.npz` file."""

    pictures: str
    labels: str


def is_array(path: str) -> bool:
    """Whether a path names pictures in an IDX file, or in an `.npz` file by the names of its arrays."""
    if _IDX.search(path):
        return True
    file, _ = _split(path)
    if Path(file).suffix.lower() != ".npz" or not Path(file).is_file():
        return False
    _, names = read_archive(file, lambda names: (), instead="")
    return "inputs" not in names and bool(parts_of(names))


def read_array(path: str) -> Iterator[Example]:
    """Pictures with their labels, numbered from 1. Raises DataError, with the number of the picture, for damaged files,
    shapes that are not those of pictures, levels outside of 0 to 255 (or 0 to 1), and missing labels.
    """
    if _IDX.search(path):
        beside = labels_beside(Path(path))
        pictures, labels, where = _idx(Path(path), "images"), _idx(beside, "labels"), str(beside)
    else:
        file, part, arrays = _part(path)
        if part.labels not in arrays:
            raise DataError(
                f"{file} has pictures in `{part.pictures}` and no labels in `{part.labels}`. Save them too."
            )
        pictures, labels, where = arrays[part.pictures], arrays[part.labels], f"{file}, `{part.labels}`"
    things, names = _pictures(path, pictures), _label_names(labels, where)
    if len(names) != len(pictures):
        raise DataError(f"{path} has {len(pictures):,} pictures, and {where} has {len(names):,} labels. Save one each.")
    for number, (picture, label) in enumerate(zip(things, names, strict=True), start=1):
        if not label.strip():
            raise DataError(f"{picture} has an empty label. Name it, or leave the picture out.")
        yield Example(number, picture, label.strip())


def pictures_in(path: str) -> Iterator[Picture]:
    """Pictures without labels. Raises DataError as `read_array` does."""
    if _IDX.search(path):
        return _pictures(path, _idx(Path(path), "images"))
    _, part, arrays = _part(path)
    return _pictures(path, arrays[part.pictures])


def parts_of(names: Collection[str]) -> dict[str, Part]:
    """The parts of the arrays of an `.npz` file, by the names of the parts; "" for a file that has one.

    >>> parts_of(["x_train", "y_train", "x_test", "y_test"])["test"]
    Part(pictures='x_test', labels='y_test')
    >>> parts_of(["images", "labels"])
    {'': Part(pictures='images', labels='labels')}
    """
    parts = dict[str, Part]()
    for pictures, labels in _PAIRS:
        for name in names:
            if match := re.fullmatch(rf"{pictures}(?:_(\w+))?", name):
                part = Part(name, f"{labels}{name[len(pictures) :]}")
            elif match := re.fullmatch(rf"(\w+)_{pictures}", name):
                part = Part(name, f"{match[1]}_{labels}")
            else:
                continue
            title = match[1] or ""
            if part.labels in names or title not in parts:
                parts[title] = part
    return parts


def labels_beside(path: Path) -> Path:
    """The file of labels for an IDX file of pictures, packed or not.

    Raises DataError if there is none, or if the name does not have `images`.
    """
    if "images" not in path.name:
        raise DataError(f"{path} has no `images` in its name. Name an IDX file such as train-images-idx3-ubyte.gz.")
    if not path.is_file():
        raise DataError(missing_file(path))
    plain = re.sub(r"idx\d", "idx1", path.name.replace("images", "labels")).removesuffix(".gz")
    choices = [path.with_name(plain + end) for end in ((".gz", "") if path.suffix == ".gz" else ("", ".gz"))]
    beside = next((one for one in choices if one.is_file()), None)
    if beside is None:
        raise DataError(f"{path} has its labels in {choices[0].name}, which is missing. Put it into the same folder.")
    return beside


def _idx(path: Path, what: str) -> Shaped[np.ndarray, "..."]:
    """The array of an IDX file. Reference: LeCun, Cortes, Burges, "The MNIST database", file formats."""
    if not path.is_file():
        raise DataError(missing_file(path))
    try:
        with closing(gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            return _unpacked(file, path, what)
    except (OSError, EOFError, zlib.error, struct.error):
        raise DataError(f"{path} is damaged or truncated. Fetch it again.") from None


def _unpacked(file: BufferedIOBase, path: Path, what: str) -> Shaped[np.ndarray, "..."]:
    zeros, kind, axes = struct.unpack(">HBB", file.read(4))
    if zeros or kind not in _TYPES or not 1 <= axes <= 4:
        raise DataError(f"{path} is not an IDX file of bytes: its first bytes are others. Fetch it again.")
    shape = struct.unpack(f">{axes}I", file.read(4 * axes))
    dtype = np.dtype(_TYPES[kind])
    size = dtype.itemsize
    for count in shape:
        size *= count
    if size > LARGEST:
        raise DataError(f"{path} unpacks to {size / 2**30:.1f} GiB, and at most {LARGEST >> 30} are read. Split it.")
    length = path.stat().st_size
    most = length * PACKED if path.suffix == ".gz" else length - 4 - 4 * axes
    # The header may be wrong: memory is reserved for what is there, not for what it states.
    content = _read(file, size + 1) if size <= most else bytearray()
    if len(content) != size:
        actual = "more" if len(content) > size else f"{len(content):,}" if size <= most else f"at most {most:,}"
        raise DataError(
            f"{path} is damaged or truncated: its header states {size:,} bytes of {what}, and it has {actual}. "
            "Fetch it again."
        )
    return np.frombuffer(content, dtype).reshape(shape)


def _read(file: BufferedIOBase, size: int) -> bytearray:
    """At most `size` bytes of a file."""
    content = bytearray()
    while len(content) < size and (part := file.read(min(size - len(content), CHUNK))):
        content += part
    return content


def files_of(path: str) -> list[str]:
    """The files that the name of data stands for: that of the labels too, and that of a part without its name.
    Raises DataError as `labels_beside` does.

    >>> files_of("faces.npz:train"), files_of("table.tsv")
    (['faces.npz'], ['table.tsv'])
    """
    return [path, str(labels_beside(Path(path)))] if _IDX.search(path) else [_split(path)[0]]


def _split(path: str) -> tuple[str, str]:
    """The file and the part of `data.npz:train`."""
    file, colon, part = path.rpartition(":")
    return (file, part) if colon and file.lower().endswith(".npz") and not Path(path).exists() else (path, "")


def _part(path: str) -> tuple[str, Part, dict[str, np.ndarray]]:
    """The file, the names of its part, and the arrays of the part."""
    file, name = _split(path)
    instead = "Save pictures in several files, or as files of pictures."
    _, names = read_archive(file, lambda names: (), instead=instead)
    parts = parts_of(names)
    if not parts:
        raise DataError(
            f"{file} has no array `x` or `images` with pictures; it has: {', '.join(names) or 'none'}. Save pictures "
            "as `x` and labels as `y`."
        )
    if name not in parts and (name or len(parts) > 1):
        choices = listing((f"{file}:{one}" for one in parts if one), 5)
        unknown = f"no part {name!r}" if name else "several parts"
        raise DataError(f"{file} has {unknown}. Name one: {choices}.")
    part = parts[name] if name in parts else next(iter(parts.values()))
    arrays, _ = read_archive(file, lambda names: [one for one in part if one in names], instead=instead)
    return file, part, arrays


def _pictures(path: str, array: Shaped[np.ndarray, "..."]) -> Iterator[Picture]:
    """The pictures of an array, whose shape and levels are checked before the first."""
    if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[3] not in (1, 3, 4):
        array = np.moveaxis(array, 1, 3)
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] not in (1, 3, 4)) or not all(array.shape[1:]):
        raise DataError(f"{path} has an array of shape {array.shape}. Pictures have the shape {_SHAPES}.")
    unit = _unit(path, array)
    return (
        Picture(f"{path}, picture {number}", _colours(np.rint(one * unit).astype(np.uint8) if unit != 1 else one))
        for number, one in enumerate(array, start=1)
    )


def _unit(path: str, array: np.ndarray) -> int:
    """The factor that makes levels from 0 to 255 of an array: 1 for bytes."""
    if array.dtype == np.uint8 or not len(array):
        return 1
    if array.dtype == bool:
        return 255
    if array.dtype.kind not in "iuf":
        raise DataError(f"{path} has pictures of {array.dtype.name}, which are not numbers. Save levels from 0 to 255.")
    inside = (array >= 0) & (array <= 255)
    if not inside.all():
        number = int((~inside).reshape(len(array), -1).any(1).argmax()) + 1
        raise DataError(
            f"{path}, picture {number}, has a level that is not from 0 to 255. Save bytes, or floats from 0 to 1."
        )
    if array.dtype.kind != "f":
        return 1
    if float(array.max()) <= 1:
        return 255
    whole = array == np.rint(array)
    if not whole.all():
        number = int((~whole).reshape(len(array), -1).any(1).argmax()) + 1
        raise DataError(
            f"{path}, picture {number}, has a level between two of 0 to 255. Save bytes, or floats from 0 to 1."
        )
    return 1


def _colours(picture: np.ndarray) -> np.ndarray:
    """Red, green and blue of a picture of one, three or four channels; the fourth is opacity, on white."""
    picture = picture.astype(np.uint8, copy=False)
    picture = picture[..., None] if picture.ndim == 2 else picture
    if picture.shape[2] == 4:
        opacity = picture[..., 3:].astype(np.uint16)
        return ((picture[..., :3] * opacity + 255 * (255 - opacity) + 127) // 255).astype(np.uint8)
    return np.broadcast_to(picture, (*picture.shape[:2], 3))


def _label_names(labels: np.ndarray, where: str) -> list[str]:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iubUS":
        raise DataError(
            f"{where} must be a list of names or whole numbers, one a picture; it is {labels.dtype.name} of shape "
            f"{labels.shape}."
        )
    if labels.dtype.kind == "S":
        return [one.decode("utf-8", "replace") for one in labels.tolist()]
    return [str(one) for one in labels.tolist()]
