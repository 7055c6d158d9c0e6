"""What a recording keeps."""

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from foveate.attention import (
    Additive,
    AdditiveConfig,
    Alibi,
    Attention,
    Entmax,
    GatV2Config,
    Gaussian,
    GeneralConfig,
    Hard,
    Positions,
    ScaledDot,
    ShawRelativeConfig,
    Sigmoid,
    Softmax,
    Sparsemax,
    Visibility,
    around,
    bigbird,
    block,
    causal,
    chunk,
    dilated,
    edges,
    everything,
    longformer,
    padding,
    predicate,
    record,
    summary,
    window,
)
from foveate.attention.normaliser import Normaliser
from foveate.data.batch import Batch
from foveate.models import BahdanauConfig, TransformerConfig
from foveate.nn import BlockConfig, MultiHeadAttention


class Two(nn.Module):
    """A model with two sites."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Attention()
        self.second = Attention(kind="cross", visibility=padding())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first.run(x, x, x)
        return self.second.run(x, x, x)


def test_records_come_in_the_order_of_the_calls_with_the_names_of_their_modules() -> None:
    model, x = Two(), torch.randn(2, 1, 3, 4)
    with record(model) as recording:
        model(x)
        model(x)
    assert [one.name for one in recording] == ["first", "second", "first", "second"]
    assert [one.kind for one in recording] == ["self", "cross", "self", "cross"]
    assert len(recording) == 4
    assert recording.of_kind("cross") == [recording.records[1], recording.records[3]]
    assert recording["first"] is recording.records[2]  # the latest


def test_a_site_that_was_not_recorded_is_refused_with_those_that_were() -> None:
    model = Two()
    with record(model) as recording:
        model(torch.randn(2, 1, 3, 4))
    with pytest.raises(KeyError) as refusal:
        recording["third"]
    assert refusal.value.args == ("No attention 'third' was recorded. Recorded: first, second.",)


def test_nothing_is_recorded_outside_the_block_nor_of_another_model() -> None:
    model, other, x = Two(), Two(), torch.randn(2, 1, 3, 4)
    model(x)
    with record(model) as recording:
        other(x)
    model(x)
    assert len(recording) == 0
    with pytest.raises(KeyError, match=r"No attention 'first' was recorded\. Recorded: none\."):
        recording["first"]


def test_an_inner_recording_ends_without_ending_the_outer_one() -> None:
    model, x = Two(), torch.randn(2, 1, 3, 4)
    with record(model) as outer:
        with record(model) as inner:
            model(x)
        model(x)
    assert (len(outer), len(inner)) == (2, 2)


def test_a_record_holds_queries_keys_and_one_number_a_row_but_no_map() -> None:
    site = Attention()
    query, key, value = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 6)
    with record(site) as recording:
        site.run(query, key, value, at=Positions.of(3, 5))
    (one,) = recording
    assert one.shape == (2, 4, 3, 5)
    assert one.query.shape == (2, 4, 3, 8)
    assert one.key.shape == (2, 2, 5, 8)
    assert one.statistic.shape == (2, 4, 3)
    torch.testing.assert_close(one.weights(), site.explain(query, key, value).weights)


def test_half_precision_records_are_half_as_large_and_their_weights_close() -> None:
    site, x = Attention(visibility=causal()), torch.randn(2, 4, 16, 8)
    with record(site, dtype=torch.float16) as recording:
        site.run(x, x, x)
    (one,) = recording
    assert one.query.dtype == one.key.dtype == torch.float16
    assert one.statistic.dtype == torch.float32
    torch.testing.assert_close(one.weights(), site.explain(x, x, x).weights, atol=5e-3, rtol=0)


def test_the_statistics_of_float64_are_float64() -> None:
    site, x = Attention(), torch.randn(1, 1, 4, 8, dtype=torch.float64)
    with record(site) as recording:
        site.run(x, x, x)
    assert recording.records[0].statistic.dtype == torch.float64
    torch.testing.assert_close(recording.records[0].weights(), site.explain(x, x, x).weights, atol=1e-12, rtol=0)


def test_weights_of_float64_are_reweighted_in_float64() -> None:
    site, x = Attention(reweight=Gaussian(sigma=1.7)), torch.randn(1, 1, 4, 8, dtype=torch.float64)
    with record(site) as recording:
        site.run(x, x, x)
    torch.testing.assert_close(recording.records[0].weights(), site.explain(x, x, x).weights, atol=1e-12, rtol=0)


def test_long_rows_are_recorded_block_by_block() -> None:
    site, x = Attention(visibility=causal()), torch.randn(1, 1, 600, 4)
    with record(site) as recording:
        site.run(x, x, x)
    expected = site.explain(x, x, x).weights
    tile = recording.records[0].weights(slice(500, 600), slice(200, 300))
    torch.testing.assert_close(tile, expected[:, :, 500:600, 200:300], atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_a_decoder_that_steps_over_one_memory_gives_one_record_with_a_row_a_step(dtype: torch.dtype | None) -> None:
    config = BahdanauConfig(embedding_dim=4, hidden_dim=6, maxout_dim=3)
    model = config.build(9, 9).eval()
    source, target = Batch.of([[4, 5, 6, 2], [7, 2]]), Batch.of([[1, 3, 4, 5, 2], [1, 6, 7, 8, 2]])
    with record(model, dtype=dtype) as recording:
        state = model.start(source)
        for time in range(4):
            state, _ = model.step(state, target.ids[:, time])
    (one,) = recording
    assert (one.name, one.kind, one.shape) == ("attention", "cross", (2, 1, 4, 4))
    assert isinstance(one.formula.score, Additive)
    with record(model) as whole:
        model(source, target)
    torch.testing.assert_close(one.weights(), whole["attention"].weights(), atol=2e-3, rtol=0)
    assert (one.weights()[1, :, :, 2:] == 0).all()


@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_a_cache_that_fills_up_is_recorded_as_it_was_at_the_last_step(dtype: torch.dtype | None) -> None:
    """Steps write into one cache: a copy taken at the first step would lack all the later words."""
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8)
    model = TransformerConfig(block=block, encoder_layers=1, decoder_layers=1).build(9, 9).eval()
    source, target = Batch.of([[4, 5, 6, 2]]), Batch.of([[1, 3, 4, 5, 2]])
    with record(model) as whole:
        model(source, target)
    with record(model, dtype=dtype) as recording:
        state = model.start(source)
        for time in range(4):
            state, _ = model.step(state, target.ids[:, time])
    name = "decoder.0.attention.attention"
    torch.testing.assert_close(recording[name].weights()[..., :4], whole[name].weights(), atol=5e-3, rtol=0)
    assert len(recording) == 3  # encoder, decoder on itself, decoder on the encoder


def test_a_second_pass_over_the_same_tensors_is_a_second_record() -> None:
    site, x = Attention(), torch.randn(1, 1, 3, 4)
    with record(site) as recording:
        site.run(x, x, x)
        site.run(x, x, x)
    assert [one.shape for one in recording] == [(1, 1, 3, 3), (1, 1, 3, 3)]


Between = Callable[[Attention], object]


def _scaled(site: Attention) -> None:
    with torch.no_grad():
        site.score.weight.mul_(-3)


def _exchanged(site: Attention) -> None:
    site.visibility = window(left=1, right=0)


def _steps(site: Attention, between: Between, *, gradient: bool) -> tuple[list[Tensor], list[Tensor]]:
    """The weights that two records give, and those that were in force at each of two steps over the same keys."""
    x, expected, calls = torch.randn(1, 1, 4, 8), [], []
    with record(site, gradient=gradient) as recording:
        for time in range(2, 4):
            at, query = Positions.of(1, 4, query_start=time), x[:, :, time : time + 1]
            site.run(query, x, x, at=at)
            expected.append(site.explain(query, x, x, at=at).weights)
            if time == 2:
                between(site)
    for each in recording:
        try:
            calls.append(each.weights())
        except ValueError:
            calls.append(torch.empty(0))
    return calls, expected


@pytest.mark.parametrize("gradient", [False, True])
def test_steps_between_which_a_part_was_exchanged_are_two_records(gradient: bool) -> None:
    tensors, expected = _steps(Attention(), _exchanged, gradient=gradient)
    torch.testing.assert_close(tensors, expected)


@pytest.mark.parametrize("gradient", [False, True])
def test_steps_between_which_weights_were_written_to_are_not_taken_for_one(gradient: bool) -> None:
    site = Attention(GeneralConfig().build(query_dim=8, key_dim=8, num_heads=1))
    (lost, tensors), (_, expected) = _steps(site, _scaled, gradient=gradient)
    assert not lost.numel()
    torch.testing.assert_close(tensors, expected)


def test_weights_that_took_the_place_of_recorded_ones_are_refused() -> None:
    site, x = Attention(GeneralConfig().build(query_dim=8, key_dim=8, num_heads=1)), torch.randn(1, 1, 4, 8)
    site.score.weight = nn.Parameter(torch.ones(1, 8, 8))
    with record(site) as recording:
        site.run(x, x, x)
    site.score.weight = nn.Parameter(torch.zeros(1, 8, 8))  # written to as often as the others: never
    with pytest.raises(ValueError, match="record again"):
        recording.records[0].weights()


@pytest.mark.parametrize("gradient", [False, True])
def test_two_passes_over_the_same_keys_are_two_records(gradient: bool) -> None:
    site, x = Attention(), torch.randn(1, 1, 4, 8)
    with record(site, gradient=gradient) as recording:
        for query in (x, x.flip(2)):
            site.run(query, x, x)
    torch.testing.assert_close(
        [each.weights() for each in recording], [site.explain(q, x, x).weights for q in (x, x.flip(2))]
    )


def test_steps_whose_queries_were_made_in_place_join_with_gradients() -> None:
    site, x = Attention(), torch.randn(1, 1, 4, 8)
    with record(site, gradient=True) as recording:
        for time in range(4):
            query = x[:, :, time : time + 1].clone().mul_(2)
            site.run(query, x, x, at=Positions.of(1, 4, query_start=time))
    torch.testing.assert_close(recording.records[0].weights(), site.explain(2 * x, x, x).weights)


def test_recording_keeps_no_graph_and_leaves_gradients_alone() -> None:
    layer = MultiHeadAttention(query_dim=8, num_heads=2)
    x = torch.randn(2, 3, 8)
    layer(x).sum().backward()
    expected = layer.query.weight.grad.clone()
    layer.zero_grad()
    with record(layer) as recording:
        layer(x).sum().backward()
    assert torch.equal(layer.query.weight.grad, expected)
    assert not recording["attention"].query.requires_grad
    assert not recording["attention"].weights().requires_grad


class Counted:
    """A normaliser that counts the scores its statistics are made of."""

    def __init__(self, inner: Normaliser) -> None:
        self.inner, self.count = inner, 0

    def __call__(self, scores: Tensor, visible: Tensor) -> Tensor:
        return self.inner(scores, visible)

    def statistic(self, scores: Tensor, visible: Tensor) -> Tensor:
        self.count += scores.numel()
        return self.inner.statistic(scores, visible)

    def tile(self, scores: Tensor, visible: Tensor, statistic: Tensor, *, first: int = 0) -> Tensor:
        return self.inner.tile(scores, visible, statistic, first=first)


def ring(nodes: int) -> Visibility:
    place = torch.arange(nodes)
    return edges(torch.stack([place, (place * 7 + 3) % nodes]), self_loops=True)


LINEAR = (
    lambda nodes: window(left=20, right=20),
    lambda nodes: window(left=20, right=0) & padding(),
    lambda nodes: dilated(left=10, right=10, step=3),
    lambda nodes: longformer(window=32, tokens=1),
    lambda nodes: bigbird(block=32),
    lambda nodes: chunk(16, left=1),
    lambda nodes: block(32) & causal(),
    ring,
    lambda nodes: ring(nodes) & padding(),
)


@pytest.mark.parametrize("rule", LINEAR, ids=range(len(LINEAR)))
@pytest.mark.parametrize("normaliser", [Softmax(), Hard(mode="argmax")], ids=repr)
def test_a_record_costs_what_the_rule_shows_and_not_the_square_of_the_length(
    rule: Callable[[int], Visibility], normaliser: Normaliser
) -> None:
    torch.manual_seed(0)
    counts = []
    for nodes in (1024, 2048):
        counted = Counted(normaliser)
        attention, x = Attention(visibility=rule(nodes), normaliser=counted), torch.randn(1, 2, nodes, 4)
        at = Positions.of(nodes, nodes, key_lengths=torch.tensor([nodes - 100]))
        with record(attention) as recording, torch.no_grad():
            attention.run(x, x, x, at=at)
        counts.append(counted.count)
        rows = slice(500, 560)
        exact = Attention(visibility=rule(nodes), normaliser=counted)._placed(x, x, x, at)[2].rows(rows)
        scores = ScaledDot()(x[:, :, rows], x)
        shown = attention.visibility(exact)
        expected = normaliser(scores, shown)
        torch.testing.assert_close(recording.records[0].weights(rows), expected, atol=1e-5, rtol=1e-4)
    assert counts[1] < 2.4 * counts[0]
    assert counts[1] < 0.6 * 2 * 2048**2


@pytest.mark.parametrize("gathered", [False, True])
def test_a_record_of_any_rule_and_score_is_the_same_in_tiles(gathered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["foveate.attention.record"]  # its name in the package is that of the function
    monkeypatch.setattr(module, "AT_ONCE", 0)
    monkeypatch.setattr(module, "NEAR", 4)
    monkeypatch.setattr(module, "ROWS", 8)
    rules = (
        causal(),
        padding() & causal(),
        everything(),
        around(left=2, right=2) & padding(),
        summary(block=4, count=1),
    )
    scores = (ScaledDot(), GeneralConfig(), AdditiveConfig(hidden_dim=3), ShawRelativeConfig(radius=2), GatV2Config())
    normalisers = (Softmax(), Sparsemax(), Hard(mode="argmax"), Sigmoid(), Entmax())
    extras = (edges(torch.randint(0, 30, (2, 90))) & padding(), predicate(lambda at: (at.key * at.query) % 3 == 1))
    every = itertools.product((*rules, *extras), scores, normalisers)
    for number, (rule, score, normaliser) in enumerate(itertools.islice(every, int(gathered), None, 2)):
        torch.manual_seed(number)
        built = score.build(query_dim=4, key_dim=4, num_heads=2)
        attention = Attention(built, visibility=rule, normaliser=normaliser, bias=Alibi(2) if number % 2 else None)
        at = Positions.of(23, 31, query_start=3, key_lengths=torch.tensor([31, 17]))
        if gathered:
            at = replace(at, centre=31 * torch.rand(2, 1, 23, 1))
        inputs = [torch.randn(2, heads, n, 4) for heads, n in ((2, 23), (1, 31), (1, 31))]
        with record(attention) as recording:
            attention.run(*inputs, at=at)
        exact = attention.explain(*inputs, at=at).weights
        torch.testing.assert_close(recording.records[0].weights(), exact, atol=2e-5, rtol=1e-4, msg=f"{attention}")
        part = recording.records[0].weights(slice(3, 9), slice(5, 20))
        torch.testing.assert_close(part, exact[:, :, 3:9, 5:20], atol=2e-5, rtol=1e-4)
