"""In flight a sentence is decoded as it is decoded alone, whatever arrives, ends and is dropped beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.data.batch import Batch
from foveate.decode import (
    Average,
    BeamConfig,
    DecodeConfig,
    Flight,
    GreedyConfig,
    Hypothesis,
    Limits,
    SampleConfig,
    Wu,
    beam_size,
    decode,
)
from foveate.models import TransformerConfig
from foveate.nn import BlockConfig, LearnedConfig

VOCAB = 300  # more than one block of candidates
SENTENCES = 9
CONFIGS = [
    GreedyConfig(max_length=12),
    GreedyConfig(max_length=12, min_length=2, no_repeat_ngram=2),
    SampleConfig(max_length=12, seed=4, top_k=20, top_p=0.9, temperature=1.5),
    BeamConfig(max_length=12, beam=4, num_best=4),
    BeamConfig(max_length=12, beam=3, num_best=2, length_penalty=Wu(alpha=0.6), min_length=2),
    BeamConfig(max_length=12, beam=2, num_best=2, length_penalty=None, no_repeat_ngram=1),
]


class Hashing:
    """A model whose logits depend on everything read so far, by integers, so that they are the same in any company."""

    def start(self, sources: Sequence[int], beam: int) -> Tensor:
        source = (torch.tensor(sources) * 7919 + 1).repeat_interleave(beam)
        return torch.stack([source, source], dim=1)

    def step(self, state: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        source, read = state.unbind(1)
        read = (read * 48271 + token * 16807 + 12345) % 1_000_003
        logits = (read[:, None] * (torch.arange(VOCAB) + 17) % 1009 % 64).float() / 4
        logits[:, 2] = torch.where(source % 3 > 0, read % 5 * 5.0, -20.0)
        return torch.stack([source, read], dim=1), logits

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[rows]

    def join(self, state: Tensor, later: Tensor) -> Tensor:
        return torch.cat([state, later])


def limits_of(sentence: int, config: DecodeConfig) -> Limits:
    """Limits of a sentence's own, which its number decides."""
    penalty = (None, Average(alpha=0.3), Wu())[sentence % 3] if isinstance(config, BeamConfig) else None
    seed = sentence % 4 if isinstance(config, SampleConfig) else None
    return Limits(
        max_length=3 + sentence * 5 % 9, length_penalty=penalty, seed=seed, example=sentence, size=sentence % 4
    )


def alone(model: Any, start: Callable[..., Any], source: Any, config: DecodeConfig, limits: Limits) -> list[Hypothesis]:
    """What a flight of one sentence's settings would give, by `decode` and the definition of its search."""
    own: Any = dict(vars(config))
    if limits.length_penalty is not None:
        own["length_penalty"] = limits.length_penalty
    if limits.seed is not None:
        own["seed"] = limits.seed
    config = type(config)(**own)
    begin = {} if limits.begin is None else {"begin": limits.begin}
    state = start([source], beam_size(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foveate.decode.seat.Seats.serve", lambda *_: False)
        [hypotheses] = decode(
            model, state, sentences=1, config=config, max_length=limits.max_length, examples=[limits.example], **begin
        )
    return hypotheses


@dataclass
class Trip:
    """A flight that records what arrives."""

    flight: Flight[Any]
    arrived: dict[int, list[Hypothesis]]

    def fly(self, ticks: int) -> None:
        for _ in range(ticks):
            for arrival in self.flight.tick():
                assert arrival.name not in self.arrived
                self.arrived[int(str(arrival.name))] = arrival.hypotheses

    def land(self) -> None:
        for _ in range(10_000):
            if not self.flight.waiting and not self.flight.flying:
                return
            self.fly(1)
        raise AssertionError("a sentence never ends")


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_a_sentence_in_flight_is_decoded_as_alone_to_the_bit(config, data):
    model = Hashing()
    capacity = data.draw(st.sampled_from([1, 2, 5, 16]), label="capacity")
    gather, patience = data.draw(st.integers(1, 4), label="gather"), data.draw(st.integers(1, 4), label="patience")
    order = data.draw(st.permutations(range(SENTENCES)), label="order")
    flight = Flight[int](model, model.start, config, capacity=capacity, gather=gather, patience=patience)
    trip, dropped = Trip(flight, {}), set()
    while order:
        count = data.draw(st.integers(1, 5), label="arriving")
        part, order = order[:count], order[count:]
        flight.admit(part, part, [limits_of(sentence, config) for sentence in part])
        trip.fly(data.draw(st.integers(0, 6), label="ticks"))
        assert flight.flying <= capacity
        unwanted = data.draw(st.lists(st.integers(0, SENTENCES - 1), max_size=SENTENCES), label="dropped")
        dropped |= set(unwanted) - set(order) - set(trip.arrived)
        flight.drop([sentence for sentence in unwanted if sentence not in order])
    trip.land()

    expected = [sentence for sentence in range(SENTENCES) if sentence not in dropped]
    assert sorted(trip.arrived) == expected
    for sentence in expected:
        assert trip.arrived[sentence] == alone(model, model.start, sentence, config, limits_of(sentence, config))


@pytest.mark.parametrize(
    "config", [*CONFIGS[:4:2], CONFIGS[3], GreedyConfig(max_length=12, no_repeat_ngram=2)], ids=str
)
def test_a_sentence_that_comes_after_all_others_were_dropped_is_decoded_as_alone(config):
    model = Hashing()
    flight = Flight[int](model, model.start, config, gather=1)
    trip = Trip(flight, {})
    flight.admit(range(6), range(6), [Limits(max_length=1 if number == 2 else 9) for number in range(6)])
    trip.fly(1)
    assert 2 in trip.arrived
    flight.drop([0, 1, 3, 4, 5])
    flight.admit([6], [6], [Limits(max_length=9)])
    trip.land()
    assert trip.arrived[6] == alone(model, model.start, 6, config, Limits(max_length=9))


def test_room_is_made_for_the_hypotheses_in_flight_and_not_for_those_that_were_dropped():
    model = Hashing()
    flight = Flight[int](model, model.start, BeamConfig(max_length=12), capacity=3)
    if flight._seats is None:
        pytest.skip("needs a C++ compiler")
    for number in range(30):
        flight.admit([number], [number])
        for _ in range(3):
            flight.tick()
        flight.drop([number])
        assert flight._seats.longest == 0


def test_a_flight_forgets_the_penalties_of_sentences_that_have_left():
    model, config = Hashing(), BeamConfig(max_length=12)
    flight = Flight[int](model, model.start, config, capacity=3)
    trip = Trip(flight, {})
    for number in range(40):
        limits = Limits(max_length=4, length_penalty=Average(alpha=number / 10))
        flight.admit([number], [number], [limits])
        trip.fly(2)
        if number % 10 == 0:
            trip.land()
            assert trip.arrived[number] == alone(model, model.start, number, config, limits)
    assert flight._seats is None or len(flight._seats._tables) <= 7


def test_short_sentences_come_first_but_a_long_one_does_not_wait_for_ever():
    model, config = Hashing(), GreedyConfig(max_length=2)
    flight = Flight[int](model, model.start, config, capacity=1, gather=1, patience=1)
    trip = Trip(flight, {})
    flight.admit([0, 1, 2], [3, 3, 3], [Limits(size=9), Limits(size=30), Limits(size=2)])
    for number in range(3, 400):  # more than can be decoded
        flight.admit([number], [number], [Limits(size=1)])
        trip.fly(1)
    order = list(trip.arrived)
    assert order.index(3) < order.index(2) < order.index(0) < order.index(1)


@pytest.mark.parametrize("config", [SampleConfig(max_length=12), GreedyConfig(max_length=12, no_repeat_ngram=2)])
def test_a_sentence_that_ends_at_the_last_position_does_not_end_the_flight(config):
    """Others began later and go on, where the model has no position for it any more."""
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8)
    torch.manual_seed(0)
    model = TransformerConfig(block=block, position=LearnedConfig(max_length=12)).build(20, 20).eval()
    flight = Flight(model, lambda rows, beam: model.start(Batch.of(rows), beam), config, capacity=16, gather=1, end=19)
    flight.admit(["old"], [[5, 2]])
    arrivals = [each for _ in range(6) for each in flight.tick()]
    flight.admit(range(9), [[7, 2]] * 9)
    while flight.waiting or flight.flying:
        arrivals += flight.tick()
    assert {each.name for each in arrivals} == {"old", *range(9)}
