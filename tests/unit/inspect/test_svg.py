import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.errors import UsageError
from foveate.inspect import Alignment, svg

GOLDEN = Path(__file__).parents[2] / "golden" / "figure"
SVG = "{http://www.w3.org/2000/svg}"
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)


def texts(picture: str) -> Iterator[ElementTree.Element]:
    return ElementTree.fromstring(picture).iter(f"{SVG}text")


def label(picture: str, words: str) -> ElementTree.Element:
    return next(element for element in texts(picture) if words in "".join(element.itertext()))


def cell_columns(picture: str) -> dict[str, float]:
    """Where the cell with each tooltip begins."""
    cells = ElementTree.fromstring(picture).iter(f"{SVG}rect")
    return {
        title.text or "": float(cell.get("x", "")) for cell in cells if (title := cell.find(f"{SVG}title")) is not None
    }


@pytest.mark.parametrize("name", ["pronunciation", "persian", "chinese", "into_persian"])
def test_pictures_are_drawn_as_they_were(name: str, request: pytest.FixtureRequest) -> None:
    drawn = svg(request.getfixturevalue(name), title=f"Attention: {name}")
    assert drawn == (GOLDEN / f"{name}.svg").read_text(encoding="utf-8")


def test_the_dark_picture_with_links_is_drawn_as_it_was(persian: Alignment) -> None:
    drawn = svg(persian, theme="dark", links=True, names=("Persian", "English"))
    assert drawn == (GOLDEN / "persian_dark_links.svg").read_text(encoding="utf-8")


def test_a_source_from_right_to_left_has_its_first_column_on_the_right(persian: Alignment) -> None:
    cells = cell_columns(svg(persian))
    assert cells["In → در: 0.750"] > cells["the → آغاز: 0.250"] > cells["was → کلمه: 0.750"]
    assert cell_columns(svg(persian, reading="ltr"))["In → در: 0.750"] < cells["In → در: 0.750"]
    assert "read right to left" in svg(persian)


def test_labels_from_right_to_left_say_so_and_are_anchored_at_their_visual_end(into_persian: Alignment) -> None:
    persian, english = label(svg(into_persian), "آغاز"), label(svg(into_persian), "beginning")
    assert (persian.get("direction"), persian.get("unicode-bidi")) == ("rtl", "embed")
    assert (
        persian.get("text-anchor") == "start"
    )  # rows are flush with the grid at their right end, where Persian starts
    assert (english.get("direction"), english.get("text-anchor")) == (None, "start")


def test_chinese_stays_text_from_left_to_right(chinese: Alignment) -> None:
    cells = cell_columns(svg(chinese))
    assert label(svg(chinese), "初").get("direction") is None
    assert cells["In → 太: 0.750"] < cells["beginning → 初: 0.750"]


def test_a_full_stop_follows_the_sentence_it_stands_in(persian: Alignment) -> None:
    assert [element.get("direction") for element in texts(svg(persian)) if element.text == "."] == [None, "rtl"]


@settings(max_examples=60, deadline=None)
@given(st.lists(ANY_TEXT, min_size=1, max_size=3), ANY_TEXT, ANY_TEXT)
def test_any_label_and_title_give_well_formed_xml_that_hides_nothing(labels: list[str], title: str, name: str) -> None:
    alignment = Alignment.of(labels, ["x"], [np.full(len(labels), 0.5)])
    for picture in (svg(alignment, title=title, names=(name, "y")), svg(alignment, title=title, theme="auto")):
        ElementTree.fromstring(picture)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\x00-\x09\x0b-\x1f]", picture)


def test_markup_in_a_label_is_text() -> None:
    picture = svg(Alignment.of(["<script>alert('x')</script>"], ['&amp;"'], [[1]]), title="</svg><b>")
    assert "<script" not in picture
    assert label(picture, "alert").text == "<script>alert('x')</script>"
    assert label(picture, "&amp;").text == '&amp;"'


def test_a_label_too_long_for_the_picture_keeps_its_whole_text_as_a_hint() -> None:
    element = label(svg(Alignment.of(["a" * 50], ["x"], [[1]])), "…")
    assert element.findtext(f"{SVG}title") == "a" * 50


def test_many_pieces_become_one_embedded_picture_with_every_few_labels() -> None:
    size = 100
    alignment = Alignment.of([f"s{i}" for i in range(size)], [f"t{i}" for i in range(size)], np.eye(size))
    picture = svg(alignment)
    assert picture.count("data:image/png;base64,") == 1
    assert len(picture) < 40_000
    assert 20 < sum(1 for element in texts(picture) if re.fullmatch(r"t\d+", element.text or "")) < size


def test_the_scale_goes_to_one_unless_asked_or_needed() -> None:
    half = Alignment.of("ab", "x", [[0.5, 0.25]])
    assert "1 all attention" in svg(half)
    assert "0.5 largest here" in svg(half, top=None)
    assert "0.6 attention weight" in svg(half, top=0.6)
    assert "2.5 largest here" in svg(Alignment.of("ab", "x", [[2.5, 0]]))
    with pytest.raises(UsageError, match=r"top=-1.0 is not a scale"):
        svg(half, top=-1.0)


def test_the_theme_that_follows_the_reader_has_both_palettes(pronunciation: Alignment) -> None:
    picture = svg(pronunciation, theme="auto")
    assert "prefers-color-scheme:dark" in picture
    assert 'class="fv-75"' in picture


def test_the_picture_says_in_words_what_it_shows(pronunciation: Alignment) -> None:
    root = ElementTree.fromstring(svg(pronunciation, title="foveate"))
    assert root.get("role") == "img"
    assert "foveate. 6 rows (target) by 7 columns (source). F looks at f (0.75)" in root.get("aria-label", "")


def test_nothing_comes_from_another_host(persian: Alignment) -> None:
    addresses = re.findall(r"https?://[^\"' ]+", svg(persian, theme="auto"))
    assert set(addresses) == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("theme", ["light", "auto"])
def test_hidden_cells_are_left_out_of_the_ground_and_zeros_are_not(theme: Any) -> None:
    alignment = Alignment.of("abc", "xy", [[1, 0, 0], [0, 1, 0]], [[True, True, False], [False, True, True]])
    picture = svg(alignment, theme=theme)
    zero, ground = ('class="fv-0"', 'class="fv-hidden"') if theme == "auto" else ('fill="#f7fafc"', 'fill="#eceae6"')
    cells = [rect for rect in re.findall(r"<rect [^>]*>", picture) if zero in rect and 'height="10"' not in rect]
    assert [float(re.findall(r' width="([\d.]+)"', rect)[0]) for rect in cells] == [44, 44]
    assert picture.count(ground) == 2  # below the cells, and in the legend
    assert "may not be looked at" in picture
    assert "M" in re.findall(r'<path d="([^"]*)"[^>]*(?:#b9b4aa|fv-hatch)', picture)[0]


def test_lines_of_the_hatching_stay_within_the_cells() -> None:
    picture = svg(Alignment.of("abc", "xy", np.zeros((2, 3)), np.zeros((2, 3), dtype=bool)))
    frame, hatch = re.findall(r'<rect (x[^>]*)fill="#eceae6"', picture)[0], re.findall(r'd="(M[^"]*)"', picture)[0]
    x, y, wide, high = (float(part) for part in re.findall(r'"([\d.]+)"', frame))
    points = [(float(a), float(b)) for a, b in re.findall(r"[ML]([\d.]+) ([\d.]+)", hatch)]
    assert all(x - 0.1 <= a <= x + wide + 0.1 and y - 0.1 <= b <= y + high + 0.1 for a, b in points)
    assert len(points) > 10


def test_an_empty_alignment_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to draw: 0 source and 1 target"):
        svg(Alignment.of("", "x", []))


def test_pictures_load_no_plotting_library_and_no_torch() -> None:
    code = "import sys, foveate.inspect; print(sorted({'torch', 'matplotlib', 'PIL'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
