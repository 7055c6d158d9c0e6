"""Labelled pictures from folders: their pixels, their patches, and what is said about bad ones."""

import base64
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from foveate.data import image_file
from foveate.data.image import ImageReader, ImageRows
from foveate.data.image_file import _unfiltered, pixels_of, read_pixels
from foveate.errors import DataError

RED_JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMU"
    "FRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU"
    "FBQUFBQUFBT/wAARCAAIAAgDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAf/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QA"
    "FQEBAQAAAAAAAAAAAAAAAAAABgj/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCFADS3X//Z"
)
GREY_GIF = base64.b64decode("R0lGODdhAwACAIEAAFpaWgAAAAAAAAAAACwAAAAAAwACAAAIBgABCBwYEAA7")


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(pixels: np.ndarray) -> bytes:
    """Red, green, blue and, where they are there, opacities."""
    rows, columns, channels = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2 if channels == 3 else 6, 0, 0, 0)
    lines = np.zeros((rows, 1 + channels * columns), np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines.tobytes())), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def random(rows: int = 4, columns: int = 6) -> np.ndarray:
    return np.random.default_rng(rows + columns).integers(0, 256, (rows, columns, 3)).astype(np.uint8)


def pictures(folder: Path, **labels: list[np.ndarray]) -> Path:
    for label, those in labels.items():
        (folder / label).mkdir(parents=True)
        for number, one in enumerate(those):
            (folder / label / f"{number}.png").write_bytes(png(one))
    return folder


def test_pixels_of_a_png_are_those_that_were_written() -> None:
    for pixels in (random(), random(1, 1), random(31, 17), np.full((40, 40, 3), 7, np.uint8)):
        assert (pixels_of(png(pixels), "a.png") == pixels).all()


def test_transparent_parts_are_white() -> None:
    pixels = np.dstack([random(), np.full((4, 6), 255, np.uint8)])
    pixels[0, 0, 3] = 0
    result = pixels_of(png(pixels), "a.png")
    assert result[0, 0].tolist() == [255, 255, 255]
    assert (result[1:] == pixels[1:, :, :3]).all()


def test_jpeg_and_gif_are_read_too() -> None:
    jpeg = pixels_of(RED_JPEG, "a.jpg").astype(int)
    assert jpeg.shape == (8, 8, 3)
    assert np.abs(jpeg - [200, 30, 60]).max() <= 3
    assert pixels_of(GREY_GIF, "a.gif").shape == (2, 3, 3)


def filtered(pixels: np.ndarray, kind: int) -> np.ndarray:
    """The prediction of each byte taken away, byte by byte as the standard says it."""
    rows, columns, channels = pixels.shape
    lines = np.zeros_like(pixels)
    for r in range(rows):
        for c in range(columns):
            for k in range(channels):
                left = int(pixels[r, c - 1, k]) if c else 0
                above = int(pixels[r - 1, c, k]) if r else 0
                between = int(pixels[r - 1, c - 1, k]) if r and c else 0
                near = left + above - between
                order = [(abs(near - left), 0, left), (abs(near - above), 1, above), (abs(near - between), 2, between)]
                message = [0, left, above, (left + above) // 2, min(order)[2]][kind]
                lines[r, c, k] = (int(pixels[r, c, k]) - message) % 256
    return lines


@pytest.mark.parametrize("kind", range(5))
def test_every_filter_of_a_png_is_undone(kind: int) -> None:
    pixels = random(5, 7)
    assert (_unfiltered(np.full(5, kind, np.uint8), filtered(pixels, kind)) == pixels).all()


def test_the_filters_of_lines_may_differ() -> None:
    pixels, kinds = random(5, 4), np.array([4, 0, 3, 1, 2], np.uint8)
    lines = np.stack([filtered(pixels, int(kind))[row] for row, kind in enumerate(kinds)])
    assert (_unfiltered(kinds, lines) == pixels).all()


def test_a_label_is_the_name_of_its_folder(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "all", cat=[random(), random()], dog=[random()])
    (folder / "cat" / ".hidden").write_text("passed over")
    examples = list(ImageReader(patch=2).read(str(folder)))
    assert [(one.line, one.thing.name, one.label) for one in examples] == [
        (1, "0.png", "cat"),
        (2, "1.png", "cat"),
        (3, "0.png", "dog"),
    ]


def test_patches_go_from_left_to_right_and_down(tmp_path: Path) -> None:
    folder, pixels = pictures(tmp_path, a=[random()]), random()
    reader = ImageReader(patch=2)
    rows = reader.learn(reader.read(str(folder)))
    assert rows == ImageRows(patch=2, colour=True, grid=(2, 3))
    row = rows.row(folder / "a" / "0.png")
    assert row.places is not None
    assert row.places.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    np.testing.assert_allclose(row.values[4], pixels[2:4, 2:4].reshape(-1) / 127.5 - 1, atol=1e-6)
    rows.save(tmp_path)
    assert ImageRows.open(tmp_path) == rows


def test_grey_is_one_number_a_pixel(tmp_path: Path) -> None:
    folder = pictures(tmp_path, a=[random()])
    reader = ImageReader(patch=2, colour=False)
    row = reader.learn(reader.read(str(folder))).row(folder / "a" / "0.png")
    assert row.values.shape == (6, 4)
    first = random()[0, 0] @ [0.299, 0.587, 0.114] / 127.5 - 1
    np.testing.assert_allclose(row.values[0, 0], first, atol=1e-5)


def read_all(folder: Path, patch: int) -> None:
    reader = ImageReader(patch=patch)
    rows = reader.learn(reader.read(str(folder)))
    for example in reader.read(str(folder)):
        rows.row(example.thing)


def refusal(folder: Path, patch: int = 2) -> str:
    with pytest.raises(DataError) as caught:
        read_all(folder, patch)
    return str(caught.value)


def test_a_picture_of_another_size_is_refused_by_name(tmp_path: Path) -> None:
    folder = pictures(tmp_path, a=[random()], b=[random(6, 6)])
    assert refusal(folder) == (
        f"{folder / 'b' / '0.png'} has 6 × 6 pixels, and 6 × 4 are needed, as the first picture of the training data "
        "has. Scale it: mogrify -resize 6x4! FILE"
    )


def test_patches_have_to_fit(tmp_path: Path) -> None:
    folder = pictures(tmp_path, a=[random()])
    assert "do not divide into squares of 3. Set reader.patch to one of 1, 2" in refusal(folder, patch=3)


def test_bad_folders_are_named(tmp_path: Path) -> None:
    assert "Give a folder that contains a folder of pictures for each label" in refusal(tmp_path / "none")
    folder = pictures(tmp_path / "all", a=[random()])
    (folder / "loose.png").write_bytes(png(random()))
    assert f"{folder / 'loose.png'} is not in a folder that names its label" in refusal(folder)
    (folder / "loose.png").rename(folder / "a" / "notes.txt")
    assert f"{folder / 'a' / 'notes.txt'} is not a picture that can be read (.gif, .jpeg, .jpg, .png)" in refusal(
        folder
    )


@pytest.mark.parametrize("cut", [0, 5, 30, -1])
def test_a_damaged_picture_is_refused_by_name(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(random())[:cut])
    with pytest.raises(DataError) as caught:
        read_pixels(path)
    assert str(path) in str(caught.value)


def test_damage_inside_of_a_picture_is_refused(tmp_path: Path) -> None:
    data = bytearray(png(random(20, 20)))
    data[60:80] = bytes(20)
    with pytest.raises(DataError, match=r"^a\.png is "):
        pixels_of(bytes(data), "a.png")
    with pytest.raises(DataError, match=r"^a\.jpg is "):
        pixels_of(RED_JPEG[:-200], "a.jpg")


def test_a_huge_picture_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert image_file.LARGEST == 16_777_216
    monkeypatch.setattr(image_file, "LARGEST", 20)
    with pytest.raises(DataError, match="has 6 × 4 pixels, and at most 20 are read"):
        pixels_of(png(random()), "a.png")
