"""A recogniser reads frames and writes tokens: its lengths, its losses, its limits, and its refusals."""

import tomllib

import numpy as np
import pytest
import torch

from foveate.config import build
from foveate.data.batch import Batch
from foveate.errors import DataError
from foveate.models import Recogniser, RecogniserConfig
from foveate.nn import (
    BlockConfig,
    CNNEncoderConfig,
    EncoderConfig,
    LearnedConfig,
    PyramidConfig,
    RNNEncoderConfig,
    SubsamplingConfig,
    TransformerEncoderConfig,
    Vectors,
    WindowEncoderConfig,
)

WIDTH, VOCAB = 6, 9
BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre")
WINDOWED = '{ kind = "transformer", block = { encoder_attention = { visibility = "window(left=16, right=16)" } } }'
TARGETS = Batch.of([[1, 5, 6, 5, 2], [1, 7, 2], [1, 4, 4, 8, 2]])
ENCODERS: dict[str, EncoderConfig] = {
    "transformer": TransformerEncoderConfig(block=BLOCK, num_layers=1),
    "rnn": RNNEncoderConfig(cell="lstm", hidden_dim=5),
    "cnn": CNNEncoderConfig(hidden_dim=7),
    "window": WindowEncoderConfig(hidden_dim=7, window=2),
}


def recordings(*lengths: int) -> Batch:
    generator = np.random.default_rng(0)
    return Batch.of([generator.normal(0, 1, (length, WIDTH)).astype(np.float32) for length in lengths])


def small(encoder: EncoderConfig = ENCODERS["rnn"], factor: int = 2) -> Recogniser:
    torch.manual_seed(0)
    config = RecogniserConfig(subsampling=SubsamplingConfig(factor=factor, hidden_dim=8), encoder=encoder)
    return config.build(Vectors(WIDTH), VOCAB).eval()


@pytest.mark.parametrize("name", ENCODERS)
def test_every_output_has_a_distribution_over_labels(name: str) -> None:
    model = small(ENCODERS[name])
    log_probabilities, lengths = model.ctc(recordings(13, 8, 1))
    assert lengths.tolist() == [7, 4, 1]
    assert log_probabilities.shape == (3, 7, VOCAB)
    torch.testing.assert_close(log_probabilities.exp().sum(-1), torch.ones(3, 7))


@pytest.mark.parametrize("name", ENCODERS)
def test_the_loss_is_the_sum_over_rows_whatever_stands_beside_them(name: str) -> None:
    model, source = small(ENCODERS[name]).double(), recordings(13, 8, 17)
    together = model.loss(source, TARGETS)
    alone = [
        model.loss(Batch(source.values[row : row + 1, :length], source.lengths[row : row + 1]), target)
        for row, (length, target) in enumerate(
            zip(source.lengths.tolist(), ([[1, 5, 6, 5, 2]], [[1, 7, 2]], [[1, 4, 4, 8, 2]]), strict=True)
        )
        for target in [Batch.of(target)]
    ]
    torch.testing.assert_close(together, torch.stack(alone).sum(), rtol=0, atol=1e-10)


def test_the_loss_is_the_sum_over_all_paths() -> None:
    model, source = small(), recordings(6)
    log_probabilities, _ = model.ctc(source)
    paths = torch.cartesian_prod(*[torch.arange(VOCAB)] * 3)
    joined = [[token for token in torch.unique_consecutive(path).tolist() if token] for path in paths]
    scores = log_probabilities[0][torch.arange(3), paths].sum(-1)
    written = torch.tensor([tokens == [5, 7] for tokens in joined])
    expected = -scores[written].logsumexp(0)
    torch.testing.assert_close(model.loss(source, Batch.of([[1, 5, 7, 2]])), expected, rtol=1e-5, atol=1e-5)


def test_encoding_once_serves_ctc() -> None:
    model, source = small(), recordings(9, 4)
    encoded = model.encode(source)
    torch.testing.assert_close(model.ctc(encoded)[0], model.ctc(source)[0])


def test_a_visibility_is_one_line_of_a_configuration() -> None:
    settings = tomllib.loads(f"subsampling.factor = 1\nencoder = {WINDOWED}")
    config = build(RecogniserConfig, settings)
    assert str(config.encoder.block.encoder_attention.visibility) == "window(left=16, right=16)"


def test_a_transcript_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="row 2 has 3 frames for 3 tokens, which need 4"):
        small().loss(recordings(13, 8, 6), TARGETS)


def test_a_recogniser_without_decoder_says_so() -> None:
    model = small()
    with pytest.raises(TypeError, match="no decoder"):
        model.start(recordings(4))
    with pytest.raises(TypeError, match="no decoder"):
        model(recordings(4), Batch.of([[1, 5, 2]]))


def test_limits_of_the_encoder_count_outputs() -> None:
    encoder = TransformerEncoderConfig(block=BLOCK, num_layers=1, position=LearnedConfig(max_length=10))
    config = RecogniserConfig(encoder=encoder, subsampling=PyramidConfig(factor=4, hidden_dim=4))
    assert config.positions == config.build(Vectors(WIDTH), VOCAB).longest_source == 40
    assert RecogniserConfig().positions is None


def test_a_recogniser_reads_ids_too() -> None:
    model = RecogniserConfig(embedding_dim=6, encoder=ENCODERS["rnn"]).build(11, VOCAB).eval()
    _, lengths = model.ctc(Batch.of([[4, 5, 6, 7, 8], [3]]))
    assert lengths.tolist() == [2, 1]


def test_inference_in_bfloat16_is_near() -> None:
    model, source = small(ENCODERS["transformer"]), recordings(30, 12)
    with torch.inference_mode():
        exact, lengths = model.ctc(source)
        half, _ = model.to(torch.bfloat16).ctc(source)
    assert half.dtype is torch.float32
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(half[row, :length], exact[row, :length], rtol=0.05, atol=0.1)
