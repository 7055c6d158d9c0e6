"""A classifier may subsample recordings: padding changes nothing, and the weights of its pooling have their times."""

import numpy as np
import pytest
import torch

from foveate.attention import record
from foveate.config import build, to_dict
from foveate.data.audio import AudioReader, AudioRows
from foveate.data.audio_file import Recording
from foveate.data.batch import Batch
from foveate.data.label import Labels
from foveate.models import BERTConfig, Classifier, ClassifierConfig
from foveate.nn import (
    BlockConfig,
    PlaneSubsamplingConfig,
    PyramidConfig,
    SubsamplingConfig,
    TransformerEncoderConfig,
    Vectors,
)
from foveate.nn.subsampling import AnySubsamplingConfig
from foveate.tasks.classify.use import RowClassifier

WIDTH, RATE = 6, 8_000
BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre")
SUBSAMPLINGS: list[AnySubsamplingConfig] = [
    SubsamplingConfig(factor=4, hidden_dim=8),
    PlaneSubsamplingConfig(factor=2, hidden_dim=8, maps=2),
    PyramidConfig(factor=2, hidden_dim=4),
]
EACH = pytest.mark.parametrize("subsampling", SUBSAMPLINGS, ids=lambda config: type(config).__name__)


def built(subsampling: AnySubsamplingConfig | None, width: int = WIDTH) -> Classifier:
    torch.manual_seed(0)
    encoder = TransformerEncoderConfig(block=BLOCK, num_layers=1)
    return ClassifierConfig(encoder=encoder, subsampling=subsampling).build(Vectors(width), 3).eval()


@EACH
def test_a_recording_gets_the_same_logits_alone_as_in_a_padded_batch(subsampling: AnySubsamplingConfig) -> None:
    model, generator = built(subsampling), np.random.default_rng(0)
    rows = [generator.normal(0, 1, (length, WIDTH)).astype(np.float32) for length in (13, 1, 22, 8)]
    batch = Batch.of(rows).widened(7)
    for row, array in zip(batch.values, rows, strict=True):
        row[len(array) :] = torch.nan
    together = model(batch)
    for logits, row in zip(together, rows, strict=True):
        torch.testing.assert_close(logits, model(Batch.of([row]))[0], rtol=1e-5, atol=1e-5)
    together.square().sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
    assert all(bool(weight.grad.any()) for weight in model.subsampling.parameters())


@EACH
def test_the_weights_of_the_pooling_stand_at_their_times(subsampling: AnySubsamplingConfig) -> None:
    reader = AudioReader(rate=RATE, bands=WIDTH)
    rows = AudioRows(settings=reader, mean=(9.0,) * WIDTH, deviation=(3.0,) * WIDTH)
    recording = Recording("noise", np.random.default_rng(1).normal(0, 0.1, 6_700).astype(np.float32), RATE)
    reading = RowClassifier(built(subsampling), rows, Labels(["a", "b", "c"]))
    frames, stride = len(rows.row(recording)), reading.model.stride
    trace = reading.trace(recording)
    track, pooling = trace.tracks["source"], trace.sites[-1]
    assert len(track.labels) == -(-frames // stride) < frames
    assert track.hop == pytest.approx(0.01 * stride)
    assert [float(label.removesuffix(" s")) for label in track.labels] == pytest.approx(
        [round(0.01 * stride * place, 2) for place in range(len(track.labels))]
    )
    with record(reading.model.pooling) as recorded, torch.inference_mode():
        reading.model(Batch.of([rows.row(recording)]))
    weights = recorded["attention"].weights()[0, 0, 0]
    assert len(weights) == len(track.labels)
    assert (pooling.query, pooling.key) == ("target", "source")
    alignment = reading.align(recording)
    assert list(alignment.source) == list(track.labels)
    np.testing.assert_allclose(alignment.weights[0], weights, atol=1e-6)


def test_subsampling_is_a_setting_that_runs_without_it_do_not_have() -> None:
    config = build(ClassifierConfig, {"subsampling": {"kind": "plane", "factor": 8}})
    assert config.subsampling == PlaneSubsamplingConfig(factor=8)
    assert build(ClassifierConfig, to_dict(config)) == config
    assert build(ClassifierConfig, {}).subsampling is None
    assert built(None).stride == 1
    assert not any("subsampling" in name for name in built(None).state_dict())


def test_what_cannot_be_subsampled_is_refused() -> None:
    with pytest.raises(ValueError, match="BERTConfig embeds by itself"):
        ClassifierConfig(encoder=BERTConfig(), subsampling=SubsamplingConfig())
    with pytest.raises(ValueError, match="the input is Tokens"):
        ClassifierConfig(subsampling=SubsamplingConfig()).build(50, 3)
