from dataclasses import dataclass

import pytest
import torch

from foveate.config import build, to_dict
from foveate.decode import Average, BeamConfig, DecodeConfig, GreedyConfig, LengthPenalty, SampleConfig, Stepper, Wu
from foveate.search.decoding import LONGEST
from foveate.search.length_penalty import MOST


@dataclass(frozen=True, kw_only=True)
class Settings:
    decode: DecodeConfig = GreedyConfig()


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("greedy", GreedyConfig(max_length=9)),
        ("sample", SampleConfig(max_length=9)),
        ("beam", BeamConfig(max_length=9)),
    ],
)
def test_a_decoder_is_chosen_by_its_kind(kind, config):
    assert build(Settings, {"decode": {"kind": kind, "max_length": 9}}).decode == config


@pytest.mark.parametrize("penalty", [None, Average(alpha=0.5), Wu(alpha=0.9)])
def test_a_configuration_comes_back_from_its_plain_form(penalty):
    settings = Settings(decode=BeamConfig(beam=7, length_penalty=penalty, forbid=(0, 1, 3)))

    assert build(Settings, to_dict(settings)) == settings


def test_the_toy_models_are_steppers_and_the_penalties_penalties(trigram):
    assert isinstance(trigram(), Stepper)
    assert isinstance(Wu(), LengthPenalty)


@pytest.mark.parametrize("penalty", [Average, Wu])
def test_a_negative_alpha_is_refused(penalty):
    with pytest.raises(ValueError, match="alpha must not be negative"):
        penalty(alpha=-0.1)


@pytest.mark.parametrize("penalty", [Average, Wu])
def test_the_divisor_of_the_longest_sentence_is_a_number_of_float32(penalty):
    assert torch.tensor(penalty(alpha=MOST).divisor(LONGEST), dtype=torch.float32).isfinite()
    for alpha in (MOST + 0.1, float("inf")):
        with pytest.raises(ValueError, match="at most 6"):
            penalty(alpha=alpha)
