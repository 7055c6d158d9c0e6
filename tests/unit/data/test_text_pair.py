"""Pairs of texts as one row, told apart by segments; and messages about lines that are not pairs."""

from pathlib import Path

import pytest
import torch

from foveate.data.labelled import LabelledText, read_labelled
from foveate.data.line_encoding import SegmentEncoder
from foveate.data.text_pair import Segmented, joined, read_segmented, segments, split
from foveate.data.tokeniser import CharacterTokeniser
from foveate.errors import DataError


def test_a_line_is_a_pair_or_one_text_or_empty(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\ttwo\nalone\n\nthree\tfour\n")
    expected = [
        Segmented(1, ("one", "two")),
        Segmented(2, ("alone",)),
        Segmented(3, ()),
        Segmented(4, ("three", "four")),
    ]
    assert list(read_segmented(str(tmp_path / "a.tsv"), (0, 1))) == expected


def test_the_texts_stand_in_the_columns_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("label\tone\ttwo\n")
    assert list(read_segmented(str(tmp_path / "a.tsv"), (2, 1))) == [Segmented(1, ("two", "one"))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\tb\tc", r":1: the line has 3 columns .* but segments = \[0, 1\] asks for 2\. Write a pair"),
        ("a\t ", ":1: the line has an empty second text. Write two texts with a tab between them"),
        ("\tb", ":1: the line has an empty first text"),
    ],
)
def test_a_line_without_a_pair_is_named(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(f"{line}\n")
    with pytest.raises(DataError, match=message):
        list(read_segmented(str(tmp_path / "a.tsv"), (0, 1)))


def test_what_a_user_writes_is_split_at_its_tab() -> None:
    assert split("alone") == ("alone",)
    assert split("a\tb", needed=True) == ("a", "b")
    with pytest.raises(DataError, match=r"Text 2 has 1 part .* reads two\. Write the pair with one tab"):
        split("alone", where="Text 2", needed=True)
    with pytest.raises(DataError, match=r"has 3 parts .* reads one text, or two"):
        split("a\tb\tc")
    with pytest.raises(DataError, match="empty second text"):
        split("a\t")


def test_segments_change_after_the_first_end_and_a_model_with_one_kind_has_no_second() -> None:
    ids = torch.tensor([[1, 5, 2, 6, 6, 2], [1, 5, 5, 5, 2, 0]])
    assert segments(ids)[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert segments(ids)[1, :5].tolist() == [0] * 5
    assert not segments(ids, kinds=1).any()


def test_long_lines_are_left_out_whole_and_counted() -> None:
    tokeniser = CharacterTokeniser.train(["abc"])
    lines = [Segmented(1, ("a", "b")), Segmented(2, ("ab", "c")), Segmented(3, ()), Segmented(4, ("abc",))]
    block = SegmentEncoder(tokeniser, 4)(lines)
    assert [row.tolist() for row in block.arrays("")] == [joined(texts, tokeniser) for texts in (["a", "b"], ["abc"])]
    assert str(block.report) == "More than 4 tokens, left out: line 2."


def test_labelled_pairs_have_both_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("yes\tone\ttwo\n\nno \tthree\tfour\n")
    result = list(read_labelled(path, columns=(1, 0), second=2))
    assert result == [LabelledText(1, "one", "yes", "two"), LabelledText(3, "three", "no", "four")]
    assert result[0].whole == "one\ttwo"
    for line, message in [
        ("no\tone\t \n", "no second text"),
        ("no\t\ttwo\n", "no first text"),
        ("no\tone\n", "2 columns"),
    ]:
        path.write_text(line)
        with pytest.raises(DataError, match=rf"a\.tsv:1: .*{message}"):
            list(read_labelled(path, columns=(1, 0), second=2))
