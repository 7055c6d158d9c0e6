"""Sizes, numbers and choices that a part cannot have are refused where it is made, by name; parts print as code."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from foveate import attention as algebra
from foveate.attention import (
    Additive,
    AdditiveConfig,
    Alibi,
    Attention,
    Cosine,
    Entmax,
    GATScore,
    Gaussian,
    General,
    Hard,
    Location,
    LocationAware,
    PredictedCentre,
    QKNorm,
    RelativeBuckets,
    Rotary,
    ScaledDot,
    ShawRelative,
    Sigmoid,
    Softmax,
    causal,
    efficient,
    everything,
    padding,
)
from foveate.attention.check import described
from foveate.attention.efficient import (
    LinearAttention,
    LinearConfig,
    LinformerAttention,
    LocalBlockConfig,
    LongformerConfig,
    PerformerAttention,
    ReformerAttention,
    SinkhornAttention,
    SparseConfig,
    SynthesizerConfig,
)

WHOLE, NUMBER = "must be a whole number.", "must be a number."
MASK = torch.ones(5, 5, dtype=torch.bool)
WIDTHS: dict[str, Any] = {"query_dim": 8, "key_dim": 8}


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: General(query_dim=0, key_dim=8), ValueError, "query_dim=0 must be at least 1."),
        (lambda: General(query_dim=8.0, key_dim=8), TypeError, f"query_dim=8.0 {WHOLE}"),
        (lambda: General(**WIDTHS, num_heads=0), ValueError, "num_heads=0 must be at least 1."),
        (lambda: Additive(**WIDTHS, hidden_dim=-1), ValueError, "hidden_dim=-1 must be at least 1."),
        (lambda: AdditiveConfig(hidden_dim=0), ValueError, "hidden_dim=0 must be at least 1."),
        (lambda: Cosine(beta="x"), TypeError, f"beta='x' {NUMBER}"),
        (lambda: Cosine(eps=0), ValueError, "eps=0 must be positive."),
        (lambda: Location(query_dim=8, max_length=-1), ValueError, "max_length=-1 must be at least 1."),
        (lambda: LocationAware(**WIDTHS, hidden_dim=4, width=-1), ValueError, "width=-1 must be at least 1."),
        (lambda: ShawRelative(head_dim=8, radius=1.5), TypeError, f"radius=1.5 {WHOLE}"),
        (lambda: ShawRelative(head_dim=8, radius=-1), ValueError, "radius=-1 must be at least 0."),
        (lambda: GATScore(dim=0), ValueError, "dim=0 must be at least 1."),
        (lambda: ScaledDot(scale="1"), TypeError, f"scale='1' {NUMBER}"),
        (lambda: ScaledDot(scale=torch.tensor(2.0)), TypeError, f"scale=tensor(2.) {NUMBER}"),
        (lambda: PredictedCentre(query_dim=8, hidden_dim=0), ValueError, "hidden_dim=0 must be at least 1."),
        (lambda: Alibi(0), ValueError, "num_heads=0 must be at least 1."),
        (lambda: Alibi("8"), TypeError, f"num_heads='8' {WHOLE}"),
        (lambda: Gaussian(0), ValueError, "sigma=0 must be positive."),
        (lambda: RelativeBuckets(num_heads=4, num_buckets=3), ValueError, "num_buckets=3 must be at least 4"),
        (lambda: RelativeBuckets(num_heads=4, max_distance=8), ValueError, "max_distance=8 must exceed 8"),
        (lambda: Rotary(layout="x"), ValueError, "layout cannot be 'x'. Choose one of: 'interleaved', 'halves'"),
        (lambda: Rotary(base=-1.0), ValueError, "base=-1.0 must be positive."),
        (lambda: QKNorm(head_dim=8, norm="rsm"), ValueError, "is none of 'l2', 'rms', 'layer'. Did you mean 'rms'?"),
        (lambda: QKNorm(head_dim=0), ValueError, "head_dim=0 must be at least 1."),
        (lambda: Softmax(temperature="1"), TypeError, f"temperature='1' {NUMBER}"),
        (lambda: Softmax(temperature=math.nan), ValueError, "temperature=nan must be finite."),
        (lambda: Sigmoid(bias=None), TypeError, f"bias=None {NUMBER}"),
        (lambda: Entmax(alpha=math.inf), ValueError, "alpha=inf must be finite."),
        (lambda: Hard(mode="x"), ValueError, "mode='x' is none of 'argmax', 'sample', 'straight_through', 'gumbel'."),
        (lambda: Hard(mode="sample", expectation=2), ValueError, "expectation=2 must be at least 0 and below 1"),
        (lambda: Attention(kind="x"), ValueError, "kind='x' is none of 'self', 'cross'."),
        (lambda: LinearConfig(eps=-1.0), ValueError, "eps=-1.0 must not be negative."),
        (lambda: PerformerAttention(head_dim=0), ValueError, "head_dim=0 must be at least 1."),
        (lambda: PerformerAttention(head_dim=8, num_features=1.5), TypeError, f"num_features=1.5 {WHOLE}"),
        (lambda: LinformerAttention(max_length=0, projected_length=2), ValueError, "max_length=0 must be at least 1."),
        (
            lambda: LinformerAttention(max_length=9, projected_length=2, share="all"),
            ValueError,
            "share='all' is none of 'none', 'heads', 'key_value'.",
        ),
        (lambda: ReformerAttention(head_dim=8, buckets=0), ValueError, "buckets=0 must be at least 1."),
        (lambda: ReformerAttention(head_dim=8, rounds=0), ValueError, "rounds=0 must be at least 1."),
        (lambda: ReformerAttention(head_dim=8, chunk=0), ValueError, "chunk=0 must be at least 1."),
        (lambda: SinkhornAttention(head_dim=8, block=0), ValueError, "block=0 must be at least 1."),
        (lambda: SinkhornAttention(head_dim=8, iterations=-1), ValueError, "iterations=-1 must be at least 0."),
        (lambda: SinkhornAttention(head_dim=8, temperature=0), ValueError, "temperature=0 must be positive."),
        (lambda: SynthesizerConfig(form="densee"), ValueError, "Did you mean 'dense'?"),
        (lambda: LocalBlockConfig(block=0), ValueError, "A block has 0 positions: at least 1 is needed."),
        (
            lambda: SparseConfig(block=2, summaries=3),
            ValueError,
            "A block of 2 has no 3 last positions: choose 1 to 2.",
        ),
        (lambda: LongformerConfig(window=3), ValueError, "window=3 must be even."),
        (lambda: efficient.BigbirdConfig(random=-1), ValueError, "random=-1 must be at least 0."),
        (
            lambda: efficient.BigbirdConfig().build(**WIDTHS, visibility=MASK, kind="self"),
            TypeError,
            "`visibility` is a tensor of shape (5, 5).",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_part_cannot_be_made_with(
    unchecked: None, make: Callable[[], Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind) as refused:
        make()
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "part",
    [
        Cosine(beta=2.0, num_heads=3),
        Cosine(learned=True, num_heads=3),
        QKNorm(head_dim=4, norm="l2"),
        Softmax(temperature=1 / 3),
        LinearAttention(eps=1e-6, visibility=causal()),
        LinformerAttention(max_length=8, projected_length=2, num_heads=3, share="none", visibility=padding()),
        ReformerAttention(head_dim=8, buckets=4),
        SinkhornAttention(head_dim=8, num_heads=4, visibility=causal()),
    ],
    ids=repr,
)
def test_a_part_prints_as_code_that_makes_its_like(unchecked: None, part: Any) -> None:
    built = eval(repr(part), {**vars(algebra), **vars(efficient)})
    assert repr(built) == repr(part)
    if isinstance(part, torch.nn.Module):
        shapes = ({name: tensor.shape for name, tensor in one.state_dict().items()} for one in (built, part))
        assert next(shapes) == next(shapes)
    else:
        assert built == part


def test_long_things_are_described_in_few_words() -> None:
    assert described(MASK) == "a tensor of shape (5, 5)"
    assert described(MASK.numpy()) == "an array of shape (5, 5)"
    assert described(list(range(99))).endswith(" …")
    assert described(everything) == "the function everything"
