"""Blocks: what is added, what is normalised, and what sees what."""

import pytest
import torch

from foveate.attention import AttentionConfig, HardConfig, LocationAwareConfig, Positions, window
from foveate.nn import BlockConfig, DecoderBlock, EncoderBlock, MultiHeadAttention, Packing

CONFIG = {"model_dim": 8, "num_heads": 2, "feedforward_dim": 12}


def test_the_defaults_are_the_base_model() -> None:
    base = BlockConfig()
    assert (base.model_dim, base.num_heads, base.feedforward_dim) == (512, 8, 2048)
    assert (base.norm, base.activation, base.dropout) == ("post", "relu", 0.1)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_an_encoder_block_is_its_formula(norm: str) -> None:
    block = EncoderBlock(BlockConfig(**CONFIG, norm=norm)).eval()
    x, at, packing = torch.randn(4, 8), Positions.of(4, 4), Packing(torch.tensor([4]), 4)
    one, two = block.attention_residual.norm, block.feedforward_residual.norm

    def attention(x: torch.Tensor) -> torch.Tensor:
        return block.attention(x[None])[0]

    if norm == "pre":
        middle = x + attention(one(x))
        expected = middle + block.feedforward(two(middle))
    else:
        middle = one(x + attention(x))
        expected = two(middle + block.feedforward(middle))
    torch.testing.assert_close(block(x, at=at, packing=packing), expected)


def test_a_block_of_ones_own_visibility() -> None:
    block = EncoderBlock(BlockConfig(**CONFIG), visibility=window(left=1, right=0)).eval()
    x, at, packing = torch.randn(5, 8), Positions.of(5, 5), Packing(torch.tensor([5]), 5)
    changed = x.clone()
    changed[0] += 1
    before, after = block(x, at=at, packing=packing), block(changed, at=at, packing=packing)
    assert ((before - after).abs().amax(-1) > 1e-6).tolist() == [True, True, False, False, False]


def test_sublayers_say_whether_they_look_at_themselves_or_across() -> None:
    block = DecoderBlock(BlockConfig(**CONFIG))
    assert (block.attention.attention.kind, block.cross_attention.attention.kind) == ("self", "cross")
    assert str(block.attention.attention.visibility) == "causal()"
    assert str(block.cross_attention.attention.visibility) == "padding()"


def test_dropout_is_noise_in_training_and_nothing_in_use() -> None:
    block = EncoderBlock(BlockConfig(**CONFIG, dropout=0.3))
    x, at, packing = torch.randn(4, 8), Positions.of(4, 4), Packing(torch.tensor([4]), 4)
    assert not torch.equal(block(x, at=at, packing=packing), block(x, at=at, packing=packing))
    block.eval()
    assert torch.equal(block(x, at=at, packing=packing), block(x, at=at, packing=packing))


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (
            AttentionConfig(score=LocationAwareConfig()),
            'cross_attention.score cannot be "location_aware": it needs the weights of the step before, and a '
            "Transformer computes all positions at once. Choose another score, or a recurrent decoder",
        ),
        (
            AttentionConfig(normaliser=HardConfig(mode="sample")),
            'cross_attention.normaliser.mode cannot be "sample": only recurrent decoders learn from sampled weights. '
            'Choose "straight_through" or "gumbel"',
        ),
    ],
)
def test_what_needs_one_step_after_the_other_is_refused(attention: AttentionConfig, message: str) -> None:
    with pytest.raises(ValueError, match="cannot be") as refusal:
        BlockConfig(cross_attention=attention)
    assert str(refusal.value) == message


def test_a_layer_that_attends_everywhere_at_once_knows_no_step_before() -> None:
    with pytest.raises(ValueError, match="step before") as refusal:
        MultiHeadAttention(query_dim=8, num_heads=2, attention=AttentionConfig(score=LocationAwareConfig()))
    assert str(refusal.value) == (
        "Location-aware attention needs the weights of the step before, but multi-head attention computes all queries "
        "at once. Choose another score, or a recurrent decoder."
    )
