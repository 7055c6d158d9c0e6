"""Decoding a sentence gives the same, bit for bit, whatever is decoded beside it."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.decode import Average, BeamConfig, GreedyConfig, Hypothesis, SampleConfig, Wu, beam_size, decode

VOCAB = 300  # more than one block of candidates
SENTENCES = 12

CONFIGS = [
    GreedyConfig(max_length=12, no_repeat_ngram=2),
    SampleConfig(max_length=12, seed=3),
    SampleConfig(max_length=12, seed=4, top_k=20, top_p=0.9, temperature=1.5),
    BeamConfig(max_length=12, beam=4, num_best=4, length_penalty=Average(alpha=1.0)),
    BeamConfig(max_length=12, beam=3, num_best=2, length_penalty=Wu(alpha=0.6), min_length=2),
    BeamConfig(max_length=12, beam=2, num_best=2, length_penalty=None, no_repeat_ngram=1),
]


@dataclass(frozen=True)
class Recurrent:
    """A model whose logits depend on everything read so far. Each sentence begins with a number, its source.

    Hashing instead of arithmetic: no matrix product, whose rounding could depend on the batch, and many equal logits.
    """

    sources: Tensor

    def start(self, beam: int) -> Tensor:
        source = self.sources.repeat_interleave(beam)
        return torch.stack([source, source], dim=1)

    def step(self, state: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        source, read = state.unbind(1)
        read = (read * 48271 + token * 16807 + 12345) % 1_000_003
        logits = (read[:, None] * (torch.arange(VOCAB) + 17) % 1009 % 64).float() / 4
        logits[:, 2] = torch.where(
            source % 3 > 0, read % 5 * 5.0, -20.0
        )  # some sentences end soon, some late, some never
        return torch.stack([source, read], dim=1), logits

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[rows]


def decoded(config: GreedyConfig | BeamConfig | SampleConfig, sentences: list[int]) -> list[list[Hypothesis]]:
    sources = torch.tensor(sentences) * 7919 + 1
    stepper = Recurrent(sources)
    limits = 3 + sources % 10
    state = stepper.start(beam_size(config))
    return decode(stepper, state, sentences=len(sentences), config=config, max_length=limits, examples=sentences)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@settings(max_examples=25, deadline=None)
@given(batch=st.permutations(range(SENTENCES)), cut=st.integers(1, SENTENCES))
def test_a_sentence_is_decoded_alike_alone_and_in_any_company_and_order(config, batch, cut):
    together = decoded(config, batch[:cut])

    assert together == [decoded(config, [sentence])[0] for sentence in batch[:cut]]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_seats_give_what_the_definition_of_beam_search_gives_to_the_bit(data):
    beam = data.draw(st.integers(1, 6), label="beam")
    penalty = data.draw(st.sampled_from([None, Average(), Average(alpha=0.4), Wu()]), label="penalty")
    least = data.draw(st.integers(0, 2), label="min_length")
    config = BeamConfig(max_length=80, beam=beam, num_best=beam, length_penalty=penalty, min_length=least)
    sentences = data.draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=7), label="sentences")
    limits = [data.draw(st.integers(least + 1, 80), label="limit") for _ in sentences]
    stepper = Recurrent(torch.tensor(sentences))

    def searched() -> list[list[Hypothesis]]:
        state = stepper.start(beam)
        return decode(stepper, state, sentences=len(sentences), config=config, max_length=torch.tensor(limits))

    in_seats = searched()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foveate.decode.seat.Seats.serve", lambda *_: False)
        assert in_seats == searched()


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_toy_sentences_are_worth_a_law(config):
    """They end at different lengths, and the limit cuts some but not all."""
    found = [best[0] for best in decoded(config, list(range(SENTENCES)))]

    assert len({len(best.tokens) for best in found}) > 3
    assert {best.finished for best in found} == {True, False}


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_sentence_decoded_twice_in_a_batch_is_decoded_twice_alike(config):
    first, _, second = decoded(config, [5, 3, 5])

    assert first == second


def test_without_examples_the_noise_counts_sentences_from_0():
    stepper = Recurrent(torch.tensor([1, 1, 1]))
    config = SampleConfig(max_length=12, min_length=3)
    plain = decode(stepper, stepper.start(1), sentences=3, config=config)
    numbered = decode(stepper, stepper.start(1), sentences=3, config=config, examples=[0, 1, 2])

    assert plain == numbered
    assert plain[0] != plain[1]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**64), beam=st.integers(1, 6), num_best=st.integers(1, 6), length=st.integers(1, 15))
def test_every_hypothesis_keeps_its_promises(seed, beam, num_best, length):
    config = BeamConfig(beam=max(beam, num_best), num_best=num_best, max_length=length)
    stepper = Recurrent(torch.tensor([seed % 1_000_003]))

    [found] = decode(stepper, stepper.start(config.beam), sentences=1, config=config)

    assert [best.score for best in found] == sorted((best.score for best in found), reverse=True)
    for best in found:
        generated = len(best.tokens) + best.finished
        assert generated <= length
        assert best.finished or generated == length
        assert not set(best.tokens) & {0, 1, 2}
        assert best.score == pytest.approx(best.log_probability / generated, rel=1e-6)
