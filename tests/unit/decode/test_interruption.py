"""Decoding that is interrupted between two steps."""

import pytest

from foveate.decode import BeamConfig, GreedyConfig, SampleConfig, decode
from foveate.interruption import interruptible


@pytest.mark.parametrize("config", [GreedyConfig(forbid=(), max_length=8), BeamConfig(beam=2), SampleConfig()])
def test_every_step_asks_first_and_an_error_ends_the_search(config, chain):
    endless = chain({1: {3: 0.6, 4: 0.4}, 3: {3: 1.0}, 4: {4: 1.0}})
    questions = 0

    def third() -> None:
        nonlocal questions
        questions += 1
        if questions == 3:
            raise InterruptedError

    beam = getattr(config, "beam", 1)
    with pytest.raises(InterruptedError), interruptible(third):
        decode(endless, endless.start(beam), sentences=1, config=config, max_length=8)
    assert questions == 3
    decode(endless, endless.start(beam), sentences=1, config=config, max_length=8)
    assert questions == 3, "outside of it nobody is asked"
