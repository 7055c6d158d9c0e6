"""Reads the pixels of pictures: by Pillow, or without it PNG, JPEG and GIF by resvg (`image_file.py`).

Both give the same levels of a PNG with 8 bits; those of a JPEG differ by a few of 255. What resvg would show otherwise,
such as a turned JPEG, is refused without Pillow. A picture's size is limited before anything is unpacked.
"""

import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8, UInt16

from foveate.data import image_file
from foveate.errors import DataError, SetupError
from foveate.suggestion import missing_file

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
SUFFIXES = image_file.SUFFIXES | {".bmp", ".webp", ".tif", ".tiff", ".pbm", ".pgm", ".ppm"}
LARGEST = 1 << 26
"""The limit on the number of pixels that Pillow reads: a photograph of 67 megapixels, 200 MB when unpacked."""
BYTES = 1 << 28
"""The limit on the size of a file."""
_AGAIN = "Save it again, or leave it out."
INSTALL = "pip install 'foveate[image]'"


@dataclass(frozen=True, eq=False)
class Picture:
    """Red, green and blue from 0 to 255, transparent parts on white, with the name of the file."""

    name: str
    pixels: UInt8[np.ndarray, "rows columns 3"]
    remarks: tuple[str, ...] = ()
    """Notes for the user about this picture, such as further frames of an animation."""

    def __str__(self) -> str:
        return self.name

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.pixels.shape[:2]


def read_picture(path: Path) -> Picture:
    """The pixels of a file, turned as its EXIF orientation says; of an animation the first frame.

    Raises DataError, with the name of the file, for a file that is missing, damaged, truncated, too large, entirely
    transparent or not a picture; SetupError for a picture that needs Pillow, where it is not installed.
    """
    try:
        size = path.stat().st_size
        if size > BYTES:
            raise DataError(f"{path} has {size / 2**20:,.0f} MiB, and at most {BYTES >> 20} are read. Scale it down.")
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(missing_file(path)) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    return picture_of(data, str(path))


def picture_of(data: bytes, name: str, *, largest: int = LARGEST) -> Picture:
    """`read_picture` for the content of a file; messages use `name`. One with more pixels than `largest` is refused
    before it is unpacked.
    """
    if not data:
        raise DataError(f"{name} is empty. Leave it out.")
    size = image_file.size_of(data)
    if data.startswith(image_file.STARTS) and (size is None or not all(size)):
        raise DataError(f"{name} is not a complete PNG, JPEG or GIF file. {_AGAIN}")
    try:
        import PIL.Image  # needed only for pictures, and an extra
    except ImportError:
        return _without_pillow(data, name)
    if size is not None:
        _require_pixels(name, *size, largest)
    return _by_pillow(PIL.Image, data, name, largest)


def _require_pixels(name: str, width: int, height: int, largest: int) -> None:
    if width * height > largest:
        raise DataError(f"{name} has {width} × {height} pixels, and at most {largest:,} are read. Scale it down.")


def _without_pillow(data: bytes, name: str) -> Picture:
    """By resvg, which knows three formats. Raises SetupError for what it would show otherwise than Pillow."""
    if not data.startswith(image_file.STARTS):
        if Path(name).suffix.lower() in SUFFIXES - image_file.SUFFIXES:
            raise SetupError(f"{name}: pictures other than PNG, JPEG and GIF need Pillow: {INSTALL}")
        raise DataError(f"{name} is not a complete PNG, JPEG or GIF file. {_AGAIN}")
    needs = image_file.unusual(data)
    if needs:
        raise SetupError(f"{name} has {needs}, which needs Pillow: {INSTALL}")
    return Picture(name, image_file.pixels_of(data, name))


def _by_pillow(library: Any, data: bytes, name: str, largest: int) -> Picture:
    try:
        with warnings.catch_warnings():
            # Pillow's warnings about large or odd files: limits are our own, and the rest becomes errors or pixels.
            warnings.simplefilter("ignore")
            with library.open(io.BytesIO(data), formats=FORMATS) as image:
                _require_pixels(name, image.width, image.height, largest)
                return _picture(library, image, name)
    except DataError:
        raise
    except library.DecompressionBombError:
        raise DataError(f"{name} has more than {largest:,} pixels, which is the limit. Scale it down.") from None
    except library.UnidentifiedImageError:
        kinds = ", ".join(sorted(SUFFIXES))
        raise DataError(f"{name} is not a picture that can be read, or is damaged ({kinds}). {_AGAIN}") from None
    except Exception as error:  # decoders raise errors of many classes for damaged files
        raise DataError(f"{name} is damaged: {str(error).rstrip('.') or type(error).__name__}. {_AGAIN}") from None


def _picture(library: Any, image: Any, name: str) -> Picture:
    from PIL import ImageOps

    remarks, kind = list[str](), image.format
    if kind != "MPO" and getattr(image, "is_animated", False):  # `n_frames` would read all of them
        several = "pages, and the first is read" if kind == "TIFF" else "an animation, whose first frame is read"
        remarks.append(several)
    image.seek(0)
    bits = _bits(image)
    image.load()
    image = ImageOps.exif_transpose(image)
    # Pillow reads a PGM of 16 bits into 32, from 0 to 65,535.
    mode = "I;16" if (kind, image.mode) == ("PPM", "I") else image.mode
    if mode in ("I", "F"):
        raise DataError(f"{name} has pixels of 32 bits, whose largest value is unknown. Save it with 8 or 16 bits.")
    if mode.startswith("I;16"):
        remarks.append("16 bits a pixel, read as 8")
        values = np.asarray(image).astype(np.uint16)
        grey = _levels(values)
        if "transparency" in image.info:
            grey[values == image.info["transparency"]] = 255
        return Picture(name, np.repeat(grey[..., None], 3, axis=2), tuple(remarks))
    if bits == 16:
        remarks.append("16 bits a pixel, read as 8")
    _scale_transparency(image, bits)
    if mode == "CMYK":
        remarks.append("CMYK, read without a profile of its colours")
    if mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        pixels = _on_white(np.asarray(image.convert("RGBA")), name)
    else:
        pixels = np.array(image.convert("RGB"))
    return Picture(name, pixels, tuple(remarks))


def _bits(image: Any) -> int:
    """The bits of a grey level or of a part of a colour in a PNG file that is not loaded yet; 8 for other formats."""
    raw = str(image.tile[0][3]) if image.format == "PNG" and image.tile else ""
    return {"RGB;16B": 16, "L;2": 2, "L;4": 4}.get(raw, 8)


def _scale_transparency(image: Any, bits: int) -> None:
    """Give the level or colour that a PNG file declares to be transparent 8 bits, as Pillow does with its pixels."""
    clear = image.info.get("transparency")
    if bits == 16 and isinstance(clear, tuple):
        image.info["transparency"] = tuple(part >> 8 for part in clear)
    elif bits < 8 and isinstance(clear, int):
        image.info["transparency"] = clear * 255 // ((1 << bits) - 1)


def _levels(values: UInt16[np.ndarray, "rows columns"]) -> UInt8[np.ndarray, "rows columns"]:
    """Levels of 16 bits as the nearest ones of 8: 65,535 = 257 · 255."""
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _on_white(pixels: UInt8[np.ndarray, "rows columns 4"], name: str) -> UInt8[np.ndarray, "rows columns 3"]:
    opacity = pixels[..., 3:].astype(np.uint16)
    if not opacity.any():
        raise DataError(f"{name} is entirely transparent. {_AGAIN}")
    return ((pixels[..., :3] * opacity + 255 * (255 - opacity) + 127) // 255).astype(np.uint8)
