"""Rules that a model cannot have, because they speak of one batch or of several texts in a row, are refused."""

import pytest

from foveate.attention import AttentionConfig, Visibility
from foveate.nn.transformer_block import BlockConfig


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            "padding([1, 2])",
            "it contains the lengths of one batch, and a model processes many. padding() takes lengths from each",
        ),
        ("causal() | prefix([1, 2])", "prefix(3) is the same prefix for all rows"),
        ("same_segment()", "a model's batch holds one text a row, without segments"),
    ],
)
def test_rules_of_one_batch_are_refused(rule: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"^encoder_attention.visibility cannot be '") as refused:
        BlockConfig(encoder_attention=AttentionConfig(visibility=Visibility.parse(rule)))
    assert says in str(refused.value)


@pytest.mark.parametrize("rule", ["padding()", "prefix(3)", "causal() & padding()"])
def test_rules_for_any_batch_are_accepted(rule: str) -> None:
    BlockConfig(encoder_attention=AttentionConfig(visibility=Visibility.parse(rule)))
