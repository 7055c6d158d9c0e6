import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from foveate.errors import UsageError
from foveate.inspect import Alignment, png
from foveate.inspect.figure.font import draw
from foveate.inspect.figure.scale import ramp

GOLDEN = Path(__file__).parents[2] / "golden" / "figure"


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """The parts of a PNG, their check sums checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length) == (zlib.crc32(kind + content),)
        found.append((kind, content))
        at += 12 + length
    return found


def pixels(data: bytes) -> np.ndarray:
    """The picture as rows × columns × RGB, read by the standard and not by our writer."""
    parts = dict(chunks(data))
    columns, rows, depth, kind, compression, filters, interlace = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert (depth, kind, compression, filters, interlace) == (8, 3, 0, 0, 0)
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), dtype=np.uint8).reshape(rows, columns + 1)
    assert not lines[:, 0].any()
    return np.frombuffer(parts[b"PLTE"], dtype=np.uint8).reshape(-1, 3)[lines[:, 1:]]


def test_the_picture_is_drawn_as_it_was(pronunciation: Alignment) -> None:
    # Pixels rather than bytes: another version of zlib may pack the same picture into other bytes.
    drawn, golden = png(pronunciation, title="foveate"), (GOLDEN / "pronunciation.png").read_bytes()
    assert np.array_equal(pixels(drawn), pixels(golden))
    without_data = [[part for part in chunks(data) if part[0] != b"IDAT"] for data in (drawn, golden)]
    assert without_data[0] == without_data[1]


def test_the_same_alignment_gives_the_same_bytes(pronunciation: Alignment) -> None:
    assert png(pronunciation) == png(pronunciation)


def test_the_parts_come_in_the_order_of_the_standard(pronunciation: Alignment) -> None:
    kinds = [kind for kind, _ in chunks(png(pronunciation))]
    assert kinds == [b"IHDR", b"PLTE", b"iTXt", b"iTXt", b"IDAT", b"IEND"]


def test_title_and_description_are_kept_inside(pronunciation: Alignment) -> None:
    texts = [content for kind, content in chunks(png(pronunciation, title="foveate")) if kind == b"iTXt"]
    assert texts[0] == b"Title\0\0\0\0\0foveate"
    assert b"F looks at f (0.75)" in texts[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_weight_has_its_colour_of_the_scale(theme: str) -> None:
    picture = pixels(png(Alignment.of("abc", "x", [[0.0, 0.3, 0.7]]), theme=theme))  # type: ignore[arg-type]
    colours = ramp(theme)  # type: ignore[arg-type]
    row = picture[-(picture.shape[0] - 20) :]
    for step in (0, 30, 70):
        squares = (row == np.array(colours[step])).all(axis=2).sum()
        assert squares >= 23 * 23


@pytest.mark.parametrize("size", [1, 65, 700])
def test_any_number_of_pieces_gives_a_picture_of_sensible_size(size: int) -> None:
    seen = Alignment.of([f"{i}" for i in range(size)], [f"{i}" for i in range(size)], np.eye(size))
    rows, columns, _ = pixels(png(seen)).shape
    assert 24 * min(size, 60) < rows < 2000
    assert 24 * min(size, 60) < columns < 2000


def test_a_label_beyond_ascii_is_refused_naming_svg(persian: Alignment) -> None:
    with pytest.raises(UsageError, match=r"ASCII only .*'In'|ASCII only .*در.*\.svg"):
        png(persian)


def test_labels_that_cannot_be_seen_are_written_as_escapes() -> None:
    assert np.array_equal(
        pixels(png(Alignment.of(["\u202e"], ["x"], [[1]]))), pixels(png(Alignment.of(["\\u202e"], ["x"], [[1]])))
    )


@pytest.mark.parametrize(("source", "target"), [("", "x"), ("x", "")])
def test_an_empty_alignment_is_refused(source: str, target: str) -> None:
    with pytest.raises(UsageError, match="1 to 4096"):
        png(Alignment.of(source, target, []))


def test_every_printable_ascii_character_has_a_letter_of_its_own() -> None:
    drawn = {draw(chr(code)).tobytes() for code in range(0x20, 0x7F)}
    assert len(drawn) == 0x7F - 0x20
