"""Encoders and poolings: one contract, and padding that changes nothing."""

from dataclasses import replace

import pytest
import torch

from foveate.attention import AnyMechanismConfig, AttentionConfig, Rotary, Sparsemax, record, window
from foveate.attention.efficient import EfficientConfig
from foveate.nn.encoder import (
    CNNEncoderConfig,
    EncoderConfig,
    RANEncoderConfig,
    RNNEncoderConfig,
    TransformerEncoderConfig,
    WindowEncoderConfig,
)
from foveate.nn.packing import Packing
from foveate.nn.pooling import (
    AttentionPoolingConfig,
    FirstPoolingConfig,
    MaxPoolingConfig,
    MeanPoolingConfig,
    PoolingConfig,
)
from foveate.nn.transformer_block import BlockConfig

BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=16, norm="pre")
ENCODERS: list[EncoderConfig] = [
    RNNEncoderConfig(hidden_dim=5, num_layers=2),
    RNNEncoderConfig(hidden_dim=5, cell="lstm", bidirectional=False),
    RNNEncoderConfig(hidden_dim=5, cell="lstm", num_layers=2, skip=True, layer_norm=True),
    RNNEncoderConfig(hidden_dim=5, cell="lecture_gru"),
    CNNEncoderConfig(hidden_dim=7),
    WindowEncoderConfig(hidden_dim=7, num_layers=2),
    WindowEncoderConfig(hidden_dim=7, window=2),
    TransformerEncoderConfig(block=BLOCK),
    RANEncoderConfig(model_dim=8, num_heads=2, head_dim=4, window=3),
]
POOLINGS: list[PoolingConfig] = [
    AttentionPoolingConfig(),
    MeanPoolingConfig(),
    MaxPoolingConfig(),
    FirstPoolingConfig(),
]
LENGTHS = torch.tensor([4, 7, 1])


def name(config: object) -> str:
    return type(config).__name__


@pytest.mark.parametrize("config", ENCODERS, ids=name)
def test_neither_padding_nor_neighbours_in_the_batch_change_a_vector(config: EncoderConfig) -> None:
    encoder, x = config.build_for(6).eval(), torch.randn(3, 9, 6)
    x[torch.arange(9) >= LENGTHS[:, None]] = float("nan")
    wide = encoder(x, packing=Packing(LENGTHS, 9))
    assert wide.shape == (3, 9, encoder.output_dim)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = encoder(x[row : row + 1, :length], packing=Packing(LENGTHS[row : row + 1], length))
        torch.testing.assert_close(wide[row, :length], alone[0], rtol=1e-5, atol=1e-5)
        assert not wide[row, length:].any()


@pytest.mark.parametrize("config", ENCODERS, ids=name)
def test_rows_without_tokens_give_nothing_and_change_nothing(config: EncoderConfig) -> None:
    encoder, lengths = config.build_for(6).double().eval(), torch.tensor([0, 4, 0, 7, 1, 0])
    x = torch.randn(6, 7, 6, dtype=torch.float64, requires_grad=True)
    results = []
    for rows in (torch.arange(6), lengths.nonzero()[:, 0]):
        encoded = encoder(x[rows], packing=Packing(lengths[rows], 7))
        loss = (encoded * torch.linspace(-1, 1, encoded[0].numel()).view_as(encoded[0])).sum()
        results.append((encoded, *torch.autograd.grad(loss, [x, *encoder.parameters()])))
    (with_empty, *gradients), (without, *expected) = results
    torch.testing.assert_close(with_empty[lengths > 0], without, rtol=0, atol=1e-12)
    assert not with_empty[lengths == 0].any()
    for gradient, one in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, one, rtol=1e-12, atol=1e-12)
    for empty in (torch.tensor([0, 0]), torch.tensor([0])):
        encoded = encoder(x[: len(empty), :0], packing=Packing(empty, 0))
        assert encoded.shape == (len(empty), 0, encoder.output_dim)
        assert not encoder(x[: len(empty)], packing=Packing(empty, 7)).any()


@pytest.mark.parametrize("config", ENCODERS, ids=name)
def test_packed_tokens_give_what_padded_ones_give_and_every_weight_learns(config: EncoderConfig) -> None:
    encoder, packing, x = config.build_for(6).eval(), Packing(LENGTHS, 7), torch.randn(3, 7, 6)
    packed = encoder(packing.pack(x), packing=packing)
    torch.testing.assert_close(packing.pack(encoder(x, packing=packing)), packed)
    (packed * torch.randn_like(packed)).sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in encoder.parameters())


@pytest.mark.parametrize(
    ("config", "sees"),
    [
        (WindowEncoderConfig(), {3}),
        (WindowEncoderConfig(window=1), {2, 3, 4}),
        (CNNEncoderConfig(width=3, num_layers=2), {1, 2, 3, 4, 5}),
        (RNNEncoderConfig(bidirectional=False), {0, 1, 2, 3}),
        (RNNEncoderConfig(), {0, 1, 2, 3, 4, 5, 6}),
        (TransformerEncoderConfig(), {0, 1, 2, 3, 4, 5, 6}),
        (RANEncoderConfig(window=3), {0, 1, 2, 3, 4, 5, 6}),
    ],
    ids=lambda value: name(value) if not isinstance(value, set) else "",
)
def test_what_the_vector_of_the_fourth_word_has_seen(config: EncoderConfig, sees: set[int]) -> None:
    encoder, packing = config.build_for(6).eval(), Packing(torch.tensor([7]), 7)
    x = torch.randn(7, 6, requires_grad=True)
    encoder(x, packing=packing)[3].pow(2).sum().backward()
    assert x.grad is not None
    assert {i for i in range(7) if x.grad[i].abs().max() > 1e-9} == sees


@pytest.mark.parametrize(
    "attention",
    [
        AttentionConfig(visibility=window(left=2, right=1)),
        AttentionConfig(transforms=(Rotary(),), normaliser=Sparsemax()),
        *(kind() for kind in EfficientConfig.__args__),
    ],
    ids=name,
)
def test_a_transformer_encoder_takes_any_mechanism_and_padding_changes_nothing(attention: AnyMechanismConfig) -> None:
    config = TransformerEncoderConfig(block=replace(BLOCK, encoder_attention=attention), num_layers=1)
    encoder, x, lengths = config.build_for(6).eval(), torch.randn(2, 9, 6), torch.tensor([5, 9])
    together = encoder(x, packing=Packing(lengths, 9))
    alone = encoder(x[:1, :5], packing=Packing(lengths[:1], 5))
    torch.testing.assert_close(together[0, :5], alone[0], rtol=1e-4, atol=1e-5)


def test_the_first_matrix_of_the_window_grows_with_every_word_let_in() -> None:
    sizes = [WindowEncoderConfig(window=w).build_for(10).first.joined.weight.numel() for w in (0, 1, 2)]
    assert sizes == [2560, 3 * 2560, 5 * 2560]


@pytest.mark.parametrize("config", POOLINGS, ids=name)
def test_pooling_sees_no_padding(config: PoolingConfig) -> None:
    pooling, x = config.build(6).eval(), torch.randn(3, 9, 6)
    wide = pooling(Packing(LENGTHS, 9).pack(x), packing=Packing(LENGTHS, 9))
    for row, length in enumerate(LENGTHS.tolist()):
        alone = pooling(x[row, :length], packing=Packing(LENGTHS[row : row + 1], length))
        torch.testing.assert_close(wide[row], alone[0])


@pytest.mark.parametrize("config", POOLINGS, ids=name)
def test_the_vector_of_an_empty_row_is_zero_and_the_others_stay(config: PoolingConfig) -> None:
    pooling, lengths = config.build(6).double().eval(), torch.tensor([0, 4, 0, 7, 1, 0])
    x = torch.randn(12, 6, dtype=torch.float64, requires_grad=True)
    pooled = pooling(x, packing=Packing(lengths, 7))
    expected = pooling(x, packing=Packing(lengths[lengths > 0], 7))
    torch.testing.assert_close(pooled[lengths > 0], expected, rtol=0, atol=1e-12)
    assert not pooled[lengths == 0].any()
    torch.testing.assert_close(*(torch.autograd.grad((each**2).sum(), x)[0] for each in (pooled, expected)))
    assert pooling(x[:0], packing=Packing(torch.tensor([0, 0]), 0)).tolist() == [[0.0] * 6] * 2


def test_the_recorded_weights_of_attention_pooling_make_its_vector() -> None:
    pooling, packing, x = AttentionPoolingConfig().build(6), Packing(LENGTHS, 7), torch.randn(3, 7, 6)
    with record(pooling) as recording:
        pooled = pooling(packing.pack(x), packing=packing)
    weights = recording["attention"].weights()[:, 0]
    torch.testing.assert_close((weights @ packing.unpack(packing.pack(x)))[:, 0], pooled)
    assert weights[2, 0].tolist() == pytest.approx([1, 0, 0, 0, 0, 0, 0])
