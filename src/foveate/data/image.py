"""Makes patches of pictures: scaled to one size, normalised, cut into squares. `picture.py` reads their files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from foveate.attention.check import require_positive
from foveate.config import require_choices, setting, to_dict
from foveate.data.batch import Batch
from foveate.data.file_table import FileTable, visible_files
from foveate.data.image_augmentation import ImageAugmentationConfig, altered, partners
from foveate.data.level import Levels
from foveate.data.mixture import Mixture
from foveate.data.picture import SUFFIXES, Picture, read_picture
from foveate.data.picture_array import is_array, pictures_in, read_array
from foveate.data.reader import Example, Reader, StoredRows, spread
from foveate.data.resampling import Fit, fitted
from foveate.data.row import Row
from foveate.errors import DataError
from foveate.nn.embed import Patches
from foveate.suggestion import missing_file

PATCHES = 64
"""The approximate number of patches of a picture, if its size allows several."""
WIDEST = 32
"""The largest side of a patch that is chosen for a picture, which is otherwise scaled down to `SIDE`."""
SIDE = 64
SAMPLE = 500
"""At least as many pictures, if there are as many, determine the mean and deviation of each colour."""
PICTURES = FileTable(
    noun="picture",
    suffixes=SUFFIXES,
    contents=("label", "caption", "text"),
    columns=("path", "label"),
    label="cat",
)
_FITS = {"crop": "scaled, and cut to the middle", "pad": "scaled, with black bars", "stretch": "stretched"}


@dataclass(frozen=True, kw_only=True)
class ImageReader(Reader):
    """Pictures with a label or a caption each, from folders, tables, IDX or `.npz` files."""

    kind: ClassVar[str] = "image"
    what: ClassVar[str] = "pictures"
    patch: int = setting(4, "pixels of a side of the squares that pictures are cut into")
    colour: bool = setting(True, "read red, green and blue; false: grey")
    size: tuple[int, int] | None = setting(
        None, "rows and columns of pixels that pictures are scaled to; none: those of the first training picture"
    )
    fit: Fit = setting(
        "crop", "pictures of another shape. crop: cut to the middle; pad: with black bars; stretch: stretched"
    )
    normalisation: Literal["fixed", "training"] = setting(
        "fixed", "what pixels from 0 to 1 are scaled by. fixed: mean and deviation below; training: those of the data"
    )
    mean: tuple[float, ...] = setting((0.5,), "subtracted from pixels: one number, or one for each colour")
    deviation: tuple[float, ...] = setting((0.5,), "pixels are divided by it: one number, or one for each colour")
    augmentation: ImageAugmentationConfig | None = setting(
        None, "changes of training pictures; none: they are unchanged"
    )

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(patch=self.patch)
        if self.size is not None and (min(self.size) < 1 or any(side % self.patch for side in self.size)):
            raise ValueError(f"size must be multiples of patch, {self.patch}, above 0, got {list(self.size)}")
        _require_scale(self.colour, self.mean, self.deviation)

    @property
    def about(self) -> str:
        colour = "in colour" if self.colour else "in grey"
        scaled = "" if self.size is None else f", scaled to {self.size[1]} × {self.size[0]} pixels"
        changes = f", {self.augmentation} in training" if self.augmentation and str(self.augmentation) else ""
        return f"pictures {colour}{scaled}, in squares of {self.patch} × {self.patch} pixels{changes}"

    def suited(self, sample: Sequence[Example]) -> "ImageReader":
        """Choose a size and squares so that a small model can read their number, colours if there are any, and random
        shifts for training.
        """
        pictures = [_picture(one.thing) for one in sample]
        grey = all((one.pixels == one.pixels[..., :1]).all() for one in pictures)
        size, patch = _division(Counter(one.size for one in pictures))
        side = min(size or pictures[0].size)
        augmentation = self.augmentation or ImageAugmentationConfig(padding=side // 16)
        return replace(self, patch=patch, size=size, colour=not grey, augmentation=augmentation)

    def read(self, path: str) -> Iterator[Example]:
        """Labelled pictures; files are not yet opened. Raises DataError for a picture without a label, and for other
        files.
        """
        if Path(path).is_dir():
            return (Example(line, file, label) for line, file, label in PICTURES.folders(Path(path)))
        if is_array(path):
            return read_array(path)
        if not Path(path).exists() or Path(path).suffix.lower() == ".npz":
            hint = f"{path} has no pictures." if Path(path).exists() else missing_file(Path(path))
            raise DataError(f"{hint} Give {SOURCES}.")
        return _listed(path)

    def captions(self, path: str) -> Iterator[Example]:
        """The pictures of a table with their captions, from the column `caption`, `text` or `label`; a picture may have
        several lines. Raises DataError as `read` does.
        """
        if not Path(path).is_file():
            hint = missing_file(Path(path)) if not Path(path).exists() else f"{path} is a folder."
            raise DataError(f"{hint} Give a table: lines of a picture's path, a tab, and its caption.")
        return _listed(path, ("caption", "text", "label"))

    def learn(self, examples: Iterable[Example]) -> "ImageRows":
        """Learn the size of the first picture, and with `normalisation = "training"` the mean and deviation of each
        colour, from pictures that are evenly spread over the examples.
        """
        chosen = spread(examples, SAMPLE)
        if not chosen:
            raise DataError("The training data have no pictures. Check the file or folder.")
        first = chosen[0].thing
        rows, columns = self.size or _picture(first).size
        if rows % self.patch or columns % self.patch:
            raise DataError(
                f"{first} has {columns} × {rows} pixels, which do not divide into squares of {self.patch}. "
                f"Set reader.patch to one of {', '.join(map(str, divisors(rows, columns)))}, or reader.size to rows "
                "and columns that divide."
            )
        image_rows = ImageRows(
            patch=self.patch,
            colour=self.colour,
            grid=(rows // self.patch, columns // self.patch),
            fit=self.fit,
            mean=self.mean,
            deviation=self.deviation,
            augmentation=self.augmentation,
        )
        return image_rows if self.normalisation == "fixed" else image_rows.scaled(example.thing for example in chosen)

    def open(self, folder: Path) -> "ImageRows":
        return ImageRows.open(folder)


SOURCES = (
    "a folder that contains a folder of pictures for each label, a table of lines with a picture's path, a tab and its "
    "label, an IDX file, or an .npz file with `x` and `y`"
)
"""The files that `ImageReader` reads."""


@dataclass(frozen=True, kw_only=True)
class ImageRows(StoredRows):
    """Patches from left to right and from top to bottom, each with its pixels as (pixel / 255 − mean) / deviation.

    Rows of a patch follow each other, and so do the pixels of a row and the colours of a pixel.
    """

    kind: ClassVar[str] = "image"
    patch: int
    colour: bool
    grid: tuple[int, int]
    fit: Fit = "crop"
    mean: tuple[float, ...] = (0.5,)
    deviation: tuple[float, ...] = (0.5,)
    augmentation: ImageAugmentationConfig | None = None

    def __post_init__(self) -> None:
        require_positive(patch=self.patch, rows=self.grid[0], columns=self.grid[1])
        _require_scale(self.colour, self.mean, self.deviation)

    @property
    def channels(self) -> int:
        return 3 if self.colour else 1

    @property
    def size(self) -> tuple[int, int]:
        """The rows and columns of pixels."""
        return self.grid[0] * self.patch, self.grid[1] * self.patch

    @property
    def input(self) -> Patches:
        return Patches(size=self.patch, channels=self.channels, grid=self.grid)

    @property
    def levels(self) -> Levels:
        mean, deviation = (np.broadcast_to(one, self.channels) for one in (self.mean, self.deviation))
        return Levels(offset=tuple((-mean / deviation).tolist()), step=tuple((1 / (255 * deviation)).tolist()))

    def row(self, thing: Picture | Path | str) -> Row:
        picture = _picture(thing)
        values = self.levels.numbers(self._cut(self._channelled(self._fitted(picture))))
        places = np.indices(self.grid, dtype=np.int32).reshape(2, -1).T
        return Row(values, places=places, remarks=(*picture.remarks, *self._remarks(picture)))

    def pixels(self, values: Float[np.ndarray, "length width"]) -> UInt8[np.ndarray, "rows columns channels"]:
        """The picture of a row: the inverse of normalisation and cut, with levels from 0 to 255."""
        (rows, columns), side = self.grid, self.patch
        offset, step = (np.array(one) for one in (self.levels.offset, self.levels.step))
        levels = (values.reshape(rows, columns, side, side, -1) - offset) / step
        picture = levels.swapaxes(1, 2).reshape(*self.size, -1)
        return np.rint(picture).clip(0, 255).astype(np.uint8)

    def scaled(self, things: Iterable[Any]) -> "ImageRows":
        """These rows with the mean and deviation of pictures."""
        count, total, squares = 0, np.zeros(self.channels), np.zeros(self.channels)
        for thing in things:
            levels = self._channelled(self._fitted(_picture(thing))).reshape(-1, self.channels) / 255
            count, total, squares = count + len(levels), total + levels.sum(0), squares + (levels**2).sum(0)
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
        # A constant colour is not scaled; only its mean is subtracted.
        deviation[deviation < 1e-3] = 1.0
        return replace(self, mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))

    @property
    def varied(self) -> bool:
        return False

    def variants(self, thing: Any) -> list[Row]:
        return []

    def augmented(self, batch: Batch, examples: Sequence[int], *, seed: int, step: int) -> Batch:
        """A batch of training with the changes of the augmentation: a function of (seed, step, example)."""
        config = self.augmentation
        if config is None or not (config.flip or config.padding or config.changes):
            return batch
        mean, deviation = (
            torch.tensor(one).expand(self.channels).reshape(-1, 1, 1) for one in (self.mean, self.deviation)
        )
        changed = [
            altered(self.input.picture(values), config, mean, deviation, draw=(seed, step, example))
            for values, example in zip(batch.features, examples, strict=True)
        ]
        return replace(batch, values=torch.stack([self._patches(one) for one in changed]))

    def mixture(self, examples: Sequence[int], count: int, *, seed: int, step: int) -> Mixture | None:
        """The partners of Mixup among `count` examples: a function of (seed, step, example)."""
        alpha = self.augmentation.mixup if self.augmentation else 0.0
        return partners(examples, count, alpha, seed=seed, step=step) if alpha else None

    def track(self, thing: Picture | Path | str) -> Mapping[str, Any]:
        rows, columns = self.grid
        labels = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        return {"labels": labels, "kind": "patches", "grid": self.grid, "picture": self._fitted(_picture(thing))}

    def things(self, path: str) -> Iterator[Picture | Path]:
        """A picture, all pictures of a folder, or those of an IDX or `.npz` file."""
        folder = Path(path)
        if is_array(path):
            return pictures_in(path)
        if not folder.exists():
            kinds = ", ".join(sorted(SUFFIXES))
            raise DataError(f"{missing_file(folder)} This model reads pictures: name files ({kinds}) or a folder.")
        inside = visible_files(folder, SUFFIXES) if folder.is_dir() else ()
        if folder.is_dir() and not inside:
            raise DataError(f"{path} has no pictures ({', '.join(sorted(SUFFIXES))}). Name another folder.")
        return iter(inside or [folder])

    def _plain(self) -> dict[str, Any]:
        # Defaults are left out: rows of earlier versions have the same digest.
        defaults = {one.name: one.default for one in fields(self)}
        plain = to_dict(self)
        return {"kind": self.kind, **{name: plain[name] for name in plain if getattr(self, name) != defaults[name]}}

    def _fitted(self, picture: Picture) -> UInt8[np.ndarray, "rows columns 3"]:
        return fitted(picture.pixels, self.size, self.fit)

    def _remarks(self, picture: Picture) -> tuple[str, ...]:
        if picture.size == self.size:
            return ()
        rows, columns = self.size
        same = picture.size[0] * columns == picture.size[1] * rows
        return (f"another size than {columns} × {rows} pixels: {'scaled' if same else _FITS[self.fit]}",)

    def _channelled(self, pixels: UInt8[np.ndarray, "rows columns 3"]) -> UInt8[np.ndarray, "rows columns channels"]:
        return pixels if self.colour else _grey(pixels)

    def _cut(self, pixels: UInt8[np.ndarray, "rows columns channels"]) -> UInt8[np.ndarray, "length width"]:
        (rows, columns), side = self.grid, self.patch
        return pixels.reshape(rows, side, columns, side, -1).swapaxes(1, 2).reshape(rows * columns, -1)

    def _patches(self, picture: Float[Tensor, "channels rows columns"]) -> Float[Tensor, "length width"]:
        (rows, columns), side = self.grid, self.patch
        return picture.reshape(-1, rows, side, columns, side).permute(1, 3, 2, 4, 0).reshape(rows * columns, -1)


def divisors(rows: int, columns: int) -> list[int]:
    """The sides of squares that a picture can be cut into.

    >>> divisors(28, 28)
    [1, 2, 4, 7, 14, 28]
    """
    return [side for side in range(1, min(rows, columns) + 1) if rows % side == columns % side == 0]


def _division(sizes: Counter[tuple[int, int]]) -> tuple[tuple[int, int] | None, int]:
    """The size that pictures are scaled to, None if all have one that divides well, and the side of patches."""
    rows, columns = next(iter(sizes))
    patch = min(
        (side for side in divisors(rows, columns) if rows * columns <= PATCHES * side**2), default=rows * columns
    )
    if min(rows, columns) < 16:  # too small to be scaled down
        patch = min(patch, divisors(rows, columns)[-1])
    if len(sizes) == 1 and (min(rows, columns) < 16 or (patch <= WIDEST and rows * columns >= PATCHES // 4 * patch**2)):
        return None, patch
    sides = sorted(min(size) for size in sizes.elements())
    side = max(min(sides[len(sides) // 2], SIDE) // 8 * 8, 8)
    return (side, side), side // 8


def _listed(path: str, contents: Sequence[str] = ()) -> Iterator[Example]:
    """The pictures of a table, with the content of the first column that its first line names."""
    for line, file, content in PICTURES.lines(path, contents):
        yield Example(line, Path(path).parent / file, content)


def _picture(thing: Picture | Path | str) -> Picture:
    return thing if isinstance(thing, Picture) else read_picture(Path(thing))


def _require_scale(colour: bool, mean: Sequence[float], deviation: Sequence[float]) -> None:
    lengths = (1, 3) if colour else (1,)
    if len(mean) not in lengths or len(deviation) not in lengths:
        raise ValueError(f"mean and deviation need {' or '.join(map(str, lengths))} numbers each")
    if not (all(0 <= one <= 1 for one in mean) and all(1e-3 <= one <= 10 for one in deviation)):
        raise ValueError("mean must be from 0 to 1, and deviation from 0.001 to 10, of pixels from 0 to 1")


def _grey(pixels: UInt8[np.ndarray, "rows columns 3"]) -> UInt8[np.ndarray, "rows columns 1"]:
    """Luma according to Rec. 601, as whole levels."""
    return np.rint(pixels @ np.array([0.299, 0.587, 0.114], np.float32)).astype(np.uint8)[..., None]
