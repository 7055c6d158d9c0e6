import itertools
import math

import pytest
import torch

from foveate.decode import Average, BeamConfig, GreedyConfig, Hypothesis, Wu, decode
from foveate.errors import DataError

END = 2
PENALTIES = [None, Average(alpha=1.0), Wu(alpha=0.7)]


def exhaustive(stepper, sentence, *, length, vocab, penalty, minimum=0):
    """Every sequence that is complete within the length, by score."""
    results = []
    words = [token for token in range(vocab) if token != END]
    for size in range(length + 1):
        for tokens in itertools.product(words, repeat=size):
            finished = size < length
            if finished and size < minimum:
                continue
            total = stepper.log_probability(sentence, (*tokens, END) if finished else tokens)
            divisor = penalty.divisor(size + finished) if penalty else 1.0
            if finished or size == length:
                results.append((total / divisor, tokens, finished))
    return sorted(results, reverse=True)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("minimum", [0, 2])
def test_a_beam_as_wide_as_everything_is_exhaustive_search(trigram, penalty, minimum):
    stepper = trigram(sentences=2, vocab=4, seed=3)
    config = BeamConfig(beam=3**4 * 4, num_best=12, length_penalty=penalty, min_length=minimum, max_length=4, forbid=())

    hypotheses = decode(stepper, stepper.start(config.beam), sentences=2, config=config)

    for sentence in range(2):
        expected = exhaustive(stepper, sentence, length=4, vocab=4, penalty=penalty, minimum=minimum)[:12]
        assert [(best.tokens, best.finished) for best in hypotheses[sentence]] == [row[1:] for row in expected]
        assert [best.score for best in hypotheses[sentence]] == pytest.approx([row[0] for row in expected], abs=1e-5)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("vocab", [6, 700])
def test_a_beam_of_one_is_greedy_decoding(trigram, penalty, vocab):
    stepper = trigram(sentences=3, vocab=6) if vocab == 6 else Wide(vocab)
    settings = {"max_length": 7, "min_length": 1, "no_repeat_ngram": 2}
    beam = decode(stepper, stepper.start(), sentences=3, config=BeamConfig(beam=1, length_penalty=penalty, **settings))
    greedy = decode(stepper, stepper.start(), sentences=3, config=GreedyConfig(**settings))

    assert [(best.tokens, best.finished) for [best] in beam] == [(best.tokens, best.finished) for [best] in greedy]
    assert [best.log_probability for [best] in beam] == [best.log_probability for [best] in greedy]


class Wide:
    """A vocabulary of several blocks. The logits are a random row for each last token and position."""

    def __init__(self, vocab):
        self.table = torch.randn(8, vocab, generator=torch.Generator().manual_seed(1))

    def start(self, beam=1):
        return torch.zeros(3 * beam, dtype=torch.int64)

    def step(self, state, token):
        return state + 1, self.table[(token + state) % 8].roll(int(state[0]), dims=-1)

    def select(self, state, rows):
        return state[rows]


def test_a_wider_beam_finds_the_beginning_that_greedy_decoding_misses(chain):
    stepper = chain({1: {3: 0.6, 4: 0.4}, 3: {2: 0.5, 5: 0.5}, 4: {2: 1.0}})
    config = BeamConfig(beam=2, length_penalty=None, forbid=(), max_length=5)

    [[best]] = decode(stepper, stepper.start(2), sentences=1, config=config)

    assert (best.tokens, best.finished) == ((4,), True)
    assert best.log_probability == pytest.approx(math.log(0.4))


def test_the_end_counts_in_the_length_that_is_divided_by(chain):
    stepper = chain({1: {3: 0.5, 4: 0.5}, 3: {2: 0.5, 5: 0.5}})
    config = BeamConfig(beam=4, num_best=4, length_penalty=Average(alpha=1.0), forbid=(), max_length=5)

    [hypotheses] = decode(stepper, stepper.start(4), sentences=1, config=config)

    assert Hypothesis((4,), hypotheses[0].score, hypotheses[0].log_probability, True) == hypotheses[0]
    assert hypotheses[0].score == pytest.approx(math.log(0.5) / 2)
    assert [best.tokens for best in hypotheses] == [(4,), (3, 5), (3,)]  # no fourth exists
    assert [best.score for best in hypotheses[1:]] == pytest.approx([math.log(0.25) / 3, math.log(0.25) / 2])


def test_hypotheses_come_best_first_and_are_all_different(trigram):
    stepper = trigram(sentences=4, seed=2)
    config = BeamConfig(beam=5, num_best=5, max_length=9)

    for hypotheses in decode(stepper, stepper.start(5), sentences=4, config=config):
        assert [best.score for best in hypotheses] == sorted((best.score for best in hypotheses), reverse=True)
        assert len({(best.tokens, best.finished) for best in hypotheses}) == len(hypotheses) == 5


def test_scores_are_the_models_log_probabilities_over_the_divisor(trigram):
    stepper = trigram(sentences=4, seed=2)
    config = BeamConfig(beam=3, num_best=3, max_length=6, min_length=2, length_penalty=Wu(alpha=0.8))

    for sentence, hypotheses in enumerate(decode(stepper, stepper.start(3), sentences=4, config=config)):
        for best in hypotheses:
            tokens = (*best.tokens, END) if best.finished else best.tokens
            assert best.log_probability == pytest.approx(stepper.log_probability(sentence, tokens), abs=1e-5)
            assert best.score == pytest.approx(best.log_probability / Wu(alpha=0.8).divisor(len(tokens)), abs=1e-6)


def test_hypotheses_that_the_limit_cut_are_not_finished(chain):
    stepper = chain({1: {3: 1.0}, 3: {4: 0.9, 2: 0.1}, 4: {3: 0.9, 2: 0.1}})
    config = BeamConfig(beam=2, num_best=2, length_penalty=None, forbid=(), max_length=3)

    [hypotheses] = decode(stepper, stepper.start(2), sentences=1, config=config)

    assert [(best.tokens, best.finished) for best in hypotheses] == [((3, 4, 3), False), ((3,), True)]


def test_equal_scores_are_ordered_by_place_in_the_beam_then_by_token(chain):
    stepper = chain({1: {5: 0.25, 4: 0.25, 3: 0.25, 2: 0.25}})
    config = BeamConfig(beam=4, num_best=4, length_penalty=None, forbid=(), max_length=4)

    [hypotheses] = decode(stepper, stepper.start(4), sentences=1, config=config)

    assert [best.tokens for best in hypotheses] == [(), (3,), (4,), (5,)]


def test_logits_that_are_not_numbers_stop_the_search_even_in_one_place_of_the_beam(chain):
    stepper = chain({1: {3: 0.6, 4: 0.4}, 3: {5: 1.0}, 5: {5: 1.0}})
    stepper.table[:, :, 4] = -torch.nan

    with pytest.raises(DataError, match="sentence 0 are not numbers"):
        decode(stepper, stepper.start(2), sentences=1, config=BeamConfig(beam=2, forbid=(), max_length=4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "beam must be at least 1"),
        ({"beam": 2, "num_best": 3}, "num_best must be between 1 and beam=2"),
    ],
)
def test_a_beam_that_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        BeamConfig(**settings)
