import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate.errors import SetupError, UsageError
from foveate.inspect import Alignment, outlined, png, svg
from foveate.inspect.figure import letter
from foveate.inspect.figure.raster import rasterised
from foveate.inspect.figure.scale import INKS, ramp

GOLDEN = Path(__file__).parents[2] / "golden" / "figure"


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """The parts of a PNG, their check sums checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    calls, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length) == (zlib.crc32(kind + content),)
        calls.append((kind, content))
        at += 12 + length
    return calls


def pixels(data: bytes) -> np.ndarray:
    """The picture as rows × columns × RGB, read by the standard and not by its writer."""
    parts = chunks(data)
    header = next(content for kind, content in parts if kind == b"IHDR")
    columns, rows, depth, kind, compression, filters, interlace = struct.unpack(">IIBBBBB", header)
    assert (depth, kind, compression, filters, interlace) == (8, 6, 0, 0, 0)
    packed = b"".join(content for name, content in parts if name == b"IDAT")
    lines = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(rows, 4 * columns + 1)
    picture = np.zeros((rows + 1, 4 * (columns + 1)), dtype=np.int64)
    for row, line in enumerate(lines.tolist(), start=1):
        how, here, above = line[0], picture[row], picture[row - 1]
        if how in (0, 2):  # every byte by itself, or beside the byte above
            here[4:] = (np.array(line[1:]) + (above[4:] if how == 2 else 0)) % 256
            continue
        for at, byte in enumerate(line[1:], start=4):
            left, up, corner = int(here[at - 4]), int(above[at]), int(above[at - 4])
            near = min((left, up, corner), key=lambda each: abs(left + up - corner - each))
            here[at] = (byte + {1: left, 3: (left + up) // 2, 4: near}[how]) % 256
    return picture[1:, 4:].reshape(rows, columns, 4)[:, :, :3].astype(np.uint8)


def rgb(colour: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(colour[1:]), dtype=np.uint8)


@pytest.mark.parametrize("name", ["pronunciation", "persian"])
def test_the_picture_is_drawn_as_it_was(name: str, request: pytest.FixtureRequest) -> None:
    # Pixels rather than bytes, and nearly: another version of the renderer may round the edge of a letter otherwise.
    drawn = pixels(png(request.getfixturevalue(name), title="foveate")).astype(int)
    golden = pixels((GOLDEN / f"{name}.png").read_bytes()).astype(int)
    assert drawn.shape == golden.shape
    assert (abs(drawn - golden).max(axis=2) > 32).mean() < 0.002


def test_the_same_alignment_gives_the_same_bytes(persian: Alignment) -> None:
    assert png(persian) == png(persian)


def test_title_and_description_are_kept_inside(pronunciation: Alignment) -> None:
    texts = [content for kind, content in chunks(png(pronunciation, title="foveate")) if kind == b"iTXt"]
    assert texts[0] == b"Title\0\0\0\0\0foveate"
    assert b"F looks at f (0.75)" in texts[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_weight_has_its_colour_of_the_scale(theme: Any) -> None:
    picture = pixels(png(Alignment.of("abc", "x", [[0.0, 0.3, 0.7]]), theme=theme))
    for step in (0, 30, 70):
        assert (picture == np.array(ramp(theme)[step])).all(axis=2).sum() >= 40 * 40


@pytest.mark.parametrize(("dpi", "zoom"), [(96, 1), (192, 2), (600, 6.25)])
def test_the_resolution_is_the_one_that_is_asked_for(pronunciation: Alignment, dpi: float, zoom: float) -> None:
    drawing, picture = svg(pronunciation), dict(chunks(png(pronunciation, dpi=dpi)))
    wide, high = (float(side) for side in re.findall(r'(?:width|height)="([\d.]+)"', drawing)[:2])
    assert np.allclose(struct.unpack(">II", picture[b"IHDR"][:8]), (wide * zoom, high * zoom), atol=1)
    assert struct.unpack(">IIB", picture[b"pHYs"]) == (round(dpi / 0.0254), round(dpi / 0.0254), 1)


@pytest.mark.parametrize("dpi", [0.0, -5.0, float("nan"), float("inf"), 1e5, 0.1])
def test_a_resolution_that_makes_no_picture_is_refused(pronunciation: Alignment, dpi: float) -> None:
    with pytest.raises(UsageError, match=r"dpi=.* 96 for a screen and 600 for print"):
        png(pronunciation, dpi=dpi)


@pytest.mark.parametrize("size", [1, 65, 700])
def test_any_number_of_pieces_gives_a_picture_of_sensible_size(size: int) -> None:
    alignment = Alignment.of([f"{i}" for i in range(size)], [f"{i}" for i in range(size)], np.eye(size))
    header = dict(chunks(png(alignment)))[b"IHDR"]
    assert all(24 * min(size, 60) < side < 4000 for side in struct.unpack(">II", header[:8]))


def test_cells_of_a_large_map_keep_their_edges() -> None:
    picture = pixels(png(Alignment.of(["s"] * 100, ["t"] * 100, np.eye(100))))
    between = ~np.isin(picture[:, :, 0], [int(colour[0]) for colour in (ramp()[0], ramp()[100], rgb("#ffffff"))])
    inside = picture.shape[0] // 2
    row = picture[inside, 200:-200]
    colours = {tuple(colour) for colour in row.tolist()}
    assert between.any()  # letters have grey edges
    assert colours == {ramp()[0], ramp()[100]}


@pytest.mark.parametrize("text", ["é", "Привет", "γλῶσσα", "שלום", "سلام دنیا", "▁the", "ə", "∅", "</s>"])
def test_letters_of_many_scripts_are_drawn_by_the_font_that_comes_along(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter, "installed_files", lambda bold=False: ())
    letter._elsewhere.cache_clear()
    with_text, without = (pixels(png(Alignment.of([label], ["x"], [[1]]))) for label in (text, "\u200d\u200d"))
    assert (with_text < 128).all(axis=2).sum() > 20
    assert with_text.shape != without.shape or not np.array_equal(with_text, without)


def written(text: str) -> str:
    """A drawing of one text that begins at its middle and runs from right to left."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="40"><rect width="100%" height="100%" '
        'fill="#ffffff"/><text x="100" y="30" font-size="20" direction="rtl" text-anchor="start" '
        f'fill="#000000">{text}</text></svg>'
    )


def test_letters_that_join_are_joined() -> None:
    """A Persian word is narrower than its letters by themselves, and has other shapes."""
    joined, apart = (pixels(rasterised(written(text))) for text in ("سلام", "س\u200cل\u200cا\u200cم"))
    wide = [np.flatnonzero((picture < 128).any(axis=(0, 2))) for picture in (joined, apart)]
    assert np.ptp(wide[0]) < 0.8 * np.ptp(wide[1])


def test_a_sentence_from_right_to_left_ends_on_the_left() -> None:
    dark = (pixels(rasterised(written("با."))) < 128).any(axis=2)
    columns = np.flatnonzero(dark.any(axis=0))
    assert columns.max() <= 2 * 101
    stop = dark[:, columns.min() : columns.min() + 4]
    assert np.flatnonzero(stop.any(axis=1)).min() > 50  # the full stop stands alone at the left, on the line


@pytest.mark.parametrize(
    ("text", "direction", "result"),
    [
        ("see שלום 12", "ltr", ["see ", "12", "שלום "]),
        ("שלום (2) дом", "ltr", [")", "2", "שלום (", " дом"]),  # brackets run as what they hold
        ("12 سلام 3.5%", "rtl", ["%", "3.5", " سلام ", "12"]),  # after Arabic letters a number takes no sign along
        ("שלום 3.5%", "rtl", ["3.5%", "שלום "]),
        ("(abc) שלום", "rtl", [") שלום", "abc", "("]),
        ("a (b) 3.", "ltr", ["a (b) 3."]),
        ("", "ltr", []),
    ],
)
def test_a_line_of_two_directions_stands_as_the_standard_says(text: str, direction: Any, result: list[str]) -> None:
    assert [run.text for run in letter.runs(text, direction)] == result


def test_a_line_of_several_fonts_and_directions_is_drawn_without_gaps() -> None:
    """Every letter stands in its own font, also beside one of another font and direction."""

    def width_of(text: str) -> int:
        drawing = (
            '<svg xmlns="http://www.w3.org/2000/svg" width="600" height="40"><rect width="100%" height="100%" '
            f'fill="#ffffff"/><text x="10" y="30" font-size="20" fill="#000000">{text}</text></svg>'
        )
        return int(np.ptp(np.flatnonzero((pixels(rasterised(drawing)) < 128).any(axis=(0, 2)))))

    parts = [width_of(part) for part in ("aaa|", "|سلام|", "|дом")]
    assert width_of("aaa|سلام|дом") == pytest.approx(sum(parts) - 2 * width_of("|"), abs=4)


def test_a_letter_that_no_font_has_is_refused_by_name() -> None:
    with pytest.raises(SetupError, match=r"can draw the letter \U00012000 \(Cuneiform\) of 'a\U00012000'.*\.svg"):
        png(Alignment.of(["a\U00012000"], ["x"], [[1]]))


def test_labels_that_cannot_be_seen_are_written_as_escapes() -> None:
    assert np.array_equal(
        pixels(png(Alignment.of(["\u202e"], ["x"], [[1]]))), pixels(png(Alignment.of(["\\u202e"], ["x"], [[1]])))
    )


def test_hidden_cells_are_hatched_and_zeros_are_not() -> None:
    picture = pixels(png(Alignment.of("ab", "x", [[0, 0]], [[True, False]])))
    share = [(picture == np.array(colour)).all(axis=2).sum() for colour in (ramp()[0], rgb(INKS["light"].hidden))]
    assert share[0] > 40 * 40
    assert 800 < share[1] < 44 * 44 + 24 * 24  # the cell and its legend, less their lines


@pytest.mark.parametrize(("source", "target"), [("", "x"), ("x", "")])
def test_an_empty_alignment_is_refused(source: str, target: str) -> None:
    with pytest.raises(UsageError, match="1 to 4096"):
        png(Alignment.of(source, target, []))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["office", "é", "Ω"], id="Latin"),
        pytest.param(["می‌خوانم", "کتاب", "(۱۲)"], id="Persian"),
        pytest.param(["אֲנִי", "ב־2024", "!"], id="Hebrew"),
    ],
)
def test_letters_as_shapes_lie_where_the_letters_lie(words: list[str]) -> None:
    drawing = svg(Alignment.of(words, words, np.eye(3)), title=" ".join(words))
    other = svg(Alignment.of(words, [words[0], *words[:0:-1]], np.eye(3)), title=" ".join(words))
    shapes = outlined(drawing)
    assert "<text" not in shapes
    picture, again, beside = (pixels(rasterised(each, dpi=96)).astype(int) for each in (drawing, shapes, other))
    apart = abs(picture - again).mean()
    assert apart < 0.3  # the edges of letters are smoothed otherwise
    assert abs(picture - beside).mean() > 2 * apart


def test_words_of_letters_as_shapes_remain_for_screen_readers() -> None:
    long = "antidisestablishmentarianism-and-more"
    shapes = outlined(svg(Alignment.of([long], ["a<b"], [[1.0]])))
    assert f"<title>{long}</title>" in shapes
    assert 'aria-label="a&lt;b"' in shapes
    with pytest.raises(SetupError, match="Egyptian"):
        outlined(svg(Alignment.of(["\N{EGYPTIAN HIEROGLYPH A001}"], ["a"], [[1.0]])))
