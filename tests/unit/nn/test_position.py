"""Position vectors. The lectures' table is tests/golden/test_lectures.py."""

import math

import pytest
import torch

from foveate.nn import LearnedConfig, LearnedPosition, Sinusoid, SinusoidalConfig


def test_interleaved_and_in_blocks_are_the_same_numbers_in_another_order() -> None:
    place = torch.arange(10)
    interleaved, blocks = Sinusoid(8)(place), Sinusoid(8, layout="blocks")(place)
    assert torch.equal(blocks, torch.cat([interleaved[:, ::2], interleaved[:, 1::2]], -1))


def test_every_entry_is_the_formula_also_far_out() -> None:
    place = torch.tensor([0, 1, 63, 64, 9999])
    table = Sinusoid(6, base=500.0)(place)
    for row, position in zip(table.tolist(), place.tolist(), strict=True):
        for j in range(3):
            angle = position * 500.0 ** (-2 * j / 6)
            assert row[2 * j] == pytest.approx(math.sin(angle), abs=1e-7)
            assert row[2 * j + 1] == pytest.approx(math.cos(angle), abs=1e-7)


def test_the_table_grows_and_keeps_its_rows() -> None:
    position = Sinusoid(4)
    before = position(torch.arange(64))
    assert position(torch.tensor([[500]])).shape == (1, 1, 4)
    assert len(position.table) > 500
    assert torch.equal(position(torch.arange(64)), before)
    assert position(torch.zeros(0, dtype=torch.int64)).shape == (0, 4)
    assert position.max_length is None
    assert position.state_dict() == {}  # a function, not a parameter


def test_the_table_follows_the_dtype_of_the_model() -> None:
    position = Sinusoid(4).to(torch.bfloat16)
    assert position(torch.tensor([200])).dtype == torch.bfloat16


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ValueError, match="even") as refusal:
        Sinusoid(5)
    assert str(refusal.value) == "Sinusoidal positions pair sines with cosines: model_dim=5 must be even."


def test_learned_positions_end() -> None:
    position = LearnedPosition(4, max_length=6)
    assert position(torch.arange(6)).shape == (6, 4)
    with pytest.raises(ValueError, match="position") as refusal:
        position(torch.tensor([2, 6]))
    assert str(refusal.value) == (
        "The model has learned positions 0 to 5, but the input reaches position 6. "
        "Shorten the input, or train with a larger position.max_length."
    )


def test_configurations_build_them() -> None:
    assert repr(SinusoidalConfig(base=100.0, layout="blocks").build(6)) == "Sinusoid(6, base=100, layout='blocks')"
    assert LearnedConfig(max_length=9).build(6).max_length == 9
