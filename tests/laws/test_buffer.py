"""Nothing that is kept between calls outlives what it was made of: buffers may be filled anew, parts exchanged."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from foveate.attention import (
    Attention,
    General,
    Positions,
    Sparsemax,
    Visibility,
    causal,
    edges,
    padding,
    record,
    same_segment,
    window,
)
from foveate.inspect.ablation import switched_off

NODES, EDGES = 40, 200
CLOSE = {"atol": 1e-6, "rtol": 1e-5}


def require_agreement(attention: Attention, x: Tensor, at: Positions | None = None) -> Tensor:
    context = attention.run(x, x, x, at=at)
    torch.testing.assert_close(context, attention.explain(x, x, x, at=at).context, **CLOSE)
    return context


def fresh(rule: Visibility, x: Tensor) -> Tensor:
    """What an attention that has kept nothing answers."""
    return Attention(visibility=rule).explain(x, x, x, at=Positions.of(NODES, NODES)).context


@pytest.mark.parametrize("kept", [8, 100, 200], ids=lambda kept: f"{kept} edges stay")
@pytest.mark.parametrize(
    "joined", [lambda rule: rule, lambda rule: rule & window(left=30, right=30), lambda rule: ~rule]
)
def test_a_graph_whose_buffer_is_filled_anew_is_another_graph(kept: int, joined: Callable) -> None:
    x, index = torch.randn(2, 2, NODES, 16), torch.randint(0, NODES, (2, EDGES))
    earlier = Attention(visibility=joined(edges(index)))
    before = require_agreement(earlier, x)

    index[:, kept:] = torch.randint(0, NODES, (2, EDGES - kept))
    later = require_agreement(Attention(visibility=joined(edges(index))), x)

    torch.testing.assert_close(later, fresh(joined(edges(index.clone())), x), **CLOSE)
    assert torch.equal(require_agreement(earlier, x), before), "the first rule keeps its own graph"
    assert kept == EDGES or not torch.allclose(before, later)


@pytest.mark.parametrize("inference", [False, True])
def test_a_graph_that_shares_memory_with_numpy_is_another_graph_when_that_is_filled_anew(inference: bool) -> None:
    with torch.inference_mode(inference):
        x, index = torch.randn(1, 1, NODES, 8), torch.randint(0, NODES, (2, EDGES))
        before = require_agreement(Attention(visibility=edges(torch.from_numpy(index.numpy()))), x)
        index.numpy()[:, 8:] = torch.randint(0, NODES, (2, EDGES - 8)).numpy()
        later = require_agreement(Attention(visibility=edges(torch.from_numpy(index.numpy()))), x)

        torch.testing.assert_close(later, fresh(edges(index.tolist()), x), **CLOSE)
        assert not torch.allclose(before, later)


def test_a_rule_that_is_written_into_shows_what_is_there_now() -> None:
    x, rule = torch.randn(1, 1, NODES, 8), edges(torch.randint(0, NODES, (2, EDGES)))
    attention = Attention(visibility=rule)
    require_agreement(attention, x)
    twin = copy.deepcopy(rule)
    assert rule == twin
    assert hash(rule) == hash(twin)

    rule.index[:, 8:] = torch.randint(0, NODES, (2, EDGES - 8))

    assert rule != twin
    torch.testing.assert_close(require_agreement(attention, x), fresh(edges(rule.index.tolist()), x), **CLOSE)
    torch.testing.assert_close(
        require_agreement(Attention(visibility=twin), x), fresh(edges(twin.index.tolist()), x), **CLOSE
    )


def test_lengths_that_are_filled_anew_hide_other_keys() -> None:
    x, lengths = torch.randn(2, 1, 7, 8), torch.tensor([3, 7])
    attention = Attention(visibility=causal() & padding(lengths))
    at = Positions.of(7, 7)
    require_agreement(attention, x, at)
    lengths[:] = torch.tensor([6, 2])
    expected = Attention(visibility=causal() & padding(torch.tensor([6, 2]))).explain(x, x, x).context
    torch.testing.assert_close(require_agreement(attention, x, at), expected, **CLOSE)


@pytest.mark.parametrize("name", ["query", "key", "real", "query_segment"])
def test_positions_that_are_filled_anew_are_other_positions(name: str) -> None:
    places = torch.arange(7)
    at = Positions(
        query=places[None, None, :, None].clone(),
        key=places[None, None, None].clone(),
        real=torch.ones(1, 1, 1, 7, dtype=torch.bool),
        query_segment=(places > 3).long()[None, None, :, None],
        key_segment=(places > 3).long()[None, None, None],
    )
    rule = window(left=2, right=1) & padding() & same_segment()
    x, attention = torch.randn(1, 2, 7, 16), Attention(visibility=rule)
    before = require_agreement(attention, x, at)

    part = getattr(at, name)
    part.copy_(torch.flip(part, [part.dim() - 1 if name in ("key", "real") else 2]))
    if name == "real":
        part[..., 2] = False

    after = require_agreement(attention, x, at)
    anew = Positions(
        **{field: getattr(at, field).clone() for field in ("query", "key", "real", "query_segment", "key_segment")}
    )
    torch.testing.assert_close(after, Attention(visibility=rule).explain(x, x, x, at=anew).context, **CLOSE)
    assert not torch.allclose(before, after)


def recorded(attention: Attention, x: Tensor, **options: object):
    with record(attention, **options) as seen:
        attention.run(x, x, x)
    return seen.records[0]


@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_a_record_keeps_its_weights_when_its_buffers_are_filled_anew(dtype: torch.dtype | None) -> None:
    x, attention = torch.randn(1, 2, 9, 16), Attention(visibility=causal())
    expected = attention.explain(x, x, x).weights
    seen = recorded(attention, x, dtype=dtype)
    x.normal_()
    torch.testing.assert_close(seen.weights(), expected, **CLOSE)


def test_a_record_keeps_the_parts_that_were_looked_with() -> None:
    x, attention = torch.randn(1, 2, 9, 16), Attention(visibility=causal())
    with record(attention) as seen, switched_off(attention, heads=[("", 1)], keys=[2], sites=[""]):
        attention.run(x, x, x)
        expected = attention.explain(x, x, x).weights
    whole = recorded(attention, x)
    attention.normaliser, attention.visibility = Sparsemax(), window(left=1, right=1)

    torch.testing.assert_close(seen.records[0].weights(), expected, **CLOSE)
    assert (expected[:, 1] == 0).all()
    assert (expected[..., 2] == 0).all()
    torch.testing.assert_close(whole.weights(), Attention(visibility=causal()).explain(x, x, x).weights, **CLOSE)


@pytest.mark.parametrize("gradient", [False, True])
def test_a_record_whose_score_was_trained_since_says_so(gradient: bool) -> None:
    x, attention = torch.randn(1, 2, 9, 16), Attention(General(num_heads=2, query_dim=16, key_dim=16))
    seen = recorded(attention, x, gradient=gradient)
    seen.weights()
    with torch.no_grad():
        attention.score.weight.mul_(2.0)
    with pytest.raises(ValueError, match="Take the weights first, or record again"):
        seen.weights()


def test_steps_over_keys_that_were_filled_anew_are_records_of_their_own() -> None:
    attention, keys = Attention(visibility=padding()), torch.randn(1, 1, 6, 8)
    first, second = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    with record(attention) as seen:
        attention.run(first, keys, keys, at=Positions.of(1, 6))
        expected = [attention.explain(first, keys, keys, at=Positions.of(1, 6)).weights]
        keys.normal_()  # the next sentence, in the same memory
        attention.run(second, keys, keys, at=Positions.of(1, 6, query_start=1))
        expected.append(attention.explain(second, keys, keys, at=Positions.of(1, 6, query_start=1)).weights)

    assert len(seen) == 2
    for one, weights in zip(seen, expected, strict=True):
        torch.testing.assert_close(one.weights(), weights, **CLOSE)


def test_steps_over_a_cache_that_fills_up_are_one_record() -> None:
    attention, cache = Attention(visibility=causal()), torch.zeros(1, 2, 6, 8)
    inputs = torch.randn(1, 2, 6, 8)
    with record(attention) as seen:
        for time in range(6):
            cache[:, :, time] = inputs[:, :, time]
            attention.run(inputs[:, :, time : time + 1], cache, cache, at=Positions.of(1, 6, query_start=time))
    [one] = seen
    torch.testing.assert_close(one.weights(), attention.explain(inputs, inputs, inputs).weights, **CLOSE)


@pytest.mark.parametrize("part", ["real", "segment"])
@pytest.mark.parametrize("no_gradients", [torch.no_grad, torch.inference_mode])
def test_positions_that_are_filled_anew_without_gradients_are_other_positions(
    part: str, no_gradients: Callable
) -> None:
    with no_gradients():
        x, places = torch.randn(1, 2, 6, 16), torch.arange(6)
        real, segment = torch.tensor([[[[True] * 3 + [False] * 3]]]), torch.tensor([0, 0, 0, 1, 1, 1])
        at = Positions(
            query=places[None, None, :, None],
            key=places[None, None, None],
            real=real,
            query_segment=segment[None, None, :, None],
            key_segment=segment[None, None, None],
        )
        attention = Attention(visibility=padding() if part == "real" else same_segment())
        before = require_agreement(attention, x, at)
        real.fill_(True)
        segment.copy_(torch.tensor([0, 1, 0, 1, 0, 1]))
        assert not torch.allclose(before, require_agreement(attention, x, at))


def test_a_record_keeps_the_positions_that_it_was_made_at() -> None:
    with torch.inference_mode():
        x, places, real = torch.randn(1, 2, 6, 16), torch.arange(6), torch.ones(1, 1, 1, 6, dtype=torch.bool)
        at = Positions(query=places[None, None, :, None], key=places[None, None, None], real=real)
        attention = Attention(visibility=padding())
        with record(attention) as records:
            attention.run(x, x, x, at=at)
        expected = attention.explain(x, x, x, at=at).weights
        real[..., 3:] = False
        torch.testing.assert_close(records.records[0].weights(), expected, **CLOSE)
