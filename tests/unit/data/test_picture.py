"""Files of pictures: every kind of pixels, by Pillow and without it, and what is said about bad ones."""

import io
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PIL.GifImagePlugin import GifImageFile

from foveate.data import picture
from foveate.data.image_file import size_of
from foveate.data.picture import picture_of, read_picture
from foveate.errors import DataError, SetupError

COARSE = np.random.default_rng(0).integers(0, 256, (3, 4, 3)).repeat(8, 0).repeat(8, 1).astype(np.uint8)
GREY = COARSE[..., 0]


def encoded(pixels: Any, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(file, kind, **options)
    return file.getvalue()


def turned(orientation: int, kind: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(COARSE, kind, exif=exif, **({"quality": 95, "subsampling": 0} if kind == "JPEG" else {}))


@pytest.fixture
def without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)


def grey_and_alpha() -> Image.Image:
    return Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(np.full_like(GREY, 255))])


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_formats_without_loss_give_the_pixels_that_were_written(kind: str) -> None:
    assert (picture_of(encoded(COARSE, kind), "a").pixels == COARSE).all()


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        (Image.fromarray(GREY), "PNG"),
        (grey_and_alpha(), "PNG"),
        (Image.fromarray(GREY.astype(np.uint16) * 257), "PNG"),
        (Image.fromarray(GREY.astype(np.uint16) * 257), "TIFF"),
        (Image.fromarray(GREY.astype(np.int32) * 257), "PPM"),
    ],
    ids=["grey", "grey and alpha", "16 bits", "16 bits in TIFF", "16 bits in PGM"],
)
def test_grey_pictures_of_every_depth_have_three_equal_colours(image: Image.Image, kind: str) -> None:
    result = picture_of(encoded(image, kind), "a")
    assert (result.pixels == GREY[..., None]).all()
    assert result.remarks == (("16 bits a pixel, read as 8",) if image.mode in ("I;16", "I") else ())


def test_palettes_have_the_colours_of_their_table() -> None:
    image = Image.fromarray(COARSE).quantize(8)
    assert (picture_of(encoded(image), "a").pixels == np.asarray(image.convert("RGB"))).all()
    clear = encoded(image, transparency=int(np.asarray(image)[0, 0]))
    assert (picture_of(clear, "a").pixels[0, 0] == 255).all()


def test_transparent_parts_lie_on_white() -> None:
    opacity = np.array([[0, 255], [128, 51]], np.uint8)
    pixels = np.dstack([np.full((2, 2, 3), 100, np.uint8), opacity])
    result = picture_of(encoded(pixels), "a").pixels[..., 0]
    assert result.tolist() == [[255, 100], [round(255 - 155 * 128 / 255), round(255 - 155 * 51 / 255)]]
    with pytest.raises(DataError, match=r"^a\.png is entirely transparent"):
        picture_of(encoded(np.zeros((2, 2, 4), np.uint8)), "a.png")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_is_turned_as_its_exif_orientation_says(orientation: int) -> None:
    result = picture_of(turned(orientation), "a").pixels.astype(int)
    upright = COARSE.swapaxes(0, 1) if orientation > 4 else COARSE
    # The first row and column of the file, as the standard lists them: 1 top left, 2 top right, … 8 left bottom.
    down, right = {1: (1, 1), 2: (1, -1), 3: (-1, -1), 4: (-1, 1), 5: (1, 1), 6: (1, -1), 7: (-1, -1), 8: (-1, 1)}[
        orientation
    ]
    assert result.shape == upright.shape
    assert np.abs(result - upright[::down, ::right]).max() <= 12


def test_colours_for_printing_are_read_with_a_remark() -> None:
    image = Image.fromarray(COARSE).convert("CMYK")
    result = picture_of(encoded(image, "TIFF"), "a")
    assert result.remarks == ("CMYK, read without a profile of its colours",)
    assert np.abs(result.pixels.astype(int) - COARSE).max() <= 1


@pytest.mark.parametrize(("kind", "remark"), [("GIF", "an animation, whose first"), ("TIFF", "pages, and the first")])
def test_of_several_frames_the_first_is_read_and_a_remark_says_so(kind: str, remark: str) -> None:
    first, second = (Image.fromarray(pixels).quantize(4).convert("RGB") for pixels in (COARSE, 255 - COARSE))
    result = picture_of(encoded(first, kind, save_all=True, append_images=[second]), "a")
    assert (result.pixels == np.asarray(first)).all()
    assert result.remarks[0].startswith(remark)


def test_of_a_long_animation_two_frames_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [Image.fromarray(np.full((2, 2, 3), level, np.uint8)) for level in range(50)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    highest, seek = [0], GifImageFile._seek

    def noted(image: GifImageFile, frame: int, *rest: Any) -> None:
        highest.append(frame)
        seek(image, frame, *rest)

    monkeypatch.setattr(GifImageFile, "_seek", noted)
    assert picture_of(data, "a").remarks
    assert max(highest) == 1


def test_bytes_beside_the_parts_of_a_file_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    png, jpeg = encoded(COARSE), encoded(COARSE, "JPEG")
    table = jpeg.index(b"\xff\xdb")
    filled = jpeg[:table] + b"\xff" * 3 + jpeg[table:]
    assert (picture_of(filled, "a").pixels == picture_of(jpeg, "a").pixels).all()
    for behind in (b"\n", png[30:]):
        assert (picture_of(png + behind, "a").pixels == COARSE).all()
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert (picture_of(png + b"\n", "a").pixels == COARSE).all()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.8])
def test_a_truncated_file_is_refused_by_name(kind: str, share: float) -> None:
    data = encoded(np.random.default_rng(1).integers(0, 256, (40, 30, 3)).astype(np.uint8), kind)
    with pytest.raises(DataError, match=r"^cut\.img is "):
        picture_of(data[: int(share * len(data))], "cut.img")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_a_damaged_file_is_refused_by_name_or_read(kind: str) -> None:
    generator = np.random.default_rng(2)
    data = encoded(COARSE, kind)
    for _ in range(40):
        damaged = bytearray(data)
        for place in generator.integers(0, len(data), 6):
            damaged[place] = generator.integers(256)
        refusals = list[str]()
        try:
            assert picture_of(bytes(damaged), "bad.img").pixels.dtype == np.uint8
        except DataError as error:
            refusals.append(str(error))
        assert all(refusal.startswith("bad.img ") for refusal in refusals)


def bomb(width: int, height: int) -> bytes:
    """A small PNG that unpacks to `width` · `height` bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    packing = zlib.compressobj(9)
    packed = b"".join(packing.compress(bytes(1 << 20)) for _ in range((width + 1) * height >> 20)) + packing.flush()
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def test_a_small_file_that_unpacks_to_gigabytes_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(bomb(16_384, 8_192))
    assert path.stat().st_size < 1 << 18
    with pytest.raises(DataError) as refusal:
        read_picture(path)
    assert str(refusal.value) == (f"{path} has 16384 × 8192 pixels, and at most 67,108,864 are read. Scale it down.")


@pytest.mark.parametrize("side", [10_000, 30_000])
def test_pillows_warning_about_bombs_becomes_words(side: int) -> None:
    header = b"P5\n%d %d\n255\n" % (side, side)
    with pytest.raises(DataError, match=r"^a\.pgm has .* pixels,.* Scale it down"):
        picture_of(header, "a.pgm")


def test_files_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content, message in (
        ("text.png", b"no picture", "is not a picture that can be read, or is damaged"),
        ("script.png", b"%!PS-Adobe-3.0 EPSF-3.0\n", "is not a picture that can be read, or is damaged"),
        ("empty.png", b"", "is empty"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{name} {message}"):
            read_picture(tmp_path / name)
    with pytest.raises(DataError, match=r"none\.png: there is no such file"):
        read_picture(tmp_path / "none.png")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_picture(tmp_path)
    monkeypatch.setattr(picture, "BYTES", 5)
    with pytest.raises(DataError, match=r"text\.png has 0 MiB, and at most"):
        read_picture(tmp_path / "text.png")


def test_pixels_of_32_bits_are_refused_because_their_range_is_unknown() -> None:
    with pytest.raises(DataError, match=r"^a has pixels of 32 bits, whose largest value is unknown"):
        picture_of(encoded(Image.fromarray(GREY.astype(np.float32)), "TIFF"), "a")


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_without_pillow_pixels_are_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.fromarray(COARSE).quantize(8).convert("RGB")
    data = encoded(image, kind)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert (picture_of(data, "a").pixels == np.asarray(image)).all()


def test_without_pillow_a_jpeg_differs_by_a_few_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(COARSE, "JPEG", quality=90)
    usual = picture_of(data, "a").pixels.astype(int)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert np.abs(picture_of(data, "a").pixels - usual).max() <= 4


@pytest.mark.usefixtures("without_pillow")
@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jpg", turned(6), "a.jpg has an EXIF orientation, which needs Pillow: pip install 'foveate\\[image\\]'"),
        ("a.png", turned(3, "PNG"), "a.png has an EXIF orientation, which needs Pillow"),
        ("a.jpg", encoded(Image.fromarray(COARSE).convert("CMYK"), "JPEG"), "a.jpg has colours for printing"),
        ("a.webp", encoded(COARSE, "WEBP"), "a.webp: pictures other than PNG, JPEG and GIF need Pillow: pip install"),
    ],
)
def test_without_pillow_what_would_look_otherwise_is_refused(name: str, data: bytes, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        picture_of(data, name)


def test_a_file_of_millions_of_parts_is_not_read() -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    for form, part, at in (("JPEG", b"\xff\xe4\x00\x02", 2), ("PNG", b"\0\0\0\0teXt\0\0\0\0", 33)):
        data = encoded(pixels, form)
        assert size_of(data) == size_of(data[:at] + 500 * part + data[at:]) == (4, 4)
        assert size_of(data[:at] + 30_000 * part + data[at:]) is None


def png(bits: int, colour: int, row: bytes, clear: bytes) -> bytes:
    """A PNG file of two pixels, one of them transparent."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, bits, colour, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + head
        + chunk(b"tRNS", clear)
        + chunk(b"IDAT", zlib.compress(b"\0" + row))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("bits", "colour", "row", "clear", "other"),
    [
        (16, 0, struct.pack(">2H", 5000, 25_700), struct.pack(">H", 5000), [100, 100, 100]),
        (8, 0, b"\x28\x64", b"\0\x28", [100, 100, 100]),
        (4, 0, b"\x35", b"\0\3", [85, 85, 85]),
        (2, 0, b"\x60", b"\0\1", [170, 170, 170]),
        (1, 0, b"\x40", b"\0\0", [255, 255, 255]),
        (16, 2, struct.pack(">6H", 5000, 6000, 7000, 256, 512, 768), struct.pack(">3H", 5000, 6000, 7000), [1, 2, 3]),
        (8, 2, bytes([9, 8, 7, 1, 2, 3]), struct.pack(">3H", 9, 8, 7), [1, 2, 3]),
    ],
)
def test_a_level_or_colour_that_stands_for_transparency_is_white(
    bits: int, colour: int, row: bytes, clear: bytes, other: list[int]
) -> None:
    read = picture_of(png(bits, colour, row, clear), "a.png")
    assert read.pixels[0].tolist() == [[255, 255, 255], other]
    assert read.remarks == (("16 bits a pixel, read as 8",) if bits == 16 else ())
