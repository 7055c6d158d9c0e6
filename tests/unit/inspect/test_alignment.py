import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import UsageError
from foveate.inspect import Alignment, terminal
from foveate.inspect.alignment import join_pieces, word_spans


@st.composite
def rows_of_one(draw: st.DrawFn) -> tuple[list[str], list[str], np.ndarray]:
    """Pieces and weights whose rows sum to one."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    pieces = st.text("▁ab", min_size=1, max_size=4)
    source = draw(st.lists(pieces, min_size=columns, max_size=columns))
    target = draw(st.lists(pieces, min_size=rows, max_size=rows))
    seed = draw(st.integers(0, 1000))
    return source, target, np.random.default_rng(seed).dirichlet(np.ones(columns), size=rows)


def test_hard_links_are_the_largest_weight_of_each_row_and_the_first_of_equals() -> None:
    alignment = Alignment.of("ab", "xyz", [[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    assert alignment.hard() == {(1, 0), (0, 1), (0, 2)}


def test_a_row_that_saw_nothing_has_no_link() -> None:
    assert Alignment.of("ab", "xy", [[0.0, 0.0], [0.0, 1.0]]).hard() == {(1, 1)}


def test_a_threshold_links_every_weight_that_reaches_it() -> None:
    alignment = Alignment.of("ab", "xy", [[0.5, 0.5], [0.6, 0.4]])
    assert alignment.hard(threshold=0.5) == {(0, 0), (1, 0), (0, 1)}


def test_a_threshold_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"threshold=0.0 .* above 0"):
        Alignment.of("a", "x", [[1]]).hard(threshold=0.0)


def test_pharaoh_writes_source_before_target_in_order() -> None:
    assert Alignment.of("ab", "xyz", [[0.1, 0.9], [1.0, 0.0], [0.0, 1.0]]).pharaoh() == "0-1 1-0 1-2"


def test_without_specials_links_point_at_words_only() -> None:
    alignment = Alignment.of(["a", "</s>"], ["<s>", "x", "</s>"], [[1.0, 0.0], [0.4, 0.6], [0.0, 1.0]])
    assert alignment.without_specials() == Alignment.of("a", "x", [[0.4]])


def test_entropy_is_zero_for_one_piece_and_the_logarithm_of_their_number_for_all() -> None:
    alignment = Alignment.of("abcd", "xyz", [[0.0, 1.0, 0.0, 0.0], [0.25] * 4, [0.0] * 4])
    assert alignment.entropy() == pytest.approx([0, np.log(4), 0])


def test_merging_sums_over_source_pieces_and_averages_over_target_pieces() -> None:
    alignment = Alignment.of(["▁a", "b", "▁c"], ["▁x", "y"], [[0.1, 0.3, 0.6], [0.5, 0.3, 0.2]])
    words = alignment.words()
    assert (words.source, words.target) == (("ab", "c"), ("xy",))
    assert words.weights == pytest.approx(np.array([[0.6, 0.4]], dtype=np.float32))


@given(rows_of_one())
def test_words_keep_rows_summing_to_one(given_rows: tuple[list[str], list[str], np.ndarray]) -> None:
    words = Alignment.of(*given_rows).words()
    assert words.weights.sum(axis=1) == pytest.approx(np.ones(len(words.target)), abs=1e-5)
    assert words.weights.shape == (len(words.target), len(words.source))


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁the", "▁c", "at", "</s>"], ["the", "cat", "</s>"]),
        (["the", "c@@", "at"], ["the", "cat"]),
        (["the", "c", "##at"], ["the", "cat"]),
        (["the", "Ġc", "at"], ["the", "cat"]),
        (list("a cat"), ["a", "cat"]),
        (["▁", "猫", "▁a"], ["猫", "a"]),
        (["▁打开", "文件", "，", "▁G", "IMP", "里"], ["打开", "文件", "，", "GIMP", "里"]),
        (["<2fa>", "a", "b", " c"], ["<2fa>", "ab", "c"]),
        (["▁caf", "<0xC3>", "<0xA9>"], ["café"]),
        (["▁a", "<unk>", "b"], ["a<unk>b"]),
        (["F", "OW1", "V"], ["F", "OW1", "V"]),
        (["#", "@@", "##"], ["#", "@@", "##"]),
        ([], []),
    ],
)
def test_pieces_of_each_tokeniser_become_its_words(pieces: list[str], words: list[str]) -> None:
    assert [join_pieces(pieces[begin:end]) for begin, end in word_spans(pieces)] == words


def test_spans_that_leave_a_gap_are_refused() -> None:
    with pytest.raises(UsageError, match=r"source spans .* do not cover its 3 pieces"):
        Alignment.of("abc", "x", [[1, 0, 0]]).merge([(0, 1), (2, 3)], [(0, 1)])


def test_labels_and_weights_must_agree() -> None:
    with pytest.raises(UsageError, match=r"shape \(1, 2\).*3 target and 2 source.*transpose"):
        Alignment.of("ab", "xyz", [[1, 0]])


@pytest.mark.parametrize("weight", [float("inf"), float("-inf"), -0.1])
def test_weights_must_be_bounded_and_not_negative(weight: float) -> None:
    with pytest.raises(UsageError, match="target 0 for source 1"):
        Alignment.of("ab", "x", [[0, weight]])


def test_a_weight_that_is_not_a_number_stays_one_and_is_never_linked() -> None:
    alignment = Alignment.of("abc", "xy", [[0.2, np.nan, 0.8], [np.nan] * 3])
    assert alignment.pharaoh() == "2-0"
    assert alignment.hard(by="source") == {(0, 0), (2, 0)}
    assert alignment.hard(0.1) == {(0, 0), (2, 0)}
    assert np.isnan(alignment.entropy()).all()
    assert np.isnan(alignment.merge([(0, 2), (2, 3)], [(0, 1), (1, 2)]).weights).tolist() == [
        [True, False],
        [True, True],
    ]
    assert "4 of the weights are not numbers" in alignment.describe()
    assert alignment == Alignment.of("abc", "xy", alignment.weights)


def test_what_is_hidden_goes_along_when_pieces_are_merged_or_left_out() -> None:
    visible = [[True, False, False, True], [True, True, False, True]]
    alignment = Alignment.of(["▁a", "▁b", "c", "</s>"], ["▁x", "▁y"], [[1, 0, 0, 0], [0.5, 0.5, 0, 0]], visible)
    assert alignment.without_specials().hidden.tolist() == [[False, True, True], [False, False, True]]
    assert alignment.words().hidden.tolist() == [[False, True, False], [False, False, False]]
    assert not Alignment.of("a", "x", [[1]]).hidden.any()
    assert alignment != Alignment.of(alignment.source, alignment.target, alignment.weights)


def test_a_hidden_pair_weighs_nothing(unchecked: None) -> None:
    assert Alignment.of("ab", "x", [[1, np.nan]], [[True, False]]).weights.tolist() == [[1, 0]]
    with pytest.raises(UsageError, match=r"target 0 may not look at source 1, but has the weight 0\.5"):
        Alignment.of("ab", "x", [[0.5, 0.5]], [[True, False]])
    with pytest.raises(UsageError, match=r"`visible` has shape \(1, 1\), but the weights have \(1, 2\)"):
        Alignment.of("ab", "x", [[0.5, 0.5]], [[True]])


def test_lift_counts_the_pieces_that_a_row_may_look_at() -> None:
    visible = np.tril(np.ones((4, 4), dtype=bool))
    alike = Alignment.of("abcd", "wxyz", visible / visible.sum(1, keepdims=True), visible)
    assert np.allclose(alike.lift(), visible)
    assert np.allclose(Alignment.of("abcd", "x", [[0.5, 0.5, 0, 0]]).lift(), [[2, 2, 0, 0]])


def test_lift_of_merged_pieces_compares_sums_with_their_equal_shares() -> None:
    alike = Alignment.of("abcd", "x", [[0.25] * 4])
    assert np.allclose(alike.merge([(0, 3), (3, 4)], [(0, 1)]).lift(), 1)
    alignment = Alignment.of("abcd", "x", [[0.5, 0.5, 0, 0]], [[True, True, True, False]])
    assert np.allclose(alignment.merge([(0, 1), (1, 4)], [(0, 1)]).lift(), [[1.5, 0.75]])
    assert np.allclose(Alignment.of(["a", "</s>"], "x", [[0.5, 0.5]]).without_specials().lift(), 1)


def test_an_alignment_says_what_it_holds_and_prints_as_its_picture() -> None:
    alignment = Alignment.of(["the", "cat"], ["le", "chat"], [[0.9, 0.1], [0.2, 0.8]])
    assert repr(alignment) == "<Alignment of 2 target pieces with 2 source pieces: le-the (0.90), chat-cat (0.80)>"
    assert str(alignment) == terminal(alignment)
    assert "and 4 more" in repr(Alignment.of("a" * 10, "b" * 10, np.eye(10)))
    assert repr(Alignment.of("ab", "", [])) == str(Alignment.of("ab", "", []))


def test_a_notebook_shows_an_alignment_as_a_picture_in_its_readers_theme() -> None:
    shown = Alignment.of("ab", "x", [[1, 0]])._repr_html_()
    assert shown is not None
    assert "<svg" in shown
    assert "prefers-color-scheme:dark" in shown
    assert Alignment.of("ab", "", [])._repr_html_() is None


def test_an_alignment_cannot_be_changed_through_the_array_it_was_made_of() -> None:
    weights = np.ones((1, 1), dtype=np.float32)
    alignment = Alignment(("a",), ("x",), weights)
    weights[:] = 0
    assert alignment.weights[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        alignment.weights[0, 0] = 0


def test_an_empty_sentence_has_an_empty_alignment() -> None:
    alignment = Alignment.of("ab", "", [])
    assert (alignment.weights.shape, alignment.pharaoh(), alignment.words().target) == ((0, 2), "", ())


def test_a_description_names_what_each_row_looks_at() -> None:
    alignment = Alignment.of(["un", "\u202e"], ["one", "two"], [[1.0, 0.0], [0.25, 0.75]]).describe()
    assert alignment == "2 rows (target) by 2 columns (source). one looks at un (1.00); two looks at \\u202e (0.75)."


def test_links_may_be_chosen_by_either_side_or_by_both() -> None:
    alignment = Alignment.of("ab", "xyz", [[0.6, 0.4], [0.9, 0.1], [0.3, 0.7]])
    assert alignment.hard(by="target") == {(0, 0), (0, 1), (1, 2)}
    assert alignment.hard(by="source") == alignment.hard(by="both") == {(0, 1), (1, 2)}
    assert alignment.hard(by="either") == alignment.hard()
    assert Alignment.of("ab", "", []).hard(by="source") == set()
