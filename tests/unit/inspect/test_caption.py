import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.inspect.caption import cell_width, clusters, fit, joins, printable, reading_direction

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\u202eevil", "\\u202eevil"),
        ("\u2066", "\\u2066"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb", "a\\nb"),
        ("\ud800", "\\ud800"),
        ("\ufffe", "\\ufffe"),
        ("\U000e0001", "\\U000e0001"),
        ("a\xa0b", "a\\xa0b"),
        ("\u2028", "\\u2028"),
        (" the ", "␣the␣"),
        ("  ", "␣␣"),
        ("a b", "a b"),
        ("\u0301", "◌\u0301"),
        ("می\u200cروم", "می\u200cروم"),
        ("\u200d", "\\u200d"),
        ("", "∅"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANY_TEXT)
def test_nothing_printable_can_control_a_terminal_or_reorder_text(text: str) -> None:
    shown = printable(text)
    assert all(unicodedata.category(c) not in {"Cc", "Cs", "Zl", "Zp"} for c in shown)
    assert all(unicodedata.category(c) != "Cf" or c in "\u200c\u200d" for c in shown)
    assert shown.encode("utf-8")


@pytest.mark.parametrize(
    ("labels", "direction"),
    [
        (["The", "cat"], "ltr"),
        (["در", "آغاز", "OK"], "rtl"),
        (["שלום", "."], "rtl"),
        (["太", "初"], "ltr"),
        (["1", "."], "ltr"),
        (["سر", "</s>", "<unk>"], "rtl"),
    ],
)
def test_a_sequence_reads_as_most_of_its_strong_characters_do(labels: list[str], direction: str) -> None:
    assert reading_direction(labels) == direction


def test_the_reading_direction_can_be_decided_by_hand() -> None:
    assert reading_direction(["در"], "ltr") == "ltr"


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("abc", 3),
        ("注意", 4),
        ("ｱ", 1),
        ("Ａ", 2),
        ("e\u0301", 1),
        ("می\u200cروم", 5),
        ("👩‍💻", 2),
        ("❤️", 2),
        ("한", 2),
        ("", 0),
    ],
)
def test_width_counts_terminal_columns(text: str, width: int) -> None:
    assert cell_width(text) == width


@given(ANY_TEXT, st.integers(1, 10))
def test_text_that_is_cut_fits_and_keeps_its_characters_whole(text: str, width: int) -> None:
    cut = fit(text, width)
    assert cell_width(cut) <= width
    assert cut == text or clusters(cut[:-1]) == clusters(text)[: len(clusters(cut[:-1]))]


def test_arabic_letters_join_and_hebrew_letters_do_not() -> None:
    assert (joins("کلمه"), joins("و"), joins("שלום"), joins("word")) == (True, False, False, False)
