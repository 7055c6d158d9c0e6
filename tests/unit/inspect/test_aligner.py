"""The word aligner that networks are compared with."""

import numpy as np
import pytest

from foveate.errors import DataError
from foveate.inspect.aligner import Aligner, align, diagonal

PAIRS = [
    (["la", "maison"], ["the", "house"]),
    (["la", "maison", "bleue"], ["the", "blue", "house"]),
    (["la", "fleur"], ["the", "flower"]),
]


def test_words_that_come_together_are_linked_also_where_the_order_differs() -> None:
    more = [*PAIRS, (["maison"], ["house"]), (["bleue"], ["blue"])]
    assert align(more, PAIRS[1:2]) == [{(0, 0), (1, 2), (2, 1)}]


def test_probabilities_of_a_source_word_sum_to_one() -> None:
    aligner = Aligner.train(PAIRS)
    totals = np.bincount(aligner.keys // len(aligner.target), aligner.theta)
    assert totals[totals > 0] == pytest.approx(1)


def test_one_iteration_of_model_1_by_hand() -> None:
    """From equal probabilities a target word shares itself out evenly: `the` gives ½ + ⅓ + ½ to `la`, of 3 in all."""
    aligner = Aligner.train(PAIRS, iterations=1, tension=0.0, nothing=0.0, smoothing=0.0)
    once = Aligner.train(PAIRS, iterations=0)
    assert np.all(once.theta == 1)
    table = dict(zip(aligner.keys.tolist(), aligner.theta.tolist(), strict=True))
    la = aligner.source["la"] * len(aligner.target)
    first = {"the": 4 / 9, "house": 5 / 18, "blue": 1 / 9, "flower": 1 / 6}
    # `iterations` counts each stage, and the second is model 1 too where λ = 0: counts of the second iteration by hand.
    maison = {"the": 5 / 12, "house": 5 / 12, "blue": 1 / 6}
    bleue = {"the": 1 / 3, "house": 1 / 3, "blue": 1 / 3}
    fleur = {"the": 1 / 2, "flower": 1 / 2}
    count = dict.fromkeys(first, 0.0)
    for others, words in (
        ([maison], ["the", "house"]),
        ([maison, bleue], ["the", "blue", "house"]),
        ([fleur], ["the", "flower"]),
    ):
        for word in words:
            count[word] += first[word] / (first[word] + sum(other[word] for other in others))
    for word, value in count.items():
        assert table[la + aligner.target[word]] == pytest.approx(value / sum(count.values()))


def test_words_it_has_never_met_are_linked_by_their_place() -> None:
    aligner = Aligner.train(PAIRS)
    assert (2, 2) in aligner(["x", "y", "z"], ["u", "v", "w"])


def test_the_diagonal_knows_nothing_but_lengths() -> None:
    assert diagonal(["a", "b"], ["u", "v", "w", "x"]) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert diagonal([], ["u"]) == set()
    assert diagonal(["a"], []) == set()


def test_a_pair_with_nothing_on_one_side_has_no_links_and_teaches_none() -> None:
    empty = [([], ["the"]), (["la"], []), ([], [])]
    assert align([*PAIRS, *empty], [*PAIRS, *empty]) == [*align(PAIRS, PAIRS), set(), set(), set()]
    with pytest.raises(DataError, match="No pair has words on both sides"):
        align(empty, PAIRS)
