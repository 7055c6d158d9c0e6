"""Copied weights make our blocks torch's Transformer layers, before and after the norm moved."""

import pytest
import torch
from torch import Tensor, nn

from foveate.attention import Positions
from foveate.nn import BlockConfig, DecoderBlock, EncoderBlock, MultiHeadAttention, Packing

ROUNDING = {"atol": 1e-12, "rtol": 0}
SOURCE, TARGET = torch.tensor([5, 2, 4]), torch.tensor([3, 6, 1])


def config(norm: str, activation: str) -> BlockConfig:
    return BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm=norm, activation=activation)


def settings(norm: str, activation: str) -> dict[str, object]:
    return {
        "d_model": 8,
        "nhead": 2,
        "dim_feedforward": 12,
        "activation": activation,
        "norm_first": norm == "pre",
        "batch_first": True,
        "dtype": torch.float64,
    }


def jiggle(module: nn.Module) -> nn.Module:
    """Biases and norms start as zeros and ones, where a mistake would not show."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for layer, weight, bias in zip((ours.query, ours.key, ours.value), weights, biases, strict=True):
        layer.load_state_dict({"weight": weight, "bias": bias})
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_rest(ours: EncoderBlock | DecoderBlock, theirs: nn.Module, norms: list[nn.Module]) -> None:
    ours.feedforward.expand.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.contract.load_state_dict(theirs.linear2.state_dict())
    for residual, norm in zip(norms, (theirs.norm1, theirs.norm2, getattr(theirs, "norm3", None)), strict=False):
        residual.norm.load_state_dict(norm.state_dict())


def hidden_padding(lengths: Tensor, length: int) -> Tensor:
    return torch.arange(length) >= lengths[:, None]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_encoder_block_is_torchs(norm: str, activation: str) -> None:
    theirs = jiggle(nn.TransformerEncoderLayer(**settings(norm, activation))).eval()
    ours = EncoderBlock(config(norm, activation)).double().eval()
    copy_attention(ours.attention, theirs.self_attn)
    copy_rest(ours, theirs, [ours.attention_residual, ours.feedforward_residual])
    x, packing = torch.randn(3, 5, 8, dtype=torch.float64), Packing(SOURCE, 5)

    # The keyword keeps torch on its plain path: the fused one returns zeros at padding.
    expected = theirs(x.requires_grad_(), src_key_padding_mask=hidden_padding(SOURCE, 5))
    found = ours(packing.pack(x), at=Positions.of(5, 5, key_lengths=SOURCE), packing=packing)

    torch.testing.assert_close(found, packing.pack(expected), **ROUNDING)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_decoder_block_is_torchs(norm: str, activation: str) -> None:
    theirs = jiggle(nn.TransformerDecoderLayer(**settings(norm, activation))).eval()
    ours = DecoderBlock(config(norm, activation)).double().eval()
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy_rest(ours, theirs, [ours.attention_residual, ours.cross_residual, ours.feedforward_residual])
    memory, x = torch.randn(3, 5, 8, dtype=torch.float64), torch.randn(3, 6, 8, dtype=torch.float64)
    source, target = Packing(SOURCE, 5), Packing(TARGET, 6)

    expected = theirs(
        x,
        memory,
        tgt_mask=torch.ones(6, 6, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=hidden_padding(TARGET, 6),
        memory_key_padding_mask=hidden_padding(SOURCE, 5),
    )
    found = ours(
        target.pack(x),
        ours.cross_attention.remember(source.pack(memory), packing=source),
        at=Positions.of(6, 6),
        memory_at=Positions.of(6, 5, key_lengths=SOURCE),
        packing=target,
    )

    torch.testing.assert_close(found, target.pack(expected), **ROUNDING)
