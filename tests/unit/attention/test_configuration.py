"""An attention from plain data, part by part."""

import math

import pytest
import torch

from foveate.attention import AdditiveConfig, AttentionConfig, Positions, Visibility, causal, padding, window
from foveate.config import build, to_dict, to_toml
from foveate.errors import UsageError


def test_every_part_has_a_name() -> None:
    config = build(
        AttentionConfig,
        {
            "score": "additive",
            "visibility": "causal() & window(left=128, right=0)",
            "bias": {},
            "transforms": [{"base": 500.0}],
        },
    )
    assert config.score == AdditiveConfig()
    built = config.build(query_dim=4, key_dim=4, num_heads=2, visibility=padding())
    assert built.visibility == padding() & causal() & window(left=128, right=0)
    x = torch.randn(1, 2, 3, 4)
    assert built.run(x, x, x).shape == (1, 2, 3, 4)


def test_a_configuration_comes_back_from_what_it_writes() -> None:
    config = AttentionConfig(visibility=~causal() | window(left=math.inf, right=1))
    assert build(AttentionConfig, to_dict(config)) == config
    assert 'visibility = "~causal() | window(left=math.inf, right=1)"' in to_toml(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("casual()", "there is no visibility rule 'casual'. Did you mean 'causal'?"),
        ("causal() + window(left=1, right=0)", "is no visibility rule. Write one as code"),
        ("causal(", "cannot be read as a visibility rule"),
        ("window(left=1)", "cannot be read as a visibility rule"),
        ("window(left=-1, right=0)", "neither may be negative"),
        ("__import__('os').system('true')", "is no visibility rule"),
    ],
)
def test_a_rule_that_cannot_be_read_says_why(text: str, message: str) -> None:
    with pytest.raises(UsageError, match="visibility") as error:
        build(AttentionConfig, {"visibility": text}, where="model")
    assert message in str(error.value)


def test_a_rule_prints_as_the_code_that_makes_it() -> None:
    rule = causal() & ~(window(left=2, right=0) | padding())
    assert Visibility.parse(str(rule)) == rule


def test_padding_by_lengths_is_cut_where_keys_are_cut() -> None:
    rule, at = padding(torch.tensor([3])), Positions.of(2, 5)
    assert rule(at.columns(slice(2, 5))).flatten().tolist() == [True, False, False]
