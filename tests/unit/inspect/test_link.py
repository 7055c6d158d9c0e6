"""From words to pieces, and from two directions to one."""

import pytest

from foveate.errors import DataError
from foveate.inspect.link import piece_links, symmetrise, text_spans

FORWARD = {(0, 0), (1, 1), (2, 1), (4, 4)}
BACKWARD = {(0, 0), (1, 1), (1, 2), (5, 5)}


def test_words_are_what_spaces_separate_whatever_the_pieces_are() -> None:
    assert text_spans(["▁un", "seen", "▁things"], "unseen things") == ((0, 2), (2, 3))
    assert text_spans(["un@@", "seen", "things"], "unseen  things") == ((0, 2), (2, 3))
    assert text_spans(list("a bc"), "a bc") == ((0, 1), (1, 4))
    assert text_spans(["those", "words"], "those words") == ((0, 1), (1, 2))


def test_a_single_word_needs_no_marks_and_nothing_has_no_words() -> None:
    assert text_spans(["u", "n"], "un") == ((0, 2),)
    assert text_spans([], " ") == ()


def test_pieces_of_white_space_belong_to_no_word() -> None:
    assert text_spans(["▁a", "▁", "▁b"], "a b") == ((0, 1), (2, 3))


def test_words_that_were_run_together_are_refused() -> None:
    with pytest.raises(DataError, match=r"makes 1 words of the 2 in 'New York'"):
        text_spans(["▁New", "York"], "New York")


def test_every_piece_has_the_links_of_its_word() -> None:
    assert piece_links([(0, 0), (1, 0)], [(0, 2), (2, 3)], [(1, 3)]) == [
        *((0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)),
    ]


def test_two_directions_become_one() -> None:
    common = {(0, 0), (1, 1)}
    assert symmetrise(FORWARD, BACKWARD, "intersection") == common
    assert symmetrise(FORWARD, BACKWARD, "union") == FORWARD | BACKWARD
    assert symmetrise(FORWARD, BACKWARD, "grow_diag") == common | {(2, 1), (1, 2)}
    assert symmetrise(FORWARD, BACKWARD, "grow_diag_final_and") == FORWARD | BACKWARD


def test_final_adds_what_has_one_free_end_and_final_and_what_has_two() -> None:
    forward, backward = {(0, 0), (0, 3)}, {(0, 0), (3, 3)}
    assert symmetrise(forward, backward, "grow_diag") == {(0, 0)}
    assert symmetrise(forward, backward, "grow_diag_final") == {(0, 0), (0, 3), (3, 3)}
    assert symmetrise(forward, backward, "grow_diag_final_and") == {(0, 0), (3, 3)}
