import pytest

from foveate.errors import DataError
from foveate.metrics import Links, alignment_error_rate, link_scores, parse_naacl, parse_pharaoh

GOLD = Links.of(sure={(0, 0), (1, 1)}, possible={(2, 2), (2, 3)})


@pytest.mark.parametrize(
    ("predicted", "value"),
    [
        ({(0, 0), (1, 1)}, 0.0),
        ({(0, 0), (1, 1), (2, 3)}, 0.0),
        ({(0, 0)}, 100 * (1 - 2 / 3)),
        ({(0, 0), (1, 1), (5, 5)}, 100 * (1 - 4 / 5)),
        ({(2, 2)}, 100 * (1 - 1 / 3)),
        (set(), 100.0),
        ({(7, 7)}, 100.0),
    ],
)
def test_possible_links_cost_nothing_and_missing_sure_links_do(predicted, value):
    assert alignment_error_rate([predicted], [GOLD]).value == pytest.approx(value)


def test_counts_are_summed_over_the_corpus():
    score = alignment_error_rate([{(0, 0), (1, 1)}, {(0, 0)}], [GOLD, Links.of({(1, 1)})])

    assert score.value == pytest.approx(100 * (1 - 4 / 6))
    assert not score.higher_is_better


def test_the_signature_says_whether_possible_links_were_marked():
    assert alignment_error_rate([set()], [GOLD]).signature == "links:sure+possible"
    assert alignment_error_rate([set()], [Links.of({(0, 0)})]).signature == "links:sure"


def test_pharaoh_lines_are_read_and_written():
    text = ["0-0 1?2 10-11", "", "2-0"]
    links = parse_pharaoh(text)

    assert links[0] == Links.of({(0, 0), (10, 11)}, {(1, 2)})
    assert [str(line) for line in links] == text
    assert parse_pharaoh(["1p2"]) == parse_pharaoh([" 1?2\n"])


def test_naacl_lines_count_from_1_and_leave_the_empty_word_out():
    lines = ["0001 1 1 S", "0001 2 3 P", "", "0003 3 1", "0003 0 2 S", "0003 2 0"]

    assert [str(links) for links in parse_naacl(lines, sentences=3)] == ["0-0 1?2", "", "2-0"]


@pytest.mark.parametrize("text", ["0-", "a-b", "0--1", "0,1", "-1-0", "0-0-0"])
def test_an_invalid_pharaoh_link_is_named_with_its_line(text):
    with pytest.raises(DataError, match=r"gold.txt:2: '.*' is not a link"):
        parse_pharaoh(["0-0", f"1-1 {text}"], where="gold.txt")


@pytest.mark.parametrize(
    ("line", "message"),
    [("1 2", "is not a link"), ("1 2 3 X", "is not a link"), ("4 1 1", "sentence 4 does not exist")],
)
def test_an_invalid_naacl_link_is_named_with_its_line(line, message):
    with pytest.raises(DataError, match=f"gold.txt:2: .*{message}"):
        parse_naacl(["1 1 1", line], sentences=3, where="gold.txt")


def test_unequal_counts_and_corpora_without_links_are_refused():
    with pytest.raises(DataError, match="1 hypothesis but 2 references"):
        alignment_error_rate([set()], [GOLD, GOLD])
    with pytest.raises(DataError, match="neither the prediction nor the gold alignment has a link"):
        alignment_error_rate([set()], [Links.of(())])


def test_the_error_lies_between_precision_and_recall() -> None:
    """Three links predicted, two of them possible and one of these sure, of two sure ones: by hand."""
    error, precision, recall = link_scores([{(0, 0), (2, 2), (9, 9)}], [GOLD])
    assert error.value == pytest.approx(100 * (1 - (1 + 2) / (3 + 2)))
    assert (precision.name, precision.value) == ("precision", pytest.approx(100 * 2 / 3))
    assert (recall.name, recall.value) == ("recall", pytest.approx(100 / 2))
    assert precision.higher_is_better
    assert recall.higher_is_better


def test_where_nothing_is_predicted_precision_is_nought() -> None:
    assert [score.value for score in link_scores([set()], [GOLD])] == [100, 0, 0]


def test_an_invalid_link_is_named_by_its_line_number() -> None:
    with pytest.raises(DataError, match=r"^links:7: 'x' is not a link"):
        parse_pharaoh(["x"], "links", first=7)


def test_a_number_of_any_length_is_not_a_link() -> None:
    huge = "9" * 5_000
    with pytest.raises(DataError, match="is not a link"):
        parse_pharaoh([f"{huge}-0"])
    with pytest.raises(DataError, match="is not a link"):
        parse_naacl([f"1 {huge} 1"], 1)
