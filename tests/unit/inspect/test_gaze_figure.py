"""Drawings of where the words of a caption look."""

import base64
import re
from pathlib import Path

import numpy as np
import pytest

from foveate.errors import UsageError
from foveate.inspect import Alignment, Picture, gaze_svg, write_gaze
from foveate.inspect.figure.gaze_figure import view_svg
from foveate.inspect.figure.picture_file import write_view

PLACES = tuple(f"{row},{column}" for row in range(2) for column in range(3))


@pytest.fixture
def table() -> Alignment:
    weights = np.full((5, 6), 0.04)
    for word, place in enumerate((0, 4, 4, 1, 5)):
        weights[word, place] = 0.8
    return Alignment.of(PLACES, ["a", "<cat>", "on", "mat", "</s>"], weights, grid=(2, 3))


@pytest.fixture
def picture() -> Picture:
    return Picture.of(np.random.default_rng(0).integers(0, 255, (8, 12, 3), dtype=np.uint8))


def test_each_word_has_a_panel_with_its_place_framed_and_the_path_has_all(table: Alignment, picture: Picture) -> None:
    drawing = gaze_svg(table, picture=picture)
    assert "a: row 0, column 0; &lt;cat&gt;: row 1, column 1; on: row 1, column 1; mat: row 0, column 1" in drawing
    assert drawing.count("<image ") == 5
    assert drawing.count(base64.b64encode(picture.data).decode()) == 5
    assert re.findall(r">([\d–]+)</text>", drawing) == ["1", "2–3", "4"]
    assert drawing.count("<path ") == 2  # from 0 to 4 and from 4 to 1
    assert drawing.count('stroke-width="2"') == 4
    opacities = [float(one) for one in re.findall(r'fill-opacity="([\d.]+)"><title>', drawing)]
    assert len(opacities) == 4 * 6
    assert sorted(opacities)[:5] == [0, 0, 0, 0, pytest.approx(0.78)]


@pytest.mark.parametrize("size", [(3000, 1), (1, 3000)])
def test_long_and_narrow_pictures_are_visible_with_their_title(size: tuple[int, int]) -> None:
    table = Alignment.of(["0,0"], ["a", "long", "caption"], [[1.0]] * 3, grid=(1, 1))
    drawing = gaze_svg(table, picture=Picture.of(np.zeros((*size, 3), dtype=np.uint8)), title="a long caption")
    sides = re.findall(r'<image x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="([\d.]+)"', drawing)
    assert len(sides) == 4
    assert all(min(float(wide), float(high)) >= 20 for wide, high in sides)
    whole = re.match(r'<svg [^>]*? width="(\d+)"', drawing)
    assert whole is not None
    assert int(whole[1]) > 120


@pytest.mark.parametrize(("ending", "begin"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".pdf", b"%PDF-1.4")])
def test_a_gaze_is_written_in_the_format_of_the_name(
    table: Alignment, picture: Picture, tmp_path: Path, ending: str, begin: bytes
) -> None:
    content = write_gaze(table, tmp_path / f"a{ending}", picture=picture).read_bytes()
    assert content.startswith(begin)
    assert content == write_gaze(table, tmp_path / f"b{ending}", picture=picture).read_bytes()
    assert ending != ".pdf" or (b"/DeviceRGB /Filter" in content and b"/ca 0.78" in content)


def test_a_view_has_a_panel_for_each_query_and_the_weights_of_tokens_beside_it(
    table: Alignment, picture: Picture, tmp_path: Path
) -> None:
    weights = np.concatenate([np.full((5, 1), 0.25, np.float32), table.weights], axis=1)
    views = Alignment.of(["[class]", *PLACES], ["[class], <1>", *"bcde"], weights, grid=(2, 3))
    drawing = view_svg(views, picture=picture)
    assert drawing.count("<image ") == 5
    assert "[class], &lt;1&gt;: [class] 0.250, largest 0.800 in row 0, column 0; b: [class] 0.250" in drawing
    opacities = [float(one) for one in re.findall(r'fill-opacity="([\d.]+)"><title>', drawing)]
    assert len(opacities) == 5 * 6
    assert sorted(opacities)[:6] == [0, 0, 0, 0, 0, pytest.approx(0.78)]
    assert write_view(views, tmp_path / "a.pdf", picture=picture).read_bytes().startswith(b"%PDF-1.4")


def test_what_is_not_a_gaze_is_refused(table: Alignment, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a whole grid of places"):
        gaze_svg(Alignment.of(PLACES, ["a"], [[0.1] * 6]))
    with pytest.raises(UsageError, match="does not end with all its places"):
        view_svg(Alignment.of(PLACES, ["a"], [[0.1] * 6], grid=(2, 4)))
    with pytest.raises(UsageError, match="no word that looks"):
        gaze_svg(Alignment.of(PLACES, ["</s>"], [[0.1] * 6], grid=(2, 3)))
    with pytest.raises(UsageError, match=r"a gaze is written as \.svg"):
        write_gaze(table, tmp_path / "a.txt")
    jpeg = Picture(bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080007000901011100ffd9"))
    with pytest.raises(UsageError, match=r"Write an \.svg or a \.png"):
        write_gaze(table, tmp_path / "a.pdf", picture=jpeg)
