import pytest
import torch

from foveate.decode import BeamConfig, Constraints, GreedyConfig, SampleConfig, beam_size, decode
from foveate.decode.constraint import constrained
from foveate.errors import UsageError

CONFIGS = [GreedyConfig, BeamConfig, SampleConfig]


def decoded(stepper, config, sentences=4, **settings):
    state = stepper.start(beam_size(config))
    return [hypotheses[0] for hypotheses in decode(stepper, state, sentences=sentences, config=config, **settings)]


@pytest.mark.parametrize("config", CONFIGS)
def test_forbidden_tokens_are_never_produced(trigram, config):
    for hypothesis in decoded(trigram(sentences=4), config(forbid=(0, 1, 3), max_length=12)):
        assert set(hypothesis.tokens) <= {4, 5}


@pytest.mark.parametrize("config", CONFIGS)
def test_no_sentence_ends_before_its_minimum(trigram, config):
    stepper = trigram(sentences=4)
    stepper.table[..., 2] += 30

    assert all(len(hypothesis.tokens) == 0 for hypothesis in decoded(stepper, config(max_length=9)))
    assert all(len(hypothesis.tokens) >= 4 for hypothesis in decoded(stepper, config(min_length=4, max_length=9)))


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_n_gram_occurs_twice(trigram, config, size):
    stepper = trigram(sentences=4, vocab=7)
    stepper.table[..., 2] -= 2
    for hypothesis in decoded(stepper, config(no_repeat_ngram=size, max_length=12)):
        tokens = hypothesis.tokens
        ngrams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
        assert len(ngrams) == len(set(ngrams))


@pytest.mark.parametrize("config", CONFIGS)
def test_a_prefix_is_kept_even_where_it_breaks_other_constraints(trigram, config):
    prefix = torch.tensor([[3, 3, 3], [0, -1, -1], [4, 2, -1], [-1, -1, -1]])

    hypotheses = decoded(trigram(sentences=4), config(no_repeat_ngram=1, min_length=2, max_length=6), prefix=prefix)
    free = decoded(trigram(sentences=4), config(no_repeat_ngram=1, min_length=2, max_length=6))

    assert hypotheses[0].tokens[:3] == (3, 3, 3)
    assert hypotheses[1].tokens[0] == 0
    assert (hypotheses[2].tokens, hypotheses[2].finished) == ((4,), True)
    assert hypotheses[3] == free[3]


def test_constrained_scores_are_log_probabilities_that_are_not_renormalised():
    logits = torch.tensor([[1.0, 2.0, 3.0, 4.0]])

    scores = constrained(logits, torch.zeros((1, 0), dtype=torch.int64), constraints=Constraints(), prefix=None, end=2)

    assert scores[0, :2].tolist() == [-torch.inf] * 2
    assert torch.equal(scores[0, 2:], logits.log_softmax(-1)[0, 2:])
    assert torch.equal(logits, torch.tensor([[1.0, 2.0, 3.0, 4.0]]))  # the model's own tensor is left alone


@pytest.mark.parametrize("config", CONFIGS)
def test_a_length_beyond_the_models_positions_is_refused_by_name(trigram, config):
    with pytest.raises(UsageError, match="max_length is 40 tokens, but the model represents 32 positions"):
        decoded(trigram(sentences=4, max_length=32), config(max_length=40))

    assert decoded(trigram(sentences=4, max_length=32), config(max_length=40), max_length=32)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": torch.tensor([3, 3])}, "max_length is for 2 sentences, but there are 4"),
        ({"prefix": torch.zeros((3, 1), dtype=torch.int64)}, "prefix is for 3 sentences, but there are 4"),
        ({"examples": [1, 2]}, "examples is for 2 sentences, but there are 4"),
        ({"max_length": 2}, "min_length is 2, but a sentence may have only 2 tokens with its end"),
        ({"max_length": 3, "prefix": torch.full((4, 5), 3)}, "a prefix has 5 tokens, more than its sentence's limit"),
    ],
)
def test_a_request_that_cannot_be_kept_is_refused(trigram, settings, message):
    with pytest.raises(UsageError, match=message):
        decoded(trigram(sentences=4), GreedyConfig(min_length=2, max_length=9), **settings)


def test_a_forbidden_token_outside_the_vocabulary_is_refused(trigram):
    with pytest.raises(UsageError, match="token 6 is forbidden, but the model's tokens are 0 to 5"):
        decoded(trigram(sentences=4), GreedyConfig(forbid=(6,)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": 0}, "max_length must be at least 1"),
        ({"min_length": 5, "max_length": 5}, "min_length must leave room for the end within max_length=5"),
        ({"min_length": -1}, "min_length"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram is a number of tokens"),
        ({"forbid": (-1,)}, "forbid names token ids"),
    ],
)
def test_constraints_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Constraints(**settings)
