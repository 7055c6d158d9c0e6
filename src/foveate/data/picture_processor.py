"""Makes patches of pictures as the `preprocessor_config.json` of a Hugging Face folder says, for its ViT or DeiT."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt8

from foveate.data.image import ImageRows
from foveate.data.level import Levels
from foveate.data.picture import INSTALL, Picture
from foveate.data.reader import RowMaker
from foveate.errors import DataError, SetupError
from foveate.nn.embed import Patches
from foveate.storage.manifest import read_json

PROCESSOR = "preprocessor_config.json"
FILTERS, BILINEAR = range(6), 2
"""Pillow's numbers: 0 nearest, 1 Lanczos, 2 bilinear, 3 bicubic, 4 box, 5 Hamming."""
KNOWN = ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb")
PROCESSORS = tuple(
    f"{model}{kind}"
    for model in ("ViT", "DeiT")
    for kind in ("ImageProcessor", "ImageProcessorFast", "FeatureExtractor")
)
DEIT = "DeiT"
"""The beginning of the names of processors that, where their file does not say otherwise, cut pictures and scale them
with the bicubic filter, where ViT's are bilinear.
"""
LARGEST = 1 << 13
"""The limit on rows and columns of scaled pictures."""


@dataclass(frozen=True, kw_only=True)
class ProcessedPictures(ImageRows):
    """Pictures that are scaled by Pillow, cut to their middle, and normalised: (factor · level − mean) / deviation

    Hugging Face's processors that run on Pillow give the same numbers; those on torchvision differ by a level at most.
    """

    kind: ClassVar[str] = "processed_image"
    scaled_size: tuple[int, int]
    """Rows and columns before the cut."""
    resampling: int = BILINEAR
    factor: float = 1 / 255

    def __post_init__(self) -> None:
        cut = all(inner <= outer for inner, outer in zip(self.size, self.scaled_size, strict=True))
        if not cut or max(self.scaled_size) > LARGEST:
            raise ValueError(
                f"pictures are scaled to {list(self.scaled_size)} pixels, which must be at most {LARGEST} and at least "
                f"{list(self.size)}, those of the model"
            )
        if self.resampling not in FILTERS:
            raise ValueError(f"resample must be one of Pillow's filters, 0 to {max(FILTERS)}, got {self.resampling}")
        for name, numbers in (("image_mean", self.mean), ("image_std", self.deviation)):
            if len(numbers) not in (1, self.channels) or not all(map(isfinite, numbers)):
                raise ValueError(f"{name} must be one number or {self.channels}, got {list(numbers)}")
        if not (0 < self.factor <= 1 and min(self.deviation) > 0):
            raise ValueError("rescale_factor must be above 0 and at most 1, and image_std above 0")

    @property
    def levels(self) -> Levels:
        mean, deviation = (np.broadcast_to(one, self.channels) for one in (self.mean, self.deviation))
        return Levels(offset=tuple((-mean / deviation).tolist()), step=tuple((self.factor / deviation).tolist()))

    def _fitted(self, picture: Picture) -> UInt8[np.ndarray, "rows columns 3"]:
        pixels = picture.pixels
        if pixels.shape[:2] != self.scaled_size:
            pixels = _scaled(pixels, self.scaled_size, self.resampling)
        top, left = ((outer - inner) // 2 for outer, inner in zip(self.scaled_size, self.size, strict=True))
        return pixels[top : top + self.size[0], left : left + self.size[1]]


def read_processor(folder: Path | str, patches: Patches) -> ProcessedPictures:
    """The maker of rows for a model over these patches. Raises DataError for a folder without the file, and for
    settings that this does not follow.
    """
    path = Path(folder) / PROCESSOR
    if not path.exists():
        raise DataError(
            f"{folder} has no {PROCESSOR}, which says how pictures become numbers. Download it with the model."
        )
    settings = read_json(path)
    try:
        return _rows(settings, patches)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{path}: {error}. Take {PROCESSOR} from the folder of this model.") from None


def processor_of(rows: RowMaker) -> dict[str, Any]:
    """The `preprocessor_config.json` that prepares pictures as `rows` do.

    Pictures of the model's size, and those that rows of a Hugging Face folder scale, become the same numbers; other
    pictures differ by one level of 255 at most, as our filter differs from Pillow's. Pictures for a model of one colour
    have to be grey already: Hugging Face's processors do not convert them.

    Raises ValueError for rows of other things, and for rows that cut pictures of another shape or give them black bars.
    """
    if not isinstance(rows, ImageRows):
        raise ValueError(f"a processor prepares pictures, and these are {type(rows).__name__}")
    if rows.fit != "stretch":
        raise ValueError(
            f'the rows have fit="{rows.fit}", and ViTImageProcessor stretches pictures of another shape. If all '
            'pictures have the same shape, pass dataclasses.replace(rows, fit="stretch")'
        )
    processed = rows if isinstance(rows, ProcessedPictures) else None
    scaled = rows.size if processed is None else processed.scaled_size
    cut = {"do_center_crop": True, "crop_size": _sides(rows.size)} if scaled != rows.size else {"do_center_crop": False}
    return {
        "image_processor_type": f"{DEIT if scaled != rows.size else 'ViT'}ImageProcessor",
        "do_resize": True,
        "size": _sides(scaled),
        "resample": BILINEAR if processed is None else processed.resampling,
        **cut,
        "do_rescale": True,
        "rescale_factor": 1 / 255 if processed is None else processed.factor,
        "do_normalize": True,
        "image_mean": np.broadcast_to(rows.mean, rows.channels).tolist(),
        "image_std": np.broadcast_to(rows.deviation, rows.channels).tolist(),
        "do_convert_rgb": rows.colour,
    }


def _sides(size: tuple[int, int]) -> dict[str, int]:
    return {"height": size[0], "width": size[1]}


def _rows(settings: dict[str, Any], patches: Patches) -> ProcessedPictures:
    name = settings.get("image_processor_type") or settings.get("feature_extractor_type") or ""
    if name not in PROCESSORS:
        raise ValueError(f"pictures are for the processor {name!r}, and only {' and '.join(PROCESSORS[::3])} are known")
    if patches.channels not in (1, 3):
        raise ValueError(f"the model reads {patches.channels} colours of a pixel, and pictures have 1 or 3")
    others = sorted(key for key in settings if key.startswith("do_") and key not in KNOWN and settings[key])
    if others:
        raise ValueError(f"{', '.join(others)} asks for a change of pictures that is not known here")
    done = {key: settings.get(key) for key in KNOWN}
    cuts = name.startswith(DEIT) if done["do_center_crop"] is None else bool(done["do_center_crop"])
    for key in ("do_resize", "do_rescale", "do_normalize"):
        if done[key] not in (None, True):
            raise ValueError(f"{key}={done[key]!r} is not supported: pictures are always scaled and normalised here")
    scaled = _size(settings, "size")
    size = _size(settings, "crop_size") if cuts else scaled
    (rows, columns), side = patches.grid, patches.size
    if size != (rows * side, columns * side):
        raise ValueError(f"pictures become {list(size)} pixels, and the model reads {[rows * side, columns * side]}")
    if done["do_convert_rgb"] is False and patches.channels == 3:
        raise ValueError("do_convert_rgb=False is not supported: pictures without colours are always converted here")
    filter_number = settings.get("resample", 3 if name.startswith(DEIT) else 2)
    if type(filter_number) is not int:
        raise ValueError(f"resample must be the number of one of Pillow's filters, got {filter_number!r}")
    factor = settings.get("rescale_factor", 1 / 255)
    if type(factor) not in (int, float):
        raise ValueError(f"rescale_factor must be one number, got {factor!r}")
    return ProcessedPictures(
        patch=side,
        colour=patches.channels == 3,
        grid=patches.grid,
        fit="stretch",
        mean=_numbers(settings, "image_mean"),
        deviation=_numbers(settings, "image_std"),
        scaled_size=scaled,
        resampling=filter_number,
        factor=float(factor),
    )


def _size(settings: Mapping[str, Any], name: str) -> tuple[int, int]:
    size = settings.get(name)
    others = size.keys() - {"height", "width"} if isinstance(size, dict) else ()
    if others:
        named = ", ".join(sorted(others))
        raise ValueError(f"{name} must be a whole number, or have height and width alone, not {named}")
    rows, columns = (size.get("height"), size.get("width")) if isinstance(size, dict) else (size, size)
    if type(rows) is not int or type(columns) is not int or min(rows, columns) < 1:
        raise ValueError(f"{name}={size!r} must be a whole number, or have height and width")
    return rows, columns


def _numbers(settings: Mapping[str, Any], name: str) -> tuple[float, ...]:
    numbers = settings.get(name)
    listed = numbers if isinstance(numbers, list) else [numbers]
    if any(type(one) not in (int, float) for one in listed) or not listed:
        raise ValueError(f"{name} must be a list of numbers, got {numbers!r}")
    return tuple(map(float, listed))


def _scaled(
    pixels: UInt8[np.ndarray, "rows columns 3"], size: tuple[int, int], resampling: int
) -> UInt8[np.ndarray, "new_rows new_columns 3"]:
    try:
        import PIL.Image  # an extra, needed only where a picture has another size
    except ImportError:
        raise SetupError(f"Scaling pictures as a model of Hugging Face expects them needs Pillow: {INSTALL}") from None
    return np.asarray(PIL.Image.fromarray(pixels).resize(size[::-1], PIL.Image.Resampling(resampling)))
