"""Where queries and keys stand."""

import copy
from dataclasses import replace

import pytest
import torch

import foveate.attention.paths.hidden
import foveate.attention.position
from foveate.attention import (
    Alibi,
    Attention,
    Gaussian,
    Positions,
    RelativeBuckets,
    Visibility,
    around,
    causal,
    chunk,
    dilated,
    edges,
    padding,
    predicate,
    window,
)
from foveate.attention.paths.hidden import mask_of
from foveate.attention.position import FACTS


def test_queries_count_from_their_start_and_keys_from_zero() -> None:
    at = Positions.of(2, 4, query_start=3)
    assert at.query.flatten().tolist() == [3, 4]
    assert at.key.flatten().tolist() == [0, 1, 2, 3]
    assert at.query.shape == (1, 1, 2, 1)
    assert at.key.shape == (1, 1, 1, 4)
    assert at.real is None


SMALL = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32]


@pytest.mark.parametrize("kind", SMALL, ids=str)
def test_positions_of_small_whole_numbers_do_not_wrap_around(kind: torch.dtype) -> None:
    place = torch.arange(120)
    at = Positions(place.to(kind)[None, None, :, None], place.to(kind)[None, None, None])
    wide = Positions.of(120, 120)
    near, gaps = window(left=3, right=2), dilated(left=4, right=4, step=2)
    for rule in (near, causal(), gaps, chunk(3), edges([[0, 1], [5, 2]])):
        assert torch.equal(rule(at).expand(1, 1, 120, 120), rule(wide).expand(1, 1, 120, 120)), rule
    for bias in (Alibi(2), Gaussian(sigma=2.0), RelativeBuckets(num_heads=2)):
        assert torch.equal(bias(at), bias(wide)), bias
    far = Positions(torch.full((1, 1, 1, 1), 100_000, dtype=torch.int32), torch.zeros(1, 1, 1, 1, dtype=torch.int32))
    assert Gaussian(sigma=1.0)(far).item() == -5e9


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
def test_lengths_of_small_whole_numbers_do_not_wrap_around(kind: torch.dtype, side: str) -> None:
    lengths = torch.tensor([3, 100, 0])
    small = Positions.of(300, 300, key_lengths=lengths.to(kind), side=side)
    wide = Positions.of(300, 300, key_lengths=lengths, side=side)
    assert torch.equal(small.key, wide.key)
    assert torch.equal(small.query, wide.query)
    assert torch.equal(small.real, wide.real)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16], ids=str)
def test_distances_to_a_centre_in_half_precision_are_not_rounded(kind: torch.dtype) -> None:
    at = replace(Positions.of(1, 5000), centre=torch.full((1, 1, 1, 1), 4096.0, dtype=kind))
    attention = Attention(visibility=around(left=3, right=2), bias=Gaussian(sigma=2.0))
    assert attention.visibility(at).flatten().nonzero().flatten().tolist() == [4093, 4094, 4095, 4096, 4097, 4098]
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 5000, 8)
    torch.testing.assert_close(attention.run(query, key, key, at=at), attention.explain(query, key, key, at=at).context)


def test_only_equal_ranges_from_zero_are_aligned() -> None:
    assert Positions.of(3, 3).aligned
    assert not Positions.of(3, 4).aligned
    assert not Positions.of(3, 3, query_start=1).aligned
    assert not Positions.of(3, 3, key_lengths=torch.tensor([2]), side="left").aligned


def test_right_padding_is_at_the_end() -> None:
    at = Positions.of(1, 3, key_lengths=torch.tensor([1, 0, 3]))
    assert at.real[:, 0, 0].tolist() == [[True, False, False], [False] * 3, [True] * 3]
    assert at.key.shape[0] == 1  # the same for all


def test_left_padding_counts_from_the_first_real_token() -> None:
    at = Positions.of(3, 3, key_lengths=torch.tensor([1, 3]), side="left")
    assert at.key[:, 0, 0].tolist() == [[-2, -1, 0], [0, 1, 2]]
    assert torch.equal(at.query, at.key.mT)
    assert at.real[:, 0, 0].tolist() == [[False, False, True], [True] * 3]


def test_left_padding_of_keys_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="Left padding") as refusal:
        Positions.of(1, 3, key_lengths=torch.tensor([1]), side="left")
    assert str(refusal.value) == (
        "Left padding shifts 3 keys, but there are 1 queries, and they may stand anywhere. "
        "Build Positions(query=..., key=..., real=...) from your own position tensors."
    )


def test_examples_are_selected_where_they_differ() -> None:
    at = Positions.of(2, 3, key_lengths=torch.tensor([1, 2, 3])).select(torch.tensor([2, 0, 0]))
    assert at.real.sum(-1).flatten().tolist() == [3, 1, 1]
    assert at.query.shape[0] == 1
    left = Positions.of(3, 3, key_lengths=torch.tensor([1, 2]), side="left").select(torch.tensor([1]))
    assert left.query.flatten().tolist() == [-1, 0, 1]


def test_rows_and_columns_keep_their_absolute_positions() -> None:
    at = Positions.of(5, 5, key_lengths=torch.tensor([4]))
    part = at.rows(slice(2, 4)).columns(slice(1, 5))
    assert part.query.flatten().tolist() == [2, 3]
    assert part.key.flatten().tolist() == [1, 2, 3, 4]
    assert part.real.flatten().tolist() == [True, True, True, False]
    assert not part.aligned


def test_what_follows_from_positions_is_worked_out_once_and_not_handed_on() -> None:
    at, calls = Positions.of(2, 2), []

    def worked_out() -> int:
        calls.append(None)
        return 7

    assert at.known("a fact", worked_out) == at.known("a fact", worked_out) == 7
    assert len(calls) == 1
    assert replace(at).known("a fact", worked_out) == copy.deepcopy(at).known("a fact", worked_out) == 7
    assert len(calls) == 3


def test_what_is_known_in_inference_mode_is_not_used_in_training() -> None:
    at = Positions.plain(3, 3, torch.device("cpu"))
    x = torch.randn(1, 1, 3, 16)
    with torch.inference_mode():
        Attention(visibility=causal() & padding()).run(x, x, x)
    learnt = x.clone().requires_grad_()
    Attention(visibility=causal() & padding()).run(learnt, learnt, learnt, at=at).sum().backward()
    assert learnt.grad is not None


def test_a_predicate_is_asked_every_time() -> None:
    limit = [1]
    attention = Attention(visibility=predicate(lambda at: at.key < limit[0]))
    x, at = torch.zeros(1, 1, 2, 16), Positions.of(2, 2)
    value = torch.arange(2.0)[None, None, :, None].expand(1, 1, 2, 16)
    first = attention.run(x, x, value, at=at)
    limit[0] = 2
    assert first.max() == 0
    assert attention.run(x, x, value, at=at).min() == 0.5


class Near(Visibility):
    """A rule with a width that may change."""

    width = 1.0

    def __call__(self, at: Positions) -> torch.Tensor:
        return (at.query - at.key).abs() <= self.width


def test_a_rule_that_changes_is_asked_again() -> None:
    x, near, lengths = torch.randn(2, 1, 6, 16), Near(), torch.tensor([3, 6])
    for rule, change in ((near, lambda: setattr(near, "width", 3.0)), (causal() & padding(lengths), lengths.zero_)):
        attention, at = Attention(visibility=rule), Positions.of(6, 6)
        for _ in range(2):
            torch.testing.assert_close(attention.run(x, x, x, at=at), attention.explain(x, x, x, at=at).context)
            change()


def test_positions_do_not_gather_facts_for_ever() -> None:
    x, at = torch.randn(4, 1, 8, 16), Positions.of(8, 8)
    for number in range(100):
        lengths = torch.tensor([number % 8, 8, 1 + number % 7, 3])
        Attention(visibility=causal() & padding(lengths)).run(x, x, x, at=at)
    assert len(at._known) <= FACTS


def test_what_an_example_hides_is_not_built_into_a_traced_program(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Positions.of(6, 6, key_lengths=torch.tensor([6, 6]))
    assert mask_of(padding(), at) is None
    for module in (foveate.attention.position, foveate.attention.paths.hidden):
        monkeypatch.setattr(module, "traced", lambda: True)
    shown = mask_of(padding(), at)
    assert shown is not None
    assert shown.sighted is not None


def test_a_plan_counts_the_examples_of_a_rule_with_lengths() -> None:
    x = torch.zeros(2, 1, 60, 16)
    assert Attention(visibility=padding(torch.tensor([3, 60]))).plan(x, x).chosen
    assert padding(torch.tensor([3, 60])).pairs(Positions.of(60, 60)) == pytest.approx(60 * 63)


def test_what_is_known_is_worked_out_anew_after_a_tensor_was_written_to():
    at = Positions.of(query=3, key=3, key_lengths=torch.tensor([2]))
    answers = iter(["first", "second"])

    assert at.known("what", lambda: next(answers)) == "first"
    assert at.known("what", lambda: next(answers)) == "first"
    at.real[..., 1] = False
    assert at.known("what", lambda: next(answers)) == "second"


def test_a_fact_may_be_forgotten_by_another_thread_while_it_is_worked_out() -> None:
    at = Positions.of(3, 3)
    for number in range(FACTS):
        at.known(number, lambda: 0)

    def fact() -> int:
        at._known.clear()
        return 7

    assert at.known("a", fact) == at.known("a", fact) == 7
