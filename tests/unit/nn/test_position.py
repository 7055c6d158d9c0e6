"""Position vectors. The lectures' table is tests/golden/test_lectures.py."""

import math

import pytest
import torch
from torch import Tensor

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


# The lectures' five criteria

CRITERIA = ("unique", "equal distance", "works for longer", "bounded", "deterministic")
OPTIONS: dict[str, tuple[PositionConfig, str]] = {
    "none": (NoneConfig(), "-++++"),
    "index": (IndexConfig(), "+++-+"),
    "unit_interval": (UnitIntervalConfig(), "+-+++"),
    "binary": (BinaryConfig(), "+--++"),
    "sinusoidal": (SinusoidalConfig(), "+++++"),
    "sinusoidal, base 100": (SinusoidalConfig(base=100.0), "+++++"),
    "learned": (LearnedConfig(max_length=64), "+--+-"),
    "rnn_made": (RNNMadeConfig(), "+-++-"),
}
"""What each option passes (+) and fails (-), in the order of CRITERIA. Only sinusoids pass all."""
WIDTH, SEEN, LONGER = {"binary": 8}, 64, 300


@torch.no_grad()
def vectors(name: str, length: int, seed: int = 0) -> Tensor:
    """The vectors of a whole sequence of this length."""
    torch.manual_seed(seed)
    module = OPTIONS[name][0].build(WIDTH.get(name, 64)).double()
    return module(torch.arange(length), torch.tensor([length])).double()


def is_unique(name: str) -> bool:
    """No two positions of a sequence have the same vector."""
    p = vectors(name, SEEN)
    return bool((torch.cdist(p, p) + torch.eye(SEEN)).min() > 1e-6)


def has_equal_distance(name: str) -> bool:
    """One step is the same distance everywhere, in sequences of every length."""
    steps = torch.cat([vectors(name, length).diff(dim=0).norm(dim=-1) for length in (10, 25, SEEN)])
    return bool((steps - steps[0]).abs().max() < 1e-5)


def works_for_longer(name: str) -> bool:
    """There is a vector for positions that no sequence has reached before."""
    try:
        return vectors(name, LONGER).shape[0] == LONGER
    except ValueError:
        return False


def is_bounded(name: str) -> bool:
    """Numbers do not grow with the length."""
    longest = LONGER if works_for_longer(name) else SEEN
    return bool(vectors(name, longest).abs().max() <= 1.0 + vectors(name, 10).abs().max())


def is_deterministic(name: str) -> bool:
    """The position alone decides: no training, no seed."""
    return torch.equal(vectors(name, SEEN, seed=1), vectors(name, SEEN, seed=2))


@pytest.mark.parametrize("name", OPTIONS)
def test_the_lectures_five_criteria(name: str) -> None:
    checks = (is_unique, has_equal_distance, works_for_longer, is_bounded, is_deterministic)
    found = {criterion: check(name) for criterion, check in zip(CRITERIA, checks, strict=True)}
    assert found == {criterion: mark == "+" for criterion, mark in zip(CRITERIA, OPTIONS[name][1], strict=True)}


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
        'Give the decoder others: target_position = { kind = "sinusoidal" }.'
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
