"""Position vectors. The lectures' table is tests/golden/test_lectures.py."""

import math
from dataclasses import fields
from typing import Any

import pytest
import torch

from foveate.nn import (
    BinaryCode,
    BinaryConfig,
    IndexConfig,
    LearnedConfig,
    LearnedPosition,
    NoneConfig,
    NoPosition,
    PositionConfig,
    PositionIndex,
    RNNMade,
    RNNMadeConfig,
    Sinusoid,
    SinusoidalConfig,
    UnitInterval,
    UnitIntervalConfig,
)
from foveate.nn.criterion import TRAINED, Criteria, criteria


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


def test_the_table_may_be_exchanged_by_another_thread_while_it_grows() -> None:
    class Raced(Sinusoid):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value[:64] if name == "table" else value)

    position = torch.arange(500)
    torch.testing.assert_close(Raced(4)(position), Sinusoid(4)(position))


def test_the_table_follows_the_dtype_of_the_model() -> None:
    position = Sinusoid(4).to(torch.bfloat16)
    assert position(torch.tensor([200])).dtype == torch.bfloat16


def test_the_table_is_exact_again_after_a_visit_to_another_dtype() -> None:
    position, places = Sinusoid(16), torch.arange(200)
    before = position(places).clone()
    position.bfloat16().float()
    assert torch.equal(position(places), before)
    with torch.device("meta"):
        empty = Sinusoid(16)
    assert torch.equal(empty.to_empty(device="cpu")(places), before)


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


def test_configurations_build_all_positions() -> None:
    assert repr(SinusoidalConfig(base=100.0, layout="blocks").build(6)) == "Sinusoid(6, base=100, layout='blocks')"
    assert LearnedConfig(max_length=9).build(6).max_length == 9


# The lectures' five criteria

OPTIONS: dict[str, tuple[PositionConfig, str]] = {
    "none": (NoneConfig(), "-++++"),
    "index": (IndexConfig(), "+++-+"),
    "unit_interval": (UnitIntervalConfig(), "+-+++"),
    "binary": (BinaryConfig(), "+--++"),
    "sinusoidal": (SinusoidalConfig(), "+++++"),
    "sinusoidal, base 100": (SinusoidalConfig(base=100.0), "+++++"),
    "learned": (LearnedConfig(max_length=TRAINED), "+--+-"),
    "rnn_made": (RNNMadeConfig(), "+-++-"),
}
"""What each option passes (+) and fails (-), in the order of `Criteria`. Only sinusoids pass all."""


@pytest.mark.parametrize("name", OPTIONS)
def test_position_vectors_meet_the_lectures_five_criteria(name: str) -> None:
    config, marks = OPTIONS[name]
    result = criteria(config, model_dim=8 if name == "binary" else 64)
    assert result == Criteria(**{field.name: mark == "+" for field, mark in zip(fields(Criteria), marks, strict=True)})


def test_trying_the_criteria_leaves_the_seed_as_it_was() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    criteria(LearnedConfig(max_length=TRAINED))
    assert torch.equal(torch.rand(1), expected)


def test_a_step_between_zero_and_one_is_shorter_in_a_longer_sentence() -> None:
    place = torch.tensor([0, 1, 2, 0, 1, 2, 3, 4])
    length = torch.tensor([3, 3, 3, 5, 5, 5, 5, 5])
    expected = torch.tensor([0, 0.5, 1, 0, 0.25, 0.5, 0.75, 1])
    assert torch.equal(UnitInterval(2)(place, length), expected[:, None].expand(-1, 2))
    assert UnitInterval(1)(torch.tensor([0]), torch.tensor([1])).item() == 0.0


def test_positions_between_zero_and_one_need_the_length() -> None:
    with pytest.raises(ValueError, match="length") as refusal:
        UnitInterval(4)(torch.arange(3))
    assert str(refusal.value) == (
        "Positions between 0 and 1 need the length of the sequence, which a decoder does not know. "
        'Give the decoder other positions: target_position = { kind = "sinusoidal" }.'
    )


def test_binary_digits_end() -> None:
    assert BinaryCode(3)(torch.tensor([[5], [7]])).tolist() == [[[1, 0, 1]], [[1, 1, 1]]]
    assert BinaryCode(70)(torch.tensor([3])).sum() == 2
    assert (BinaryCode(3).max_length, BinaryCode(70).max_length) == (8, None)
    with pytest.raises(ValueError, match="digits") as refusal:
        BinaryCode(3)(torch.tensor([8]))
    assert str(refusal.value) == (
        "Position 8 has more binary digits than the model has features (3). Shorten the input, or widen the model."
    )


def test_a_recurrent_networks_positions_are_its_states_one_after_the_other() -> None:
    position = RNNMade(5)
    state = position.start
    for place in range(4):
        state = position.cell(position.input, state)
        torch.testing.assert_close(position(torch.tensor([[place]]))[0, 0], state)
    assert position(torch.zeros(0, dtype=torch.int64)).shape == (0, 5)
    position(torch.arange(4)).sum().backward()
    assert all(parameter.grad is not None for parameter in position.parameters())


def test_the_number_itself_and_nothing() -> None:
    assert PositionIndex(2)(torch.tensor([0, 7])).tolist() == [[0, 0], [7, 7]]
    assert NoPosition(2)(torch.tensor([0, 7])).tolist() == [[0, 0], [0, 0]]
