import re
from pathlib import Path

import numpy as np
import pytest

from foveate.errors import UsageError
from foveate.inspect import Alignment, terminal
from foveate.inspect.caption import cell_width

GOLDEN = Path(__file__).parents[2] / "golden" / "figure"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", ["pronunciation", "persian", "chinese", "into_persian"])
@pytest.mark.parametrize("colour", [False, True])
def test_blocks_are_drawn_as_they_were(name: str, colour: bool, request: pytest.FixtureRequest) -> None:
    drawn = terminal(request.getfixturevalue(name), colour=colour, width=60)
    file = GOLDEN / f"{name}{'_colour' if colour else ''}.txt"
    assert drawn + "\n" == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [16, 20, 33, 80])
@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("name", ["pronunciation", "persian", "chinese"])
def test_panels_fit_the_terminal_and_show_every_column_once(
    name: str, colour: bool, width: int, request: pytest.FixtureRequest
) -> None:
    result = request.getfixturevalue(name)
    lines = ESCAPE.sub("", terminal(result, colour=colour, width=width)).split("\n")[:-1]
    grid = [line for line in lines if "right to left" not in line]
    assert max(cell_width(line) for line in grid) <= width


def test_a_narrow_terminal_gets_several_panels() -> None:
    alignment = Alignment.of(["a"] * 30, ["x"], [np.full(30, 0.25)])
    assert terminal(alignment, width=80).count("x ") == 1
    assert terminal(alignment, width=24).count("x ") == terminal(alignment, width=24).count("\n\n") + 1 == 3


def test_wide_characters_and_combining_marks_keep_the_columns_straight() -> None:
    alignment = Alignment.of(["注", "e\u0301", "b"], ["注意", "ab", "e\u0301"], np.eye(3))
    header, *rows = terminal(alignment).split("\n")[:4]
    assert [cell_width(row[: row.index("█")]) for row in rows] == [5, 7, 9]
    assert [cell_width(header[: header.index(character)]) for character in "注eb"] == [5, 7, 9]


def test_labels_whose_letters_join_are_numbered_and_listed(persian: Alignment) -> None:
    drawn = terminal(persian)
    assert "5 4 3 2 1" in drawn
    assert "1 در" in drawn
    assert "columns run from right to left" in drawn


def test_labels_that_are_too_long_to_stand_are_numbered_and_listed() -> None:
    alignment = Alignment.of(["antidisestablishmentarianism", "b"], ["x"], [[1, 0]])
    assert terminal(alignment).split("\n")[0].split() == ["1", "2"]
    assert "1 antidisestablishmentarianism  2 b" in terminal(alignment)


def test_more_than_a_hundred_columns_have_upright_numbers() -> None:
    alignment = Alignment.of(["antidisestablishmentarianism"] * 120, ["x"], [np.full(120, 1 / 120)])
    assert [line.split()[-1] for line in terminal(alignment).split("\n")[:3]] == ["1", "2", "0"]


def test_without_colour_no_escape_is_written_whatever_the_labels_hold() -> None:
    drawn = terminal(Alignment.of(["\x1b[31mred", "\u202e"], ["\x9b31m", "\r"], np.eye(2)))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", drawn)


def test_colours_are_reset_after_each_cell(pronunciation: Alignment) -> None:
    drawn = terminal(pronunciation, colour=True)
    assert drawn.count("\x1b[48;2;") == drawn.count("\x1b[0m") > 42


def test_what_is_hidden_and_what_is_not_a_number_look_like_no_weight() -> None:
    alignment = Alignment.of("abc", "xy", [[1, 0, 0], [np.nan, 1, 0]], [[True, True, False], [True, True, True]])
    drawn = terminal(alignment).split("\n")
    assert drawn[1:3] == ["x ██  ··", "y ××██"]
    assert drawn[-1] == "·· may not be looked at   ×× not a number"
    assert ESCAPE.sub("", terminal(alignment, colour=True)).split("\n")[1:3] == ["x     ··", "y ××    "]
    assert terminal(Alignment.of("a", "x", [[1]])).split("\n")[-1].startswith("0 not looked at")


def test_an_empty_alignment_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to draw"):
        terminal(Alignment.of("ab", "", []))


PATCHES = ["[class]", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]


def test_patches_are_drawn_as_they_lie_in_the_picture_with_a_line_for_the_class_token() -> None:
    alignment = Alignment.of(PATCHES, ["cat"], [[0.1, 0, 0.4, 0, 0.2, 0.3, 0]], grid=(2, 3))
    assert terminal(alignment, width=40).split("\n") == [
        "cat  [class] 0.100",
        "  0 1 2",
        "0   ██",
        "1 ▒▒▓▓",
        "0 not looked at  ░▒▓█  0.4 largest here",
    ]


def test_a_few_queries_of_a_picture_have_a_map_each_and_many_have_their_mean() -> None:
    few = Alignment.of(PATCHES, ["cat", "dog"], np.full((2, 7), 1 / 7), grid=(2, 3))
    assert [line for line in terminal(few).split("\n") if line[:3] in ("cat", "dog")] == [
        "cat  [class] 0.143",
        "dog  [class] 0.143",
    ]
    many = Alignment.of(PATCHES, PATCHES, np.eye(7), grid=(2, 3))
    assert terminal(many).split("\n")[0] == "mean of 7 queries  [class] 0.143"
    assert terminal(many.words()) == terminal(many)
    assert "mean of 7" not in terminal(many.without_specials().merge([(0, 7)], [(0, 7)]))


def test_a_patch_that_no_query_may_look_at_is_marked() -> None:
    visible = [[True, True, True, False]]
    alignment = Alignment.of(["0,0", "0,1", "1,0", "1,1"], ["cat"], [[0.5, 0.5, 0, 0]], visible, grid=(2, 2))
    assert terminal(alignment).split("\n")[3] == "1   ··"
