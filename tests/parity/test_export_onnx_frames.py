"""Recognisers and classifiers of frames give the same numbers in ONNX Runtime, padding included."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

from foveate.attention import AttentionConfig, record, window
from foveate.data.batch import Batch
from foveate.errors import UsageError
from foveate.export import max_length, onnx_refusals, save_onnx
from foveate.models import ClassifierConfig, RecogniserConfig, SpellerConfig
from foveate.nn import (
    BlockConfig,
    CNNEncoderConfig,
    EncoderConfig,
    LearnedConfig,
    PlaneSubsamplingConfig,
    PyramidConfig,
    RANEncoderConfig,
    RNNEncoderConfig,
    SubsamplingConfig,
    TransformerEncoderConfig,
    Vectors,
    WindowEncoderConfig,
)
from foveate.nn.subsampling import AnySubsamplingConfig

WIDTH, VOCAB = 6, 9
LOGITS = 1e-5  # absolute, of log-probabilities of a few units: rounding of float32 sums
LENGTHS = (13, 1, 22, 8)
BLOCK = BlockConfig(
    model_dim=16,
    num_heads=2,
    feedforward_dim=24,
    norm="pre",
    encoder_attention=AttentionConfig(visibility=window(left=3, right=2)),
)
ENCODERS: dict[str, EncoderConfig] = {
    "Transformer in a window": TransformerEncoderConfig(block=BLOCK),
    "LSTM": RNNEncoderConfig(hidden_dim=8, cell="lstm"),
    "CNN": CNNEncoderConfig(hidden_dim=12),
    "window": WindowEncoderConfig(window=2, hidden_dim=12),
}
SUBSAMPLINGS: dict[str, AnySubsamplingConfig] = {
    "none": SubsamplingConfig(factor=1, hidden_dim=10),
    "convolution": SubsamplingConfig(factor=4, hidden_dim=10),
    "convolution of five frames": SubsamplingConfig(factor=2, hidden_dim=10, width=5),
    "plane": PlaneSubsamplingConfig(factor=4, hidden_dim=10, maps=3, spectra=2),
    "pyramid": PyramidConfig(factor=4, hidden_dim=5),
}


def recordings() -> Batch:
    generator = np.random.default_rng(0)
    return Batch.of([generator.normal(0, 1, (length, WIDTH)).astype(np.float32) for length in LENGTHS])


def shaken(model: nn.Module) -> Any:
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def run(folder: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_onnx_gives_the_log_probabilities_of_a_recogniser(encoder: str, subsampling: str, tmp_path: Any) -> None:
    config = RecogniserConfig(encoder=ENCODERS[encoder], subsampling=SUBSAMPLINGS[subsampling])
    model, source = shaken(config.build(Vectors(WIDTH), VOCAB)), recordings()
    save_onnx(model, tmp_path / "graph")
    values = torch.nn.functional.pad(source.values, (0, 0, 0, 3), value=7.0)
    for row, length in enumerate(LENGTHS):
        values[row, length:] = 7.0
    outputs = run(tmp_path / "graph", {"features": values.numpy(), "lengths": source.lengths.numpy()})
    with torch.no_grad():
        expected, lengths = model.ctc(source)
    assert outputs["output_lengths"].tolist() == lengths.tolist()
    for row, length in enumerate(lengths.tolist()):
        there = torch.from_numpy(outputs["log_probabilities"][row, :length])
        torch.testing.assert_close(there, expected[row, :length], rtol=0, atol=LOGITS)


def test_a_recogniser_of_ids_and_its_limit(tmp_path: Any) -> None:
    encoder = TransformerEncoderConfig(block=BLOCK, position=LearnedConfig(max_length=6))
    config = RecogniserConfig(encoder=encoder, decoder=SpellerConfig(), subsampling=SubsamplingConfig(factor=2))
    model, source = shaken(config.build(11, VOCAB)), Batch.of([[4, 5, 6, 7, 8], [9, 10]])
    assert max_length(model) == 12
    save_onnx(model, tmp_path / "graph")
    outputs = run(tmp_path / "graph", {"tokens": source.ids.numpy(), "lengths": source.lengths.numpy()})
    with torch.no_grad():
        expected, _ = model.ctc(source)
    torch.testing.assert_close(torch.from_numpy(outputs["log_probabilities"][0]), expected[0], rtol=0, atol=LOGITS)


def test_recognisers_without_a_graph_say_why(tmp_path: Any) -> None:
    ran = RecogniserConfig(encoder=RANEncoderConfig(model_dim=16, num_heads=2, head_dim=8))
    assert onnx_refusals(ran.build(Vectors(WIDTH), VOCAB)) == ["its encoder is a recurrent attention network"]
    attention = RecogniserConfig(decoder=SpellerConfig(), ctc_weight=0.0).build(Vectors(WIDTH), VOCAB)
    with pytest.raises(UsageError, match="it has no CTC"):
        save_onnx(attention, tmp_path / "graph")


@pytest.mark.parametrize("encoder", ENCODERS)
def test_onnx_gives_the_logits_of_a_classifier_of_frames(encoder: str, tmp_path: Any) -> None:
    model, source = shaken(ClassifierConfig(encoder=ENCODERS[encoder]).build(Vectors(WIDTH), 4)), recordings()
    save_onnx(model, tmp_path / "graph")
    outputs = run(tmp_path / "graph", {"features": source.values.numpy(), "lengths": source.lengths.numpy()})
    with torch.no_grad():
        expected = model(source)
    torch.testing.assert_close(torch.from_numpy(outputs["logits"]), expected, rtol=0, atol=LOGITS)


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_onnx_gives_the_logits_and_weights_of_a_classifier_with_subsampling(subsampling: str, tmp_path: Any) -> None:
    config = ClassifierConfig(encoder=ENCODERS["LSTM"], subsampling=SUBSAMPLINGS[subsampling])
    model, source = shaken(config.build(Vectors(WIDTH), 4)), recordings()
    save_onnx(model, tmp_path / "graph")
    outputs = run(tmp_path / "graph", {"features": source.values.numpy(), "lengths": source.lengths.numpy()})
    with torch.no_grad(), record(model.pooling) as recording:
        expected = model(source)
    weights = recording["attention"].weights()[:, 0, 0]
    torch.testing.assert_close(torch.from_numpy(outputs["logits"]), expected, rtol=0, atol=LOGITS)
    torch.testing.assert_close(torch.from_numpy(outputs["weights"]), weights, rtol=0, atol=LOGITS)


def test_the_limit_of_a_classifier_counts_frames() -> None:
    encoder = TransformerEncoderConfig(block=BLOCK, position=LearnedConfig(max_length=6))
    config = ClassifierConfig(encoder=encoder, subsampling=SubsamplingConfig(factor=4))
    assert config.positions == max_length(config.build(Vectors(WIDTH), 4)) == 24
