"""Latency: the waits of all parts, in seconds."""

import pytest
import torch

from foveate.attention import AttentionConfig, Visibility, chunk, window
from foveate.models.recogniser import RecogniserConfig
from foveate.nn import BlockConfig, SubsamplingConfig, TransformerEncoderConfig, Vectors
from foveate.nn.latency import latency
from foveate.nn.stream import Chain, Pointwise


def recogniser(rule: Visibility, factor: int = 4, layers: int = 3) -> Chain:
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8, encoder_attention=AttentionConfig(visibility=rule))
    encoder = TransformerEncoderConfig(block=block, num_layers=layers)
    subsampling = SubsamplingConfig(factor=factor, hidden_dim=8)
    model = RecogniserConfig(subsampling=subsampling, encoder=encoder, decoder=None).build(Vectors(5), 4)
    return model.eval().stream()


def test_windows_of_layers_count_in_subsampled_frames() -> None:
    waits = latency(recogniser(window(left=9, right=2)), 0.01, window=0.025)
    # 25 ms, three frames of the convolutions, three layers of two outputs of 40 ms
    assert waits.worst == pytest.approx(0.025 + 0.03 + 3 * 2 * 0.04)
    assert waits.mean == waits.worst
    assert str(waits) == "295 ms (frames 25 ms, subsampling 30 ms, attention 3 × 80 ms)"


def test_chunks_wait_once_and_on_average_half() -> None:
    waits = latency(recogniser(chunk(16, left=2)), 0.01, window=0.025)
    assert waits.worst == pytest.approx(0.025 + 0.03 + 15 * 0.04)
    assert waits.mean == pytest.approx(0.025 + 0.03 + 7.5 * 0.04)
    parts = "frames 25 ms, subsampling 30 ms, attention 3 × 600 ms; chunks wait together"
    assert str(waits) == f"655 ms at most, 355 ms on average ({parts})"


def test_causal_layers_wait_for_the_frame_alone() -> None:
    chain = Chain([Pointwise(torch.neg)])
    assert str(latency(chain, 0.5, window=1.5)) == "1.50 s (frames 1.50 s)"
    assert latency(chain, 0.5).worst == 0.5
