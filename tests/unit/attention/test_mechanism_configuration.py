"""An attention from plain data, part by part."""

import math
import re
import tomllib
from dataclasses import replace
from typing import Any

import pytest
import torch

from foveate.attention import (
    AdditiveConfig,
    AlibiConfig,
    AttentionConfig,
    Entmax,
    Positions,
    Rotary,
    Sparsemax,
    Visibility,
    causal,
    padding,
    window,
)
from foveate.config import build, to_dict, to_toml
from foveate.errors import UsageError
from foveate.models import LuongConfig


def test_every_part_has_a_name() -> None:
    config = build(
        AttentionConfig,
        {
            "score": "additive",
            "visibility": "causal() & window(left=128, right=0)",
            "bias": "alibi",
            "transforms": [{"kind": "rotary", "base": 500.0}, "qk_norm"],
            "normaliser": {"kind": "entmax", "alpha": 1.3},
        },
    )
    assert config.score == AdditiveConfig()
    built = config.build(query_dim=4, key_dim=4, num_heads=2, visibility=padding())
    assert built.visibility == padding() & causal() & window(left=128, right=0)
    x = torch.randn(1, 2, 3, 4)
    assert built.run(x, x, x).shape == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("score", '"dot"'),
        ("score", '{ kind = "scaled_dot", scale = 0.3 }'),
        ("score", '"general"'),
        ("score", '"additive"'),
        ("score", '{ kind = "cosine", beta = 5.0, learned = true }'),
        ("score", '{ kind = "location", max_length = 40 }'),
        ("score", '{ kind = "location_aware", channels = 3, width = 5 }'),
        ("score", '{ kind = "shaw_relative", radius = 4 }'),
        ("normaliser", '{ kind = "softmax", temperature = 0.5 }'),
        ("normaliser", '{ kind = "relu", normalised = false }'),
        ("normaliser", '{ kind = "sigmoid", bias = -1.5 }'),
        ("normaliser", '"sparsemax"'),
        ("normaliser", '"entmax"'),
        ("normaliser", '{ kind = "hard", mode = "sample", expectation = 0.5 }'),
        ("bias", '"alibi"'),
        ("bias", '{ kind = "gaussian", sigma = 3.0 }'),
        ("bias", '{ kind = "relative_buckets", bidirectional = false }'),
        ("transforms", '[{ kind = "rotary", dims = 2, layout = "halves" }, { kind = "qk_norm", norm = "l2" }]'),
    ],
)
def test_one_line_of_toml_chooses_every_part(part: str, value: str) -> None:
    """And what is chosen is written as TOML that chooses the same, and computes."""
    config = build(AttentionConfig, tomllib.loads(f"{part} = {value}"))
    assert config != AttentionConfig()
    assert build(AttentionConfig, tomllib.loads(to_toml(config))) == config
    attention = config.build(query_dim=4, key_dim=4, num_heads=2, visibility=padding())
    x = torch.randn(1, 2, 3, 4)
    at = replace(Positions.of(3, 3), previous=torch.full((1, 2, 3, 3), 1 / 3))
    context = attention.run(x, x, x, at=at)
    assert context.shape == (1, 2, 3, 4)
    assert context.isfinite().all()


@pytest.mark.parametrize(
    "value",
    [
        '"local_monotonic"',
        '{ kind = "local_predictive", window = 3, score = "dot", renormalise = true }',
        '"attention"',
    ],
)
def test_one_line_of_toml_chooses_a_mechanism(value: str) -> None:
    config = build(LuongConfig, tomllib.loads(f"attention = {value}"))
    assert build(LuongConfig, tomllib.loads(to_toml(config))) == config


def test_a_configuration_comes_back_from_what_it_writes() -> None:
    config = AttentionConfig(visibility=~causal() | window(left=math.inf, right=1))
    assert build(AttentionConfig, to_dict(config)) == config
    assert 'visibility = "~causal() | window(left=math.inf, right=1)"' in to_toml(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("casual()", "there is no visibility rule 'casual'. Did you mean 'causal'?"),
        ("causal() + window(left=1, right=0)", "is not a visibility rule. Write one as code"),
        ("causal(", "cannot be read as a visibility rule"),
        ("window(left=1)", "cannot be read as a visibility rule"),
        ("window(left=-1, right=0)", "neither may be negative"),
        ("__import__('os').system('true')", "is not a visibility rule"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(UsageError, match="visibility") as error:
        build(AttentionConfig, {"visibility": text}, where="model")
    assert message in str(error.value)


def test_a_rule_prints_as_the_code_that_makes_it() -> None:
    rule = causal() & ~(window(left=2, right=0) | padding())
    assert Visibility.parse(str(rule)) == rule


def test_padding_by_lengths_is_cut_where_keys_are_cut() -> None:
    rule, at = padding(torch.tensor([3])), Positions.of(2, 5)
    assert rule(at.columns(slice(2, 5))).flatten().tolist() == [True, False, False]


def test_python_may_name_kinds_as_configurations_do(unchecked: None) -> None:
    message = AttentionConfig(
        score="additive",  # type: ignore[arg-type]
        normaliser={"kind": "entmax", "alpha": 1.25},  # type: ignore[arg-type]
        visibility="window(left=2, right=0)",  # type: ignore[arg-type]
        bias="alibi",  # type: ignore[arg-type]
        transforms=["rotary"],  # type: ignore[arg-type]
    )
    assert message == AttentionConfig(
        score=AdditiveConfig(),
        normaliser=Entmax(alpha=1.25),
        visibility=window(left=2, right=0),
        bias=AlibiConfig(),
        transforms=(Rotary(),),
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"normaliser": "sparsmax"}, r'normaliser.kind cannot be "sparsmax". Did you mean .sparsemax.\?'),
        ({"normaliser": Sparsemax}, "normaliser must be a table with a kind"),
        ({"score": 3}, "score must be a table with a kind"),
        ({"visibility": "windo(left=3)"}, r"Did you mean 'window'\?"),
        ({"visibility": len}, "visibility must be text"),
        ({"transforms": ["rotory"]}, r"transforms\[0\].kind cannot be"),
        ({"normaliser": "theirs:Kind"}, "names a class to import, which runs its code"),
    ],
)
def test_python_gets_the_messages_of_configurations(unchecked: None, parts: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        AttentionConfig(**parts)
    assert re.search(message, str(caught.value))
