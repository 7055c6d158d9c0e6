import math

import pytest
import torch

from foveate.decode import GreedyConfig, decode
from foveate.errors import DataError, UsageError

FREE = GreedyConfig(forbid=(), max_length=8)


def test_greedy_follows_the_most_probable_token_although_another_beginning_is_better(chain):
    stepper = chain({1: {3: 0.6, 4: 0.4}, 3: {2: 0.5, 5: 0.5}, 4: {2: 1.0}})

    [[hypothesis]] = decode(stepper, stepper.start(), sentences=1, config=FREE)

    assert hypothesis.tokens == (3,)
    assert hypothesis.finished
    assert hypothesis.score == hypothesis.log_probability == pytest.approx(math.log(0.6 * 0.5))


def test_of_equal_tokens_the_smallest_id_is_taken(chain):
    stepper = chain({1: {5: 0.25, 3: 0.25, 4: 0.25, 2: 0.25}, 3: {2: 1.0}})

    [[hypothesis]] = decode(stepper, stepper.start(), sentences=1, config=GreedyConfig(forbid=(2,), max_length=1))

    assert hypothesis.tokens == (3,)


def test_a_sentence_without_an_end_is_not_finished_and_has_all_tokens_of_its_limit(chain):
    stepper = chain({1: {3: 1.0}, 3: {4: 0.9, 2: 0.1}, 4: {3: 0.9, 2: 0.1}})

    [[hypothesis]] = decode(stepper, stepper.start(), sentences=1, config=FREE)

    assert hypothesis.tokens == (3, 4) * 4
    assert not hypothesis.finished


def test_the_end_counts_towards_the_limit_but_is_not_a_token(chain):
    stepper = chain({1: {3: 1.0}, 3: {4: 1.0}, 4: {2: 1.0}})

    [[hypothesis]] = decode(stepper, stepper.start(), sentences=1, config=FREE, max_length=3)
    [[cut]] = decode(stepper, stepper.start(), sentences=1, config=FREE, max_length=2)

    assert (hypothesis.tokens, hypothesis.finished) == ((3, 4), True)
    assert (cut.tokens, cut.finished) == ((3, 4), False)


def test_each_sentence_keeps_its_own_limit(trigram):
    stepper = trigram(sentences=4)
    config = GreedyConfig(forbid=(0, 1, 2), max_length=9)

    hypotheses = decode(stepper, stepper.start(), sentences=4, config=config, max_length=torch.tensor([1, 7, 3, 20]))

    assert [len(best.tokens) for [best] in hypotheses] == [1, 7, 3, 9]


def test_scores_are_the_models_log_probabilities_whatever_is_forbidden(trigram):
    stepper = trigram(sentences=5)
    config = GreedyConfig(forbid=(0, 1, 4), min_length=2, max_length=7)

    for sentence, [best] in enumerate(decode(stepper, stepper.start(), sentences=5, config=config)):
        tokens = (*best.tokens, 2) if best.finished else best.tokens
        assert best.log_probability == pytest.approx(stepper.log_probability(sentence, tokens), abs=1e-5)


def test_a_state_with_the_wrong_number_of_rows_is_refused(trigram):
    stepper = trigram(sentences=2)

    with pytest.raises(UsageError, match="logits for 6 rows instead of 2"):
        decode(Repeating(stepper, 3), stepper.start(), sentences=2, config=FREE)


class Repeating:
    """Gives every row's logits several times."""

    def __init__(self, stepper, times):
        self.stepper, self.times, self.select = stepper, times, stepper.select

    def step(self, state, token):
        state, logits = self.stepper.step(state, token)
        return state, logits.repeat(self.times, 1)


def test_logits_that_are_not_numbers_name_the_sentence(trigram):
    stepper = trigram(sentences=3)
    stepper.table[1] = torch.nan

    with pytest.raises(DataError, match="sentence 1 are not numbers"):
        decode(stepper, stepper.start(), sentences=3, config=FREE)


def test_a_sentence_for_which_every_token_is_forbidden_is_refused(trigram):
    stepper = trigram(sentences=1)

    with pytest.raises(UsageError, match="the constraints exclude every token of sentence 0"):
        decode(stepper, stepper.start(), sentences=1, config=GreedyConfig(forbid=(0, 1, 2, 3, 4, 5), max_length=3))


def test_no_sentences_give_no_hypotheses(trigram):
    stepper = trigram(sentences=1)

    assert decode(stepper, stepper.start(), sentences=0, config=FREE) == []


def test_sentences_that_are_done_are_dropped_from_the_batch(chain):
    """Nine sentences of ten are forced to end at once; the tenth goes on alone."""
    stepper = Counting(chain({1: {3: 1.0}, 3: {4: 1.0}, 4: {3: 1.0}}))
    prefix = torch.tensor([[2]] * 9 + [[-1]])

    hypotheses = decode(stepper, torch.zeros(10), sentences=10, config=FREE, prefix=prefix)

    assert stepper.rows == [10, 1, 1, 1, 1, 1, 1, 1]
    assert [len(best.tokens) for [best] in hypotheses] == [0] * 9 + [8]


class Counting:
    """Notes how many rows it is stepped with; all rows belong to the one table of its chain."""

    def __init__(self, chain):
        self.chain, self.rows = chain, []

    def step(self, state, token):
        self.rows.append(len(token))
        everywhere = torch.full_like(token, 0)
        _, logits = self.chain.step((everywhere, everywhere), token)
        return state, logits.clamp(min=-50)

    def select(self, state, rows):
        return state[rows]
