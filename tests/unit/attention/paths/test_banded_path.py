"""The banded path over rules that reach only so far, in tiles so small that short inputs have many."""

import itertools
import math
import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from foveate.attention import (
    AdditiveConfig,
    Attention,
    GatConfig,
    Gaussian,
    GeneralConfig,
    LocationAwareConfig,
    LocationConfig,
    Positions,
    ScaledDot,
    ShawRelativeConfig,
    Visibility,
    around,
    bigbird,
    block,
    causal,
    chunk,
    dilated,
    edges,
    global_tokens,
    longformer,
    neighbourhood,
    padding,
    predicate,
    prefix,
    random_blocks,
    sparse,
    summary,
    window,
)
from foveate.attention.normaliser import Hard, Normaliser, ReLU, Sigmoid, Softmax, Sparsemax
from foveate.attention.paths import fused, tiled
from foveate.attention.paths.layout import Tile
from foveate.attention.paths.tiled import BandedPath, TiledPath

RULES = (
    window(left=3, right=0),
    window(left=2, right=3) & padding(),
    dilated(left=2, right=1, step=2),
    block(4) & causal(),
    chunk(3, left=1) & padding(),
    around(left=2, right=1),
    neighbourhood(columns=4, reach=1),
    longformer(window=4, tokens=1) & padding(),
    bigbird(block=2, window=1, tokens=1, random=1),
    random_blocks(block=3, count=2, seed=2) & padding(),
    global_tokens([3, 9]),
    prefix(3) | window(left=1, right=1),
    window(left=5, right=0) & ~block(4),
    window(left=4, right=4) & predicate(lambda at: (at.key + at.query) % 3 != 0),
)


def case(seed: int, rule: Visibility, score: object, bias: object = None) -> tuple[Attention, list[Tensor], Positions]:
    rng, _ = random.Random(seed), torch.manual_seed(seed)
    batch, heads, keys = rng.randint(1, 2), rng.choice([2, 4]), rng.randint(1, 25)
    queries = rng.choice([keys, rng.randint(1, 25)])
    lengths = torch.tensor([rng.randint(0, keys) for _ in range(batch)])
    side = rng.choice(["left", "right"]) if queries == keys else "right"
    at = Positions.of(queries, keys, key_lengths=rng.choice([None, lengths]), side=side)
    if rng.random() < 0.5:
        at = replace(at, centre=torch.rand(batch, 1, queries, 1, dtype=torch.float64) * keys)
    built = score.build(query_dim=4, key_dim=4, num_heads=heads)
    attention = Attention(built, visibility=rule, bias=bias).double()
    inputs = [torch.randn(batch, heads, queries, 4), *(torch.randn(batch, 2, keys, 4) for _ in range(2))]
    return attention, [tensor.double() for tensor in inputs], at


def outcome(
    attention: Attention, inputs: list[Tensor], at: Positions, path: BandedPath | TiledPath | None
) -> list[Tensor]:
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    context = (
        attention.explain(*inputs, at=at).context
        if path is None
        else path.run(attention, *inputs, at=at, key_features=None, dropout=0.0)
    )
    weights = list(attention.parameters())
    direction = torch.cos(torch.arange(context.numel()).double()).reshape(context.shape)
    gradients = torch.autograd.grad((context * direction).sum(), inputs + weights, allow_unused=True)
    zeros = (torch.zeros_like(tensor) for tensor in inputs + weights)
    return [context] + [zero if g is None else g for g, zero in zip(gradients, zeros, strict=True)]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_band_is_the_whole_with_its_gradients(rule: Visibility) -> None:
    scores = (ScaledDot(), GeneralConfig(), AdditiveConfig(hidden_dim=3))
    biases = (None, lambda at: -0.2 * (at.query - at.key).abs())
    for seed in range(12):
        attention, inputs, at = case(seed, rule, scores[seed % 3], biases[seed % 2])
        path = BandedPath(tile=3 + seed % 5)
        assert not path.refuses(attention, inputs[0], inputs[1], at)
        for got, exact in zip(outcome(attention, inputs, at, path), outcome(attention, inputs, at, None), strict=True):
            torch.testing.assert_close(got, exact, atol=1e-12, rtol=0, msg=lambda m, s=seed: f"seed {s}: {m}")


def test_other_normalisers_and_reweighting_run_in_the_band() -> None:
    for normaliser in (Softmax(temperature=0.5), Sparsemax(), ReLU(), Sigmoid(), Hard(mode="straight_through")):
        attention, inputs, at = case(5, window(left=2, right=1) & padding(), ScaledDot())
        attention.normaliser, attention.reweight = normaliser, lambda at: -(0.1 * (at.query - at.key) ** 2)
        path = BandedPath(tile=4)
        for got, exact in zip(outcome(attention, inputs, at, path), outcome(attention, inputs, at, None), strict=True):
            torch.testing.assert_close(got, exact, atol=1e-12, rtol=0)


def test_a_bias_that_learns_gets_its_gradient() -> None:
    table = nn.Parameter(torch.randn(64))
    attention, inputs, at = case(3, window(left=2, right=2), ScaledDot(), lambda at: table[(at.query - at.key) % 64])
    whole = attention.explain(*inputs, at=at).context
    gradients = []
    for context in (BandedPath(tile=3).run(attention, *inputs, at=at), whole):
        gradients += torch.autograd.grad(context.square().sum(), [table])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_weights_too_many_to_keep_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attention, inputs, at = case(8, window(left=3, right=2) & padding(), ScaledDot())
    copy = outcome(attention, inputs, at, BandedPath(tile=4))
    monkeypatch.setattr(fused, "KEPT", 0)
    for one, other in zip(copy, outcome(attention, inputs, at, BandedPath(tile=4)), strict=True):
        torch.testing.assert_close(one, other, atol=1e-13, rtol=0)


def test_examples_that_look_at_different_places_gather_their_own_keys() -> None:
    torch.manual_seed(0)
    centre = torch.tensor([3.3, 150.8, 199.0, 0.0]).double()[:, None, None, None]
    at = replace(Positions.of(1, 200, query_start=7, key_lengths=torch.tensor([200, 160, 200, 0])), centre=centre)
    inputs = [torch.randn(4, 2, 1, 8).double(), *(torch.randn(4, 2, 200, 8).double() for _ in range(2))]
    for score in (ScaledDot(), AdditiveConfig(hidden_dim=5)):
        attention = Attention(
            score.build(query_dim=8, key_dim=8, num_heads=2),
            visibility=around(left=5, right=5) & padding(),
            reweight=Gaussian(sigma=6**0.5),
        ).double()
        calls = []
        attention.score = Watched(attention.score, calls)
        context = BandedPath().run(attention, *inputs, at=at)
        assert calls == [12]
        torch.testing.assert_close(context, attention.explain(*inputs, at=at).context, atol=1e-12, rtol=0)


@pytest.mark.parametrize("part", ["bias", "reweight"])
def test_a_bias_that_tells_examples_apart_is_not_asked_about_gathered_keys(part: str) -> None:
    torch.manual_seed(0)
    for batch, queries, heads in ((2, 1, 1), (3, 2, 2), (5, 3, 1)):
        table, keys = torch.randn(batch, heads, 400, 400, dtype=torch.float64), 300
        example, head = torch.arange(batch)[:, None, None, None], torch.arange(heads)[:, None, None]

        def told(at: Positions, table: Tensor = table, example: Tensor = example, head: Tensor = head) -> Tensor:
            return table[example, head, at.query, at.key]

        attention = Attention(visibility=around(left=2, right=2) & padding(), **{part: told})
        at = Positions.of(queries, keys, key_lengths=torch.randint(200, keys, (batch,)))
        at = replace(at, centre=keys * torch.rand(batch, 1, queries, 1, dtype=torch.float64))
        inputs = [torch.randn(batch, heads, n, 4, dtype=torch.float64) for n in (queries, keys, keys)]
        for path in (BandedPath(), BandedPath(tile=2)):
            got = path.run(attention, *inputs, at=at)
            torch.testing.assert_close(got, attention.explain(*inputs, at=at).context, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("batch", [1, 3])
def test_heads_that_look_at_different_places_gather_their_own_keys(
    batch: int, kv_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiled, "MANY_QUERIES", 4)
    torch.manual_seed(0)
    centre = 200 * torch.rand(batch, 4, 90, 1).double()
    at = replace(Positions.of(90, 200, key_lengths=torch.tensor([200, 160, 0])[:batch]), centre=centre)
    inputs = [torch.randn(batch, heads, n, 8).double() for heads, n in ((4, 90), (kv_heads, 200), (kv_heads, 200))]
    for score in (ScaledDot(), GeneralConfig(), AdditiveConfig(hidden_dim=5)):
        attention = Attention(
            score.build(query_dim=8, key_dim=8, num_heads=4),
            visibility=around(left=5, right=5) & padding(),
            reweight=Gaussian(sigma=6**0.5),
        ).double()
        path, calls = BandedPath(), []
        expected = outcome(attention, inputs, at, None)
        for got, exact in zip(outcome(attention, inputs, at, path), expected, strict=True):
            torch.testing.assert_close(got, exact, atol=1e-12, rtol=0)
        attention.score = Watched(attention.score, calls)
        path.run(attention, *inputs, at=at)
        assert calls == [12]


class Watched(nn.Module):
    """Notes how many keys it was given."""

    def __init__(self, score: object, result: list[int]) -> None:
        super().__init__()
        self.score, self.seen = score, result

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        self.seen.append(key.shape[2])
        return self.score(query, key)


def test_it_refuses_what_reaches_everywhere_and_draws() -> None:
    x, at = torch.randn(1, 1, 4, 2), Positions.of(4, 4)
    assert BandedPath().refuses(Attention(visibility=causal()), x, x, at) == [
        "causal() does not limit the distance between query and key"
    ]
    assert BandedPath().refuses(Attention(visibility=sparse(block=2)), x, x, at)
    drawing = Attention(visibility=window(left=1, right=0), normaliser=Hard(mode="sample"))
    assert BandedPath().refuses(drawing, x, x, at)
    assert not BandedPath().refuses(drawing.eval(), x, x, at)


def test_hidden_nan_stays_in_its_place() -> None:
    x = torch.randn(1, 1, 40, 4)
    value = x.clone()
    value[:, :, 17] = float("nan")
    context = BandedPath(tile=8).run(
        Attention(visibility=window(left=2, right=1)), x, x, value, at=Positions.of(40, 40)
    )
    assert context[0, 0].isnan().any(-1).nonzero().flatten().tolist() == [16, 17, 18, 19]


def test_dropout_falls_on_weights() -> None:
    torch.manual_seed(0)
    x, value = (part.expand(4000, 1, 12, -1) for part in (torch.randn(1, 1, 12, 4), torch.eye(12)))
    attention, path = Attention(visibility=window(left=2, right=0)), BandedPath(tile=5)
    one = path.run(attention, x, x, value, at=Positions.of(12, 12), dropout=0.5).mean(0)
    torch.testing.assert_close(one, attention.explain(x, x, value).weights[0], atol=0.05, rtol=0)


def test_one_sided_rules_run_in_tiles_a_head_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "AT_ONCE", 60)
    rules = (causal(), causal() & padding(), chunk(3, left=math.inf), window(left=math.inf, right=2) & padding())
    for seed in range(24):
        attention, inputs, at = case(seed, rules[seed % 4], (ScaledDot(), GeneralConfig())[seed // 4 % 2])
        monkeypatch.setattr(fused, "KEPT", 0 if seed % 3 else 2**20)
        path = TiledPath(tile=4)
        assert not path.refuses(attention, inputs[0], inputs[1], at)
        for got, exact in zip(outcome(attention, inputs, at, path), outcome(attention, inputs, at, None), strict=True):
            torch.testing.assert_close(got, exact, atol=1e-12, rtol=0, msg=lambda m, s=seed: f"seed {s}: {m}")
    x, at = torch.randn(1, 1, 4, 2), Positions.of(4, 4)
    assert TiledPath().refuses(Attention(), x, x, at) == [
        "everything() shows keys after the query, and hides too few pairs for tiles"
    ]
    assert TiledPath().refuses(Attention(visibility=causal(), normaliser=Hard(mode="sample")), x, x, at)


def test_patterns_without_a_band_run_in_tiles_where_they_leave_most_pairs_out() -> None:
    rules = (sparse(block=32, summaries=1), summary(block=32, count=1), sparse(block=32, summaries=1) & padding())
    path = TiledPath(tile=32)
    for seed, (rule, (queries, keys)) in enumerate(itertools.product(rules, [(160, 160), (160, 140), (50, 160)])):
        at = Positions.of(queries, keys, key_lengths=torch.tensor([keys, 70]))
        inputs = [torch.randn(2, 2, length, 4, dtype=torch.float64) for length in (queries, keys, keys)]
        attention = Attention(visibility=rule)
        assert not path.refuses(attention, *inputs[:2], at)
        for got, exact in zip(outcome(attention, inputs, at, path), outcome(attention, inputs, at, None), strict=True):
            torch.testing.assert_close(got, exact, atol=1e-12, rtol=0, msg=lambda m, s=seed: f"case {s}: {m}")
    x, at = torch.randn(1, 1, 160, 4), Positions.of(160, 160)
    assert path.refuses(Attention(visibility=~sparse(block=32, summaries=1)), x, x, at)
    assert path.refuses(Attention(visibility=sparse(block=80, summaries=40)), x, x, at)


def test_one_sided_rules_run_in_tiles_under_any_score_bias_and_normaliser() -> None:
    kinds = (
        {"normaliser": ReLU()},
        {"normaliser": Sparsemax()},
        {"normaliser": Hard(mode="straight_through")},
        {"score": ShawRelativeConfig(radius=2).build(query_dim=4, key_dim=4)},
        {"score": LocationConfig(max_length=64).build(query_dim=4, key_dim=4)},
        {"score": GatConfig().build(query_dim=4, key_dim=4)},
        {"reweight": lambda at: -0.1 * (at.query - at.key).abs()},
    )
    for seed, kind in enumerate((*kinds, *kinds)):
        _, inputs, at = case(seed, causal(), ScaledDot())
        attention = Attention(visibility=causal() & padding(), **kind).double()
        path = TiledPath(tile=4)
        assert (inputs[0].shape[2] > 4) == (not path.refuses(attention, inputs[0], inputs[1], at))
        for got, exact in zip(outcome(attention, inputs, at, path), outcome(attention, inputs, at, None), strict=True):
            torch.testing.assert_close(got, exact, atol=1e-12, rtol=0, msg=lambda m, s=seed: f"seed {s}: {m}")


@pytest.mark.parametrize(
    "rule",
    [causal(), causal() & padding(), window(left=2, right=1), bigbird(block=2), edges([[0], [1]], self_loops=True)],
    ids=str,
)
@pytest.mark.parametrize(
    "config", [GeneralConfig(), ShawRelativeConfig(radius=2), LocationAwareConfig(width=3)], ids=repr
)
@pytest.mark.parametrize(("batch", "queries", "keys"), [(2, 200, 0), (2, 0, 3), (0, 200, 200), (0, 1, 0)])
def test_where_there_is_nothing_to_look_at_every_attention_runs(
    rule: Visibility, config: object, batch: int, queries: int, keys: int
) -> None:
    attention = Attention(config.build(query_dim=4, key_dim=4), visibility=rule)
    query, key = (torch.randn(batch, 2, length, 4, requires_grad=True) for length in (queries, keys))
    at = Positions.of(queries, keys, key_lengths=torch.full((batch,), keys))
    at = replace(at, previous=torch.zeros(batch, 2, queries, keys))
    context = attention.run(query, key, key, at=at)
    assert context.shape == query.shape
    assert not context.any()
    context.sum().backward()
    assert attention.explain(query, key, key, at=at).weights.shape == (batch, 2, queries, keys)
    answers = {answer.name: answer.reasons for answer in attention.plan(query, key, at=at).paths}
    assert "there are no queries or no keys" in answers["tiled"]


def test_what_no_kernel_knows_is_planned_in_tiles_where_they_are_many() -> None:
    attention = Attention(ShawRelativeConfig(radius=4).build(query_dim=32, key_dim=32), visibility=causal())
    long, short = (torch.randn(1, 4, length, 32, requires_grad=True) for length in (1024, 16))
    assert attention.plan(long, long).chosen == "tiled"
    assert attention.plan(short, short).chosen != "tiled"
    costs = {path.name: path.cost(attention, long, long, Positions.of(1024, 1024)) for path in attention.paths}
    assert costs["tiled"].bytes < 0.6 * costs["materialised"].bytes
    with torch.no_grad():
        assert TiledPath().cost(attention, long, long, Positions.of(1024, 1024)).bytes < 0.3 * costs["tiled"].bytes


def test_hidden_pairs_are_computed_once_for_all_layers_and_once_for_tiles_at_equal_distances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tiles, compute = list[int](), fused.Hiding._made

    def counting(hiding: fused.Hiding, tile: Tile) -> fused.Hidden:
        tiles.append(tile.rows.start)
        return compute(hiding, tile)

    monkeypatch.setattr(fused.Hiding, "_made", counting)
    query, key, value = (torch.randn(1, 2, 640, 4) for _ in range(3))
    at, other = Positions.of(640, 640), Positions.of(640, 640, key_lengths=torch.tensor([600]))
    near, chunks = Attention(visibility=window(left=5, right=2)), Attention(visibility=chunk(7, left=1))
    for attention, places, number in [
        (near, at, 3),
        (near, at, 0),
        (chunks, at, 10),
        (chunks, at, 0),
        (near, other, 3),
    ]:
        tiles.clear()
        context = attention.run(query, key, value, at=places)
        assert len(tiles) == number
        torch.testing.assert_close(context, attention.explain(query, key, value, at=places).context)


def test_hidden_pairs_follow_positions_that_are_written_to() -> None:
    query, key, value = (torch.randn(1, 2, 640, 4) for _ in range(3))
    attention, at = (
        Attention(visibility=window(left=5, right=2) & padding()),
        Positions.of(640, 640, key_lengths=torch.tensor([640])),
    )
    attention.run(query, key, value, at=at)
    assert at.real is not None
    at.real[..., 300:] = False
    torch.testing.assert_close(
        attention.run(query, key, value, at=at), attention.explain(query, key, value, at=at).context
    )


@pytest.mark.parametrize("normaliser", [Softmax(), Sparsemax()], ids=str)
@pytest.mark.parametrize("wants", ["query", "key", "value"])
def test_tiles_without_keys_belong_to_the_graph_of_all_inputs(wants: str, normaliser: Normaliser) -> None:
    inputs = {name: torch.randn(1, 1, length, 8) for name, length in (("query", 4), ("key", 10), ("value", 10))}
    inputs[wants].requires_grad_()
    attention = Attention(visibility=window(left=2, right=0), normaliser=normaliser, paths=(BandedPath(),))
    context = attention.run(*inputs.values(), at=Positions.of(4, 10, query_start=100))
    for create_graph in (False, True):
        (gradient,) = torch.autograd.grad(context.sum(), inputs[wants], retain_graph=True, create_graph=create_graph)
        assert not gradient.any()
