"""Shapes, refusals and plans of one attention. That explain = run is tests/laws/test_attention.py."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from foveate.attention import (
    AdditiveConfig,
    Alibi,
    Attention,
    Dot,
    GeneralConfig,
    Hard,
    Positions,
    RelativeBuckets,
    ScaledDot,
    Softmax,
    Visibility,
    causal,
    edges,
    everything,
    padding,
    record,
    window,
)
from foveate.attention.paths import PATHS, MaterialisedPath, ProductPath, SDPAPath


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 6)


def test_an_explanation_has_one_map_per_head_and_contexts_as_wide_as_values(inputs: tuple[Tensor, ...]) -> None:
    explanation = Attention().explain(*inputs)
    assert explanation.scores.shape == explanation.visible.shape == explanation.weights.shape == (2, 4, 5, 7)
    assert explanation.context.shape == (2, 4, 5, 6)
    assert Attention().run(*inputs).shape == (2, 4, 5, 6)


def test_groups_of_query_heads_share_a_key_head(inputs: tuple[Tensor, ...]) -> None:
    query, key, value = inputs
    repeated = Attention().explain(query, key.repeat_interleave(2, 1), value.repeat_interleave(2, 1))
    torch.testing.assert_close(Attention().explain(*inputs).weights, repeated.weights)


def test_a_query_that_sees_nothing_gets_zeros_and_finite_gradients() -> None:
    query, key, value = (torch.randn(2, 1, 3, 4, requires_grad=True) for _ in range(3))
    at = Positions.of(3, 3, key_lengths=torch.tensor([0, 3]))
    context = Attention(visibility=padding()).run(query, key, value, at=at)
    context.sum().backward()
    assert (context[0] == 0).all()
    assert (context[1] != 0).any()
    assert all(tensor.grad.isfinite().all() for tensor in (query, key, value))


@pytest.mark.parametrize("config", [ScaledDot(), GeneralConfig(), AdditiveConfig(hidden_dim=5)], ids=repr)
def test_key_features_computed_once_give_the_same_context(config: object, inputs: tuple[Tensor, ...]) -> None:
    query, key, value = inputs
    attention = Attention(config.build(query_dim=8, key_dim=8))
    features = attention.key_features(key.repeat_interleave(2, 1))
    result = attention.run(query, key, value, key_features=features)
    torch.testing.assert_close(result, attention.run(query, key, value))


def test_a_score_of_ones_own_is_any_callable(inputs: tuple[Tensor, ...]) -> None:
    def distance(query: Tensor, key: Tensor) -> Tensor:
        return -torch.cdist(query, key)

    attention = Attention(distance)
    query, key, _value = inputs
    weights = (-torch.cdist(query, key.repeat_interleave(2, 1))).softmax(-1)
    torch.testing.assert_close(attention.explain(*inputs).weights, weights)
    assert attention.plan(query, key).chosen == "materialised"
    assert attention.key_features(key) is None


def test_a_bias_adds_to_scores_and_never_hides() -> None:
    x = torch.randn(1, 1, 4, 8)
    nearer = Attention(visibility=causal(), bias=lambda at: -(at.query - at.key).float())
    explanation, plain = nearer.explain(x, x, x), Attention().explain(x, x, x)
    distance = torch.arange(4)[:, None] - torch.arange(4)
    torch.testing.assert_close(explanation.scores[0, 0], plain.scores[0, 0] - distance)
    assert torch.equal(explanation.visible[0, 0], distance >= 0)


def test_a_plan_says_which_path_runs_and_why_the_others_do_not() -> None:
    x, three = torch.randn(1, 2, 600, 8), (ProductPath(), SDPAPath(), MaterialisedPath())
    plan = Attention(visibility=causal(), paths=three).plan(x, x)
    assert str(plan) == (
        "sdpa (ScaledDot + causal() + Softmax; torch's kernel keeps no scores; product, materialised would do, too)"
    )
    assert plan.table().splitlines() == [
        "→ sdpa                11.5 MFLOP       0.0 MiB  torch's kernel keeps no scores",
        "  product             23.0 MFLOP       5.5 MiB",
        "  materialised        23.0 MFLOP       8.2 MiB",
    ]
    additive = Attention(AdditiveConfig().build(query_dim=8, key_dim=8), visibility=padding(), paths=three)
    assert str(additive.plan(x, x)) == (
        "materialised (Additive + padding() + Softmax; all scores fit into 512 MiB; "
        "product refused: Additive is not a dot product; "
        "sdpa refused: Additive is not a dot product)"
    )


def test_a_path_of_ones_own_runs_where_it_accepts() -> None:
    class Constant(MaterialisedPath):
        name = "constant"

        def run(self, formula: object, query: torch.Tensor, *arguments: object, **named: object) -> torch.Tensor:
            return torch.full_like(query, 7.0)

    x = torch.randn(1, 2, 300, 8)
    mine = Attention(paths=(*PATHS, Constant()))
    assert mine.plan(x, x).chosen == "constant"
    assert (mine.run(x, x, x) == 7).all()


def test_a_plan_counts_arithmetic_and_memory() -> None:
    x = torch.randn(2, 4, 100, 16)
    paths = {path.name: path for path in Attention(visibility=causal()).plan(x, x).paths}
    pairs = 2 * 4 * 100 * 100
    assert paths["materialised"].flops == 4 * pairs * 16
    assert paths["sdpa"].flops == 2 * pairs * 16  # half of the pairs are visible
    assert paths["sdpa"].bytes == 0
    assert paths["materialised"].bytes == 3 * pairs * 4


def test_a_path_need_not_count_what_it_takes() -> None:
    class Uncounted:
        name = "uncounted"

        def refuses(self, *arguments: object) -> list[str]:
            return []

        def run(self, formula: object, query: torch.Tensor, *arguments: object, **named: object) -> torch.Tensor:
            return query

    x = torch.randn(1, 1, 3, 4)
    plan = Attention(paths=(Uncounted(), MaterialisedPath())).plan(x, x)
    assert math.isnan(plan.paths[0].flops)
    assert [line.split()[:3] for line in plan.table().splitlines()] == [
        ["→", "uncounted", "it"],
        ["materialised", "0.0", "MFLOP"],
    ]


def test_without_a_path_that_accepts_the_reasons_are_given() -> None:
    additive = AdditiveConfig().build(query_dim=4, key_dim=4)
    x = torch.randn(1, 1, 3, 4)
    assert refusal(Attention(additive, paths=(SDPAPath(),)), x, x, x) == (
        "No path accepts this attention (sdpa: Additive is not a dot product). "
        "Add `materialised`, which accepts every one."
    )


def test_it_prints_its_parts() -> None:
    assert repr(Attention(Dot(), visibility=causal() & padding())) == (
        "Attention(score=Dot(), visibility=causal() & padding(), normaliser=Softmax())"
    )
    general = Attention(GeneralConfig().build(query_dim=2, key_dim=3))
    assert repr(general) == (
        "Attention(\n  visibility=everything(), normaliser=Softmax()\n"
        "  (score): General(query_dim=2, key_dim=3, num_heads=1)\n)"
    )
    assert isinstance(general, nn.Module)
    assert len(list(general.parameters())) == 1


def refusal(attention: Attention, *inputs: Tensor, at: Positions | None = None) -> str:
    with pytest.raises(ValueError, match=r"`|No|compares|needs") as refused:
        attention.run(*inputs, at=at)
    return str(refused.value)


def test_a_cache_must_say_where_its_query_stands() -> None:
    query, key = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 3, 4)
    assert refusal(Attention(visibility=window(left=1, right=0)), query, key, key) == (
        "window(left=1, right=0) compares positions, but 1 queries and 3 keys do not say where they stand. "
        "Pass at=Positions.of(query=..., key=..., query_start=...)."
    )
    at = Positions.of(1, 3, query_start=2)
    assert Attention(visibility=causal()).explain(query, key, key, at=at).visible.all()
    assert Attention(visibility=padding()).run(query, key, key).shape == (1, 1, 1, 4)  # reads no query position


def test_positions_for_other_tensors_are_refused() -> None:
    x = torch.randn(1, 1, 4, 4)
    assert refusal(Attention(), x, x, x, at=Positions.of(3, 4)) == (
        "`query` has 4 positions, but `at` places 3. Build `at` for the tensors you pass."
    )
    assert refusal(Attention(), x, x, x, at=Positions.of(4, 6)) == (
        "`key` has 4 positions, but `at` places 6. Build `at` for the tensors you pass."
    )


def test_batches_and_heads_must_fit(unchecked: None) -> None:
    query, key = torch.randn(2, 4, 3, 8), torch.randn(2, 3, 3, 8)
    assert refusal(Attention(), query, key, key) == (
        "`query` has batch 2 and 4 heads, `key` 2 and 3: batches must be equal, and the key's heads must divide "
        "the query's."
    )
    key, value = torch.randn(2, 4, 3, 8), torch.randn(2, 4, 5, 8)
    assert refusal(Attention(), query, key, value) == (
        "`key` is (2, 4, 3, 8) and `value` (2, 4, 5, 8): batch, heads and length must be equal."
    )
    assert refusal(Attention(), query[:, 0], key, value) == (
        "`query` has shape (2, 3, 8), but attention takes `batch heads length dim`. "
        "Without heads, insert an axis: query[:, None]; without a batch, query[None]."
    )


def test_dot_products_need_one_width() -> None:
    query, key = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 3, 6)
    assert refusal(Attention(), query, key, key) == (
        "ScaledDot needs queries and keys of one width, got 4 and 6. "
        "Project one of them, or use General or Additive, which join different widths."
    )


def test_a_step_gives_the_context_and_its_weights_and_is_recorded() -> None:
    attention, x = Attention(visibility=causal()), torch.randn(1, 1, 4, 3)
    expected = attention.explain(x, x, x)
    with record(attention) as recording:
        context, weights = attention.step(x, x, x)
    assert torch.equal(context, expected.context)
    assert torch.equal(weights, expected.weights)
    assert len(recording) == 1


def test_a_part_with_weights_may_be_exchanged_for_one_without() -> None:
    attention, x = Attention(GeneralConfig().build(query_dim=4, key_dim=4), normaliser=Hard()), torch.randn(1, 1, 3, 4)
    attention.run(x, x, x)
    attention.score, attention.normaliser = ScaledDot(), Softmax()
    torch.testing.assert_close(attention.run(x, x, x), Attention().run(x, x, x))
    assert not list(attention.parameters())


@pytest.mark.parametrize("trained", [True, False])
def test_under_another_rule_an_attention_keeps_its_bias_and_refuses_a_second(trained: bool) -> None:
    torch.manual_seed(0)
    bias = RelativeBuckets(num_heads=2) if trained else Alibi(num_heads=2)
    rule, x = edges([[0, 1, 2], [1, 0, 0]]), torch.randn(1, 2, 3, 4)
    attention, direct = Attention(Dot(), bias=bias), Attention(Dot(), bias=bias, visibility=rule)
    under = attention.over(rule)
    assert under.bias is bias
    assert [*under.parameters()] == [*direct.parameters()]
    at = Positions.of(3, 3)
    torch.testing.assert_close(under.run(x, x, x, at=at), direct.run(x, x, x, at=at))
    assert torch.equal(under.explain(x, x, x, at=at).scores, direct.explain(x, x, x, at=at).scores)
    with pytest.raises(ValueError, match="has a bias of its own, and `bias` is another"):
        attention.over(rule, bias=Alibi(num_heads=2))
    assert Attention(Dot()).over(rule, bias=bias).bias is bias


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's kernel maps one after another
@pytest.mark.parametrize("rule", [causal(), window(left=2, right=0), everything()], ids=str)
def test_torch_func_maps_over_examples_and_their_gradients(rule: Visibility) -> None:
    x, attention = torch.randn(3, 1, 2, 6, 16), Attention(visibility=rule)

    def loss(part: Tensor) -> Tensor:
        return attention.run(part, part, part).square().sum()

    whole = torch.stack([attention.run(part, part, part) for part in x])
    torch.testing.assert_close(vmap(lambda part: attention.run(part, part, part))(x), whole)
    whole = x.clone().requires_grad_()
    loss(whole.flatten(0, 1)).backward()
    torch.testing.assert_close(vmap(grad(loss))(x), whole.grad, rtol=1e-4, atol=1e-5)
