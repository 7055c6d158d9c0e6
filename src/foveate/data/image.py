"""Reads labelled pictures from folders, `pictures/cat/1.png`, and cuts them into patches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt8

from foveate.attention.check import require_positive
from foveate.config import setting
from foveate.data.image_file import SUFFIXES, read_pixels
from foveate.data.reader import Example, Reader, StoredRows
from foveate.data.row import Row
from foveate.errors import DataError
from foveate.nn.embed import Patches
from foveate.suggestion import missing_file

PATCHES = 64
"""The approximate number of patches of a picture, if its size allows several."""


@dataclass(frozen=True, kw_only=True)
class ImageReader(Reader):
    """Pictures of one size, PNG, JPEG or GIF, in a folder for each label."""

    kind: ClassVar[str] = "image"
    what: ClassVar[str] = "pictures"
    patch: int = setting(4, "pixels of a side of the squares that pictures are cut into")
    colour: bool = setting(True, "read red, green and blue; false: grey")

    def __post_init__(self) -> None:
        require_positive(patch=self.patch)

    @property
    def about(self) -> str:
        colour = "in colour" if self.colour else "in grey"
        return f"pictures {colour}, in squares of {self.patch} × {self.patch} pixels"

    def suited(self, sample: Sequence[Example]) -> "ImageReader":
        """Choose the size of squares so that a small model can read their number, and colours if there are any."""
        pixels = [read_pixels(one.thing) for one in sample]
        rows, columns = pixels[0].shape[:2]
        sides = [side for side in divisors(rows, columns) if rows * columns <= PATCHES * side**2]
        grey = all((one == one[..., :1]).all() for one in pixels)
        return replace(self, patch=min(sides, default=max(divisors(rows, columns))), colour=not grey)

    def read(self, path: str) -> Iterator[Example]:
        """Read labelled pictures. Raises DataError for a picture without a label, and for other files."""
        folder = Path(path)
        if not folder.is_dir():
            hint = missing_file(folder) if not folder.exists() else f"{path} is a file."
            raise DataError(f"{hint} Give a folder that contains a folder of pictures for each label.")
        line = 0
        for label in sorted(_visible(folder)):
            if not label.is_dir():
                raise DataError(
                    f"{label} is not in a folder that names its label. Move it into one, such as {folder / 'cat'}."
                )
            for picture in sorted(_visible(label)):
                line += 1
                if not picture.is_file() or picture.suffix.lower() not in SUFFIXES:
                    raise DataError(
                        f"{picture} is not a picture that can be read ({', '.join(sorted(SUFFIXES))}). Convert it, or "
                        "move it away."
                    )
                yield Example(line, picture, label.name)

    def learn(self, examples: Iterable[Example]) -> "ImageRows":
        """Learn the size of the first picture, which all must have."""
        first = next(iter(examples), None)
        if first is None:
            raise DataError("The training data have no pictures. Check the folder.")
        rows, columns = read_pixels(first.thing).shape[:2]
        if rows % self.patch or columns % self.patch:
            raise DataError(
                f"{first.thing} has {columns} × {rows} pixels, which do not divide into squares of {self.patch}. "
                f"Set reader.patch to one of {', '.join(map(str, divisors(rows, columns)))}, or scale the pictures."
            )
        return ImageRows(patch=self.patch, colour=self.colour, grid=(rows // self.patch, columns // self.patch))

    def open(self, folder: Path) -> "ImageRows":
        return ImageRows.open(folder)


@dataclass(frozen=True, kw_only=True)
class ImageRows(StoredRows):
    """Patches from left to right and from top to bottom, each with its pixels from −1, black, to 1, white."""

    kind: ClassVar[str] = "image"
    patch: int
    colour: bool
    grid: tuple[int, int]

    def __post_init__(self) -> None:
        require_positive(patch=self.patch, rows=self.grid[0], columns=self.grid[1])

    @property
    def input(self) -> Patches:
        return Patches(size=self.patch, channels=3 if self.colour else 1, grid=self.grid)

    def row(self, thing: Path | str) -> Row:
        pixels = self._pixels(thing)
        pixels = pixels if self.colour else _grey(pixels)[..., None]
        (rows, columns), side = self.grid, self.patch
        patches = pixels.reshape(rows, side, columns, side, -1).swapaxes(1, 2).reshape(rows * columns, -1)
        values = patches.astype(np.float32) / 127.5 - 1
        return Row(values, places=np.indices(self.grid).reshape(2, -1).T)

    def track(self, thing: Path | str) -> Mapping[str, Any]:
        rows, columns = self.grid
        labels = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        return {"labels": labels, "kind": "patches", "grid": self.grid, "picture": self._pixels(thing)}

    def things(self, path: str) -> Iterator[Path]:
        """A picture, or all pictures of a folder."""
        folder = Path(path)
        if not folder.exists():
            kinds = ", ".join(sorted(SUFFIXES))
            raise DataError(f"{missing_file(folder)} This model classifies pictures: name files ({kinds}) or a folder.")
        inside = sorted(one for one in folder.rglob("*") if one.suffix.lower() in SUFFIXES) if folder.is_dir() else ()
        return iter(inside or [folder])

    def _pixels(self, thing: Path | str) -> UInt8[np.ndarray, "rows columns 3"]:
        pixels = read_pixels(Path(thing))
        rows, columns = (self.patch * count for count in self.grid)
        if pixels.shape[:2] != (rows, columns):
            raise DataError(
                f"{thing} has {pixels.shape[1]} × {pixels.shape[0]} pixels, and {columns} × {rows} are needed, as the "
                f"first picture of the training data has. Scale it: mogrify -resize {columns}x{rows}! FILE"
            )
        return pixels


def divisors(rows: int, columns: int) -> list[int]:
    """The sides of squares that a picture can be cut into.

    >>> divisors(28, 28)
    [1, 2, 4, 7, 14, 28]
    """
    return [side for side in range(1, min(rows, columns) + 1) if rows % side == columns % side == 0]


def _grey(pixels: UInt8[np.ndarray, "rows columns 3"]) -> np.ndarray:
    """Luma according to Rec. 601."""
    return pixels @ np.array([0.299, 0.587, 0.114], np.float32)


def _visible(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if not one.name.startswith(".")]
