"""Tensors, positions and parts that do not fit each other are refused in words, by every verb, before anything runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from foveate.attention import (
    Additive,
    Alibi,
    Attention,
    Cosine,
    GATScore,
    GATv2Score,
    General,
    Location,
    LocationAware,
    Mechanism,
    Positions,
    PredictedCentre,
    QKNorm,
    RelativeBuckets,
    Rotary,
    ShawRelative,
    around,
    causal,
    everything,
    padding,
    predicate,
    same_segment,
)
from foveate.attention.efficient import (
    LinearAttention,
    LinformerAttention,
    PerformerAttention,
    ReformerAttention,
    SinkhornAttention,
    SynthesizerConfig,
)

X = torch.randn(2, 4, 5, 8)
HEADS = "The score was made for 3 heads, and is given 4. Build it with num_heads=4, or with num_heads=1"
ANSWER = "answers one query with shape (1, 3, 1, 5), and (2, 4, 1, 5) is needed, `batch heads query key`"
WIDTH = "The score was made for vectors of 6 numbers, and is given 8. Build it with the query_dim and key_dim"
ONE_WIDTH = "needs queries and keys of one width, got 8 and 6."
BEFORE = replace(Positions.of(5, 5), previous=torch.rand(2, 4, 5, 5))


def synthetic(form: Any, query_dim: int = 8) -> Mechanism:
    built = SynthesizerConfig(form=form, max_length=8)
    return built.build(query_dim=query_dim, key_dim=8, num_heads=3, visibility=everything(), kind="self")


def every_verb(make: Callable[[], Any], kind: type[Exception], says: str, *tensors: Any, at: Any = None) -> None:
    query, key, value = tensors or (X, X, X)
    calls: list[Callable[[Any], Any]] = [
        lambda site: site.run(query, key, value, at=at),
        lambda site: site.explain(query, key, value, at=at),
        lambda site: site.plan(query, key, at=at),
    ]
    for call in calls:
        with pytest.raises(kind) as refused:
            call(make())
        assert says in str(refused.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Attention(General(query_dim=8, key_dim=8, num_heads=3)), HEADS),
        (lambda: Attention(Additive(query_dim=8, key_dim=8, hidden_dim=6, num_heads=3)), HEADS),
        (lambda: Attention(Cosine(num_heads=3)), HEADS),
        (lambda: Attention(GATScore(dim=8, num_heads=3)), HEADS),
        (lambda: Attention(GATv2Score(query_dim=8, key_dim=8, hidden_dim=6, num_heads=3)), HEADS),
        (lambda: Attention(Location(query_dim=8, max_length=9, num_heads=3)), HEADS),
        (lambda: Attention(bias=Alibi(3)), f"`bias` {ANSWER}"),
        (lambda: Attention(bias=RelativeBuckets(num_heads=3)), f"`bias` {ANSWER}"),
        (lambda: Attention(reweight=Alibi(3)), f"`reweight` {ANSWER}"),
        (
            lambda: Attention(
                visibility=around(left=1, right=1), centre=PredictedCentre(query_dim=8, hidden_dim=8, num_heads=3)
            ),
            HEADS,
        ),
        (
            lambda: Attention(visibility=predicate(lambda at: (at.key >= 0).expand(1, 3, 1, -1))),
            f"`visibility` {ANSWER}",
        ),
        (lambda: SinkhornAttention(head_dim=8, num_heads=3), HEADS),
        (lambda: LinformerAttention(max_length=9, projected_length=2, num_heads=3, share="none"), HEADS),
        (lambda: synthetic("dense"), HEADS),
        (lambda: synthetic("random"), HEADS),
        (lambda: synthetic("factorised"), HEADS),
        (lambda: Attention(bias=lambda at: torch.zeros(1, 1, 5, 5)), "must read the positions that it is given"),
        (lambda: Attention(bias=lambda at: at.key <= at.query), "what hides is a rule: visibility=..."),
        (lambda: Attention(visibility=padding([1, 2, 3])), "`visibility` answers one query with shape (3, 1, 1, 5)"),
        (lambda: Attention(General(query_dim=6, key_dim=8)), WIDTH),
        (lambda: Attention(GATScore(dim=6)), WIDTH),
        (lambda: Attention(GATv2Score(query_dim=6, key_dim=8, hidden_dim=4)), WIDTH),
        (lambda: Attention(Location(query_dim=6, max_length=9)), WIDTH),
        (lambda: Attention(ShawRelative(head_dim=6, radius=2)), WIDTH),
        (lambda: PerformerAttention(head_dim=6), WIDTH),
        (lambda: ReformerAttention(head_dim=6), WIDTH),
        (lambda: SinkhornAttention(head_dim=6), WIDTH),
        (
            lambda: Attention(centre=PredictedCentre(query_dim=6, hidden_dim=8), visibility=around(left=1, right=1)),
            WIDTH,
        ),
        (
            lambda: Attention(transforms=[Rotary(dims=12)]),
            "Rotary turns dims=12 features, but the vectors have only 8.",
        ),
        (
            lambda: Attention(transforms=[QKNorm(head_dim=6)]),
            "QKNorm was made for head_dim=6, and is given vectors of 8",
        ),
        (lambda: Attention(lambda query, key: None), "`score` gives None, and (2, 4,"),
        (lambda: Attention(lambda query, key: (query @ key.mT)[:, 0]), "and (2, 4,"),
    ],
    ids=lambda result: result if isinstance(result, str) else "",
)
def test_parts_made_for_others_are_refused(unchecked: None, make: Callable[[], Any], says: str) -> None:
    every_verb(make, ValueError, says)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Attention(),
        lambda: Attention(ShawRelative(head_dim=8, radius=2)),
        LinearAttention,
        lambda: LinformerAttention(max_length=9, projected_length=2),
        lambda: ReformerAttention(head_dim=8),
        lambda: SinkhornAttention(head_dim=8),
    ],
)
def test_queries_and_keys_of_two_widths_are_refused(unchecked: None, make: Callable[[], Any]) -> None:
    every_verb(make, ValueError, ONE_WIDTH, X, X[..., :6], X)


def test_rotary_refuses_an_odd_width_and_none_instead_of_a_bias_is_not_a_tensor(unchecked: None) -> None:
    odd = X[..., :7]
    every_verb(lambda: Attention(transforms=[Rotary()]), ValueError, "7 features must be even", odd, odd, X)
    every_verb(lambda: Attention(bias=lambda at: None), TypeError, "`bias(positions)` is None. It must be a tensor.")


def test_one_head_is_not_made_many_by_a_score(unchecked: None) -> None:
    one = X[:, :1]
    score = General(query_dim=8, key_dim=8, num_heads=4)
    every_verb(lambda: Attention(score), ValueError, "made for 4 heads, and is given 1", one, one, one)
    every_verb(lambda: Attention(bias=Alibi(4)), ValueError, "shape (1, 4, 1, 5)", one, one, one)


@pytest.mark.parametrize("make", [Attention, LinearAttention, lambda: SinkhornAttention(head_dim=8)])
@pytest.mark.parametrize(
    ("tensors", "kind", "says"),
    [
        ((X, X, None), TypeError, "`value` is not a tensor, but NoneType. Attention weighs values"),
        ((X, X, X.numpy()), TypeError, "`value` is not a tensor, but ndarray. Try torch.as_tensor(value)."),
        ((X, X.tolist(), X), TypeError, "`key` is not a tensor, but list. Try torch.as_tensor(key)."),
        ((X[0], X[0], X[0]), ValueError, "`query` has shape (4, 5, 8), but attention takes `batch heads length dim`"),
        ((X[None], X[None], X[None]), ValueError, "Join the axes in front: query.flatten(0, 1)."),
        ((X[:, :0], X[:, :0], X[:, :0]), ValueError, "batches must be equal, and the key's heads must divide"),
        ((X.long(), X.long(), X.long()), ValueError, "Attention takes floating-point numbers, and `query` is int64"),
    ],
    ids=lambda result: str(result)[:30] if isinstance(result, str) else "",
)
def test_tensors_that_do_not_fit(
    unchecked: None, make: Callable[[], Any], tensors: tuple[Any, Any, Any], kind: type[Exception], says: str
) -> None:
    for verb in ("run", "explain"):
        with pytest.raises(kind) as refused:
            getattr(make(), verb)(*tensors)
        assert says in str(refused.value)


def test_weights_and_vectors_of_two_types_are_refused(unchecked: None) -> None:
    double = X.double()
    every_verb(
        lambda: Attention(General(query_dim=8, key_dim=8)),
        ValueError,
        "weights are float32, and the vectors float64. Pass one type of numbers: attention.to(torch.float64)",
        *(double,) * 3,
    )


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (
            lambda: Positions.of(5, 5, key_lengths=torch.tensor([1, 2, 3])),
            "`at.real` has shape (3, 1, 1, 5), and for these",
        ),
        (
            lambda: Positions(*(2 * (torch.arange(5),))),
            "`at.query` is a tensor of shape (5,), torch.int64, but it holds whole",
        ),
        (
            lambda: replace(Positions.of(5, 5), real=torch.ones(2, 1, 1, 5)),
            "`at.real` is a tensor of shape (2, 1, 1, 5), torch.f",
        ),
        (
            lambda: replace(Positions.of(5, 5), real=torch.ones(2, 5).bool()),
            "`at.real` is a tensor of shape (2, 5), torch.bool",
        ),
        (
            lambda: replace(Positions.of(5, 5), real=torch.ones(2, 1, 1, 4).bool()),
            "`at.real` has shape (2, 1, 1, 4), and for",
        ),
        (
            lambda: replace(Positions.of(5, 5), query_segment=torch.zeros(5)),
            "`at.query_segment` has shape (5,), and for",
        ),
        (
            lambda: replace(Positions.of(5, 5), previous=torch.zeros(2, 4, 5, 4)),
            "`at.previous` has shape (2, 4, 5, 4), and for",
        ),
    ],
    ids=lambda result: str(result)[:40] if isinstance(result, str) else "",
)
def test_positions_of_others_are_refused(unchecked: None, place: Callable[[], Positions], says: str) -> None:
    every_verb(lambda: Attention(visibility=padding()), ValueError, says, at=place())


def test_positions_are_counted_in_whole_numbers(unchecked: None) -> None:
    wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: Positions.of(5.0, 5), TypeError, "query=5.0 must be a whole number."),
        (lambda: Positions.of(X, X), TypeError, "query=a tensor of shape (2, 4, 5, 8) must be a whole number."),
        (lambda: Positions.of(-5, 5), ValueError, "query=-5 must be at least 0."),
        (lambda: Positions.of(5, 5, query_start=1.5), TypeError, "query_start=1.5 must be a whole number."),
        (lambda: Positions.of(5, 5, side="up"), ValueError, "side='up' is none of 'left', 'right'."),
        (lambda: Positions.of(5, 5, key_lengths=3), TypeError, "`key_lengths` is 3. Give the length of each example"),
        (lambda: Positions.of(5, 5, key_lengths=torch.ones(2, 5).bool()), TypeError, "mask.sum(-1) where a mask of"),
        (lambda: Positions.of(5, 5, key_lengths=torch.tensor([4.5, 3])), TypeError, "`key_lengths` is a tensor of"),
        (lambda: Positions.of(5, 5, key_lengths=[9, 3]), ValueError, "`key_lengths` go from 3 to 9, but there are 5"),
        (lambda: Positions.of(5, 5, key_lengths=[-1, 3]), ValueError, "`key_lengths` go from -1 to 3, but there are 5"),
    ]
    for make, kind, says in wrong:
        with pytest.raises(kind) as refused:
            make()
        assert says in str(refused.value)
    real = Positions.of(5, 5, key_lengths=np.array([5, 3])).real
    assert real is not None
    assert real.sum((1, 2, 3)).tolist() == [5, 3]


@pytest.mark.parametrize(
    ("attention", "says"),
    [
        (Attention(Additive(query_dim=8, key_dim=8, hidden_dim=6)), "Additive makes features of shape (2, 4, 5, 6)"),
        (Attention(), "ScaledDot makes features of shape (2, 4, 5, 8)"),
        (Attention(ShawRelative(head_dim=8, radius=2)), "ShawRelative makes none: nothing can be kept"),
        (Attention(transforms=[Rotary()]), "transforms change keys where they stand: nothing can be kept"),
    ],
)
def test_key_features_of_another_score_are_refused(unchecked: None, attention: Attention, says: str) -> None:
    attention.run(X, X, X)  # a choice that is remembered is none for other features
    with pytest.raises(ValueError, match=r"`key_features`") as refused:
        attention.run(X, X, X, key_features=torch.zeros(2, 4, 5, 3))
    assert says in str(refused.value)


def test_key_features_of_shared_keys_are_refused_with_a_way_out(unchecked: None) -> None:
    attention, key = Attention(Additive(query_dim=8, key_dim=8, hidden_dim=6)), X[:, :2]
    with pytest.raises(ValueError, match=r"attention.key_features\(key.repeat_interleave\(2, 1\)\)"):
        attention.run(X, key, key, key_features=attention.key_features(key))
    features = attention.key_features(key.repeat_interleave(2, 1))
    torch.testing.assert_close(attention.run(X, key, key, key_features=features), attention.run(X, key, key))


@pytest.mark.parametrize("dropout", [1.5, -0.1, "0.1", None, True])
def test_dropout_is_a_probability(unchecked: None, dropout: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a probability, from 0 to 1."):
        Attention().run(X, X, X, dropout=dropout)


def test_tensors_of_two_devices_are_refused(unchecked: None) -> None:
    far = X.to("meta")
    every_verb(Attention, ValueError, "one device, and `query` is cpu, `key` is meta, `at` is cpu.", X, far, far)


def test_location_aware_scores_need_the_step_before_of_all_keys(unchecked: None) -> None:
    score = LocationAware(query_dim=8, key_dim=8, hidden_dim=4, num_heads=3)
    with pytest.raises(ValueError, match="made for 3 heads"):
        Attention(score).run(X, X, X, at=BEFORE)


def test_nothing_can_be_planned_for(unchecked: None) -> None:
    for query, key in ((X[:0], X[:0]), (X[:, :, :0], X[:, :, :0]), (X, X[:, :, :0])):
        assert Attention().plan(query, key).chosen
        assert Attention().run(query, key, key).shape == query.shape


def test_segments_and_shared_weights_still_run() -> None:
    which = torch.tensor([0, 0, 1, 1, 1])
    packed = replace(Positions.of(5, 5), query_segment=which[None, None, :, None], key_segment=which[None, None, None])
    for site in (
        Attention(visibility=same_segment() & causal()),
        Attention(General(query_dim=8, key_dim=8), bias=Alibi(1)),
        Attention(Additive(query_dim=8, key_dim=8, hidden_dim=6, num_heads=4), bias=Alibi(4)),
    ):
        torch.testing.assert_close(
            site.run(X, X[:, :2], X[:, :2], at=packed),
            site.explain(X, X[:, :2], X[:, :2], at=packed).context,
            atol=1e-5,
            rtol=1e-4,
        )
