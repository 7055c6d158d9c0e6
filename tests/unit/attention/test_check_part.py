"""What cannot be a part of an attention is refused in one sentence with a way out."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from foveate.attention import (
    AdditiveConfig,
    Alibi,
    AlibiConfig,
    Attention,
    Dot,
    GatConfig,
    GatV2Config,
    GeneralConfig,
    LocationConfig,
    Positions,
    Rotary,
    Softmax,
    causal,
    predicate,
)
from foveate.attention.efficient import LinformerAttention

MASK = torch.ones(5, 5, dtype=torch.bool).tril()
RULE = (
    "A rule tells from positions who may look at whom: predicate(lambda at: tensor[at.query, at.key]) for a tensor of "
    "`query key`, or padding() with at=Positions.of(..., key_lengths=...)."
)
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Attention(visibility=MASK), TypeError, f"`visibility` is a tensor of shape (5, 5). {RULE}"),
    (
        lambda: Attention(visibility=causal),
        TypeError,
        "`visibility` is the function causal. Give a rule, such as causal(), or a function of yours in predicate(...).",
    ),
    (
        lambda: LinformerAttention(max_length=9, projected_length=2, visibility=MASK),
        TypeError,
        f"`visibility` is a tensor of shape (5, 5). {RULE}",
    ),
    (
        lambda: Attention(score="dot"),
        TypeError,
        "`score` is 'dot'. Give a callable of queries and keys, such as ScaledDot().",
    ),
    (lambda: Attention(score=Dot), TypeError, "`score` is the class Dot. Make one of it: Dot(...)."),
    (
        lambda: Attention(score=AdditiveConfig()),
        TypeError,
        "`score` is the configuration AdditiveConfig. Build it first: AdditiveConfig(...).build(...).",
    ),
    (
        lambda: Attention(normaliser="softmax"),
        TypeError,
        "`normaliser` is 'softmax'. Give an object such as Softmax(), with `statistic` and `tile`.",
    ),
    (
        lambda: Attention(normaliser=Softmax),
        TypeError,
        "`normaliser` is the class Softmax. Make one of it: Softmax(...).",
    ),
    (
        lambda: Attention(bias=torch.zeros(5, 5)),
        TypeError,
        "`bias` is a tensor of shape (5, 5). Give a function of positions: "
        "bias=lambda at: tensor[..., at.query, at.key].",
    ),
    (
        lambda: Attention(bias=AlibiConfig()),
        TypeError,
        "`bias` is the configuration AlibiConfig. Build it first: AlibiConfig(...).build(...).",
    ),
    (
        lambda: Attention(reweight=2),
        TypeError,
        "`reweight` is 2. Give a function of positions, such as Alibi(num_heads=8).",
    ),
    (
        lambda: Attention(centre=2.5),
        TypeError,
        "`centre` is 2.5. Give a function of queries and positions, such as PredictedCentre(...).",
    ),
    (
        lambda: Attention(transforms=Rotary()),
        TypeError,
        "`transforms` is Rotary(base=10000.0, dims=None, layout='interleaved'). Give a sequence in the order of their "
        "use, such as [Rotary()].",
    ),
    (
        lambda: Attention(transforms=[Alibi(num_heads=2)]),
        TypeError,
        "`transforms` has Alibi(num_heads=2). Each needs `query` and `key`, as Rotary() has.",
    ),
    (
        lambda: Attention(paths=()),
        ValueError,
        "`paths` is empty, so nothing could run. Leave it out for all, or give one at least.",
    ),
    (
        lambda: Attention(paths=["sdpa"]),
        TypeError,
        "`paths` has 'sdpa'. Each needs `refuses` and `run`, as SDPAPath() has.",
    ),
    (
        lambda: Attention(paths="sdpa"),
        TypeError,
        "`paths` is 'sdpa'. Give a sequence of paths, or leave it out for all.",
    ),
]


@pytest.mark.parametrize(("make", "kind", "says"), WRONG, ids=[says[:40] for _, _, says in WRONG])
def test_a_part_of_the_wrong_type_is_refused_with_a_way_out(
    unchecked: None, make: Callable[[], Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind) as refused:
        make()
    assert str(refused.value) == says


def run(*changed: Any, **options: Any) -> Callable[[], Any]:
    def attend() -> Any:
        inputs = [torch.zeros(2, 2, 5, 8) for _ in range(3)]
        for place, change in enumerate(changed):
            inputs[place] = change(inputs[place])
        at = options.get("at")
        return Attention(options.get("score")).run(*inputs, at=at)

    return attend


def same(x: Any) -> Any:
    return x


INPUTS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (run(torch.Tensor.tolist), TypeError, "`query` is not a tensor, but list. Try torch.as_tensor(query)."),
    (
        run(torch.Tensor.long),
        ValueError,
        "Attention takes floating-point numbers, and `query` is int64, `key` is float32, `value` is float32. "
        "Pass tensor.float().",
    ),
    (
        run(same, same, torch.Tensor.double),
        ValueError,
        "Attention takes one type of numbers, and `query` is float32, `key` is float32, `value` is float64. "
        "Pass tensor.to(query.dtype).",
    ),
    (
        run(score=GeneralConfig().build(query_dim=4, key_dim=8)),
        ValueError,
        "The score was made for vectors of 4 numbers, and is given 8. Build it with the query_dim and key_dim of the "
        "tensors you pass.",
    ),
    (
        run(score=AdditiveConfig().build(query_dim=8, key_dim=4)),
        ValueError,
        "The score was made for vectors of 4 numbers, and is given 8. Build it with the query_dim and key_dim of the "
        "tensors you pass.",
    ),
    *(
        (
            run(score=config.build(query_dim=4, key_dim=4)),
            ValueError,
            "The score was made for vectors of 4 numbers, and is given 8. Build it with the query_dim and key_dim of "
            "the tensors you pass.",
        )
        for config in (LocationConfig(max_length=9), GatConfig(), GatV2Config())
    ),
    (
        run(at=3),
        TypeError,
        "`at` says where queries and keys stand: Positions.of(query=..., key=...), not 3.",
    ),
]


@pytest.mark.parametrize(("attend", "kind", "says"), INPUTS, ids=[says[:40] for _, _, says in INPUTS])
def test_inputs_that_do_not_fit_are_refused_with_a_way_out(
    unchecked: None, attend: Callable[[], Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind) as refused:
        attend()
    assert str(refused.value) == says


def test_under_autocast_types_may_differ() -> None:
    x = torch.randn(1, 2, 5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = Attention(visibility=causal()).run(x, x.bfloat16(), x.bfloat16())
    assert torch.allclose(mixed.float(), Attention(visibility=causal()).run(x, x, x), atol=0.05)


def test_the_way_out_of_a_tensor_is_the_rule_and_the_bias_it_meant() -> None:
    x, bias = torch.randn(1, 2, 5, 8), torch.randn(5, 5)
    answer = Attention(
        visibility=predicate(lambda at: MASK[at.query, at.key]), bias=lambda at: bias[..., at.query, at.key]
    )
    explanation = answer.explain(x, x, x, at=Positions.of(5, 5))
    plain = Attention(visibility=causal()).explain(x, x, x)
    assert torch.equal(explanation.visible, plain.visible)
    assert torch.allclose(explanation.scores, plain.scores + bias)
