"""A recogniser reads frames and writes tokens: its lengths, its losses, its limits, and its refusals."""

import math
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from foveate.attention import AttentionConfig, record, window
from foveate.config import build
from foveate.data.batch import Batch
from foveate.errors import DataError, UsageError
from foveate.models import AnySpellerConfig, Recogniser, RecogniserConfig, SpellerConfig, TransformerSpellerConfig
from foveate.nn import (
    AnySubsamplingConfig,
    BlockConfig,
    CNNEncoderConfig,
    EncoderConfig,
    LearnedConfig,
    PlaneSubsamplingConfig,
    PyramidConfig,
    RNNEncoderConfig,
    SubsamplingConfig,
    TransformerEncoderConfig,
    Vectors,
    WindowEncoderConfig,
)
from foveate.nn.loss import cross_entropy
from foveate.tasks.transcribe.task import TranscribeConfig

WIDTH, VOCAB = 6, 9
BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre")
SAMPLED = {"kind": "hard", "mode": "sample"}
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


@pytest.mark.parametrize(
    "config", [SpellerConfig(), SpellerConfig(attention=AttentionConfig(), num_heads=2), TransformerSpellerConfig()]
)
def test_a_speller_does_not_read_padding(config: AnySpellerConfig) -> None:
    torch.manual_seed(0)
    speller, source = config.build_for(WIDTH, VOCAB).eval(), recordings(13, 8, 17)
    values = torch.full((3, 20, WIDTH), math.nan)
    for row, length in enumerate(source.lengths.tolist()):
        values[row, :length] = source.values[row, :length]
    expected, logits = speller(source, TARGETS), speller(Batch(values, source.lengths), TARGETS)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


def test_an_output_depends_on_the_frames_in_its_windows_only() -> None:
    """Two layers that see 3 outputs before and 1 after, each output from 4 frames."""
    attention = AttentionConfig(visibility=window(left=3, right=1))
    encoder = TransformerEncoderConfig(block=replace(BLOCK, encoder_attention=attention), num_layers=2)
    model, source = small(encoder, factor=4).double(), recordings(100)
    frames = source.values.double().requires_grad_(True)
    log_probabilities, _ = model.ctc(Batch(frames, source.lengths))
    reach = model.subsampling.look_ahead
    assert reach == 3
    for output in (0, 9, 14, 24):
        (grad,) = torch.autograd.grad(log_probabilities[0, output, 5], frames, retain_graph=True)
        read = grad[0].abs().sum(-1).nonzero().flatten().tolist()
        assert read[0] == max(4 * (output - 2 * 3) - reach, 0)
        assert read[-1] == min(4 * (output + 2 * 1) + reach, 99)


def test_a_transcript_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="row 2 has 3 frames for 3 tokens, which need 4"):
        small().loss(recordings(13, 8, 6), TARGETS)


def test_a_recogniser_without_decoder_says_so() -> None:
    model = small()
    with pytest.raises(TypeError, match="no decoder"):
        model.start(recordings(4))
    with pytest.raises(TypeError, match="no decoder"):
        model(recordings(4), Batch.of([[1, 5, 2]]))


@pytest.mark.parametrize("decoder", [SpellerConfig(), TransformerSpellerConfig()])
def test_the_loss_is_the_weighted_sum_of_its_parts(decoder: AnySpellerConfig) -> None:
    config = RecogniserConfig(encoder=ENCODERS["rnn"], subsampling=SubsamplingConfig(factor=2), decoder=decoder)
    model, source = config.build(Vectors(WIDTH), VOCAB).eval(), recordings(13, 8, 17)
    ctc, attention = model.losses(source, TARGETS)
    assert ctc is not None
    assert attention is not None
    torch.testing.assert_close(model.loss(source, TARGETS), 0.3 * ctc + 0.7 * attention)
    torch.testing.assert_close(attention, cross_entropy(model(source, TARGETS), model.predicted(TARGETS)))
    model.loss(source, TARGETS).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_without_a_share_there_is_no_ctc() -> None:
    config = RecogniserConfig(encoder=ENCODERS["rnn"], decoder=SpellerConfig(), ctc_weight=0.0)
    model, source = config.build(Vectors(WIDTH), VOCAB).eval(), recordings(13, 8, 17)
    assert model.losses(source, TARGETS).ctc is None
    with pytest.raises(TypeError, match="ctc_weight=0"):
        model.ctc(source)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ctc_weight": 1.5}, "ctc_weight is a share from 0 to 1"),
        ({"ctc_weight": 1.0, "decoder": {"kind": "recurrent"}}, "trains no decoder"),
        ({"decoder": {"kind": "recurrent", "num_heads": 0}}, "num_heads"),
        ({"decoder": {"kind": "recurrent", "attention": {"normaliser": SAMPLED}}}, "does not learn from rewards"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(RecogniserConfig, settings)


def test_several_heads_refuse_a_score_that_needs_the_step_before() -> None:
    with pytest.raises(ValueError, match="Location-aware attention needs the weights of the step before"):
        SpellerConfig(num_heads=2).build_for(8, VOCAB)


def test_encoding_once_serves_the_decoder() -> None:
    model, source = RecogniserConfig(decoder=SpellerConfig()).build(Vectors(WIDTH), VOCAB).eval(), recordings(9, 4)
    encoded, token = model.encode(source), torch.tensor([1, 1, 1, 1])
    _, one = model.step(model.start(encoded, 2), token)
    _, other = model.step(model.start(source, 2), token)
    torch.testing.assert_close(one, other)


def test_a_recording_shows_where_each_token_was_heard() -> None:
    model, source = RecogniserConfig(decoder=SpellerConfig()).build(Vectors(WIDTH), VOCAB).eval(), recordings(40, 24)
    target = Batch.of([[1, 5, 6, 2], [1, 7, 2]])
    with record(model) as recording, torch.no_grad():
        model(source, target)
    (cross,) = recording.of_kind("cross")
    weights = cross.weights()
    assert weights.shape == (2, 1, 3, 10)  # tokens × outputs, one for 4 frames
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(1, 3))
    assert not weights[1, :, :, 6:].any()


def test_limits_of_the_encoder_count_outputs() -> None:
    encoder = TransformerEncoderConfig(block=BLOCK, num_layers=1, position=LearnedConfig(max_length=10))
    config = RecogniserConfig(encoder=encoder, subsampling=PyramidConfig(factor=4, hidden_dim=4))
    assert config.positions == config.build(Vectors(WIDTH), VOCAB).longest_source == 40
    assert RecogniserConfig().positions is None


def test_a_recogniser_reads_ids_too() -> None:
    model = RecogniserConfig(embedding_dim=6, encoder=ENCODERS["rnn"]).build(11, VOCAB).eval()
    _, lengths = model.ctc(Batch.of([[4, 5, 6, 7, 8], [3]]))
    assert lengths.tolist() == [2, 1]


@pytest.mark.parametrize(
    "subsampling", [SubsamplingConfig(factor=2), PlaneSubsamplingConfig(factor=2), PyramidConfig()]
)
@pytest.mark.parametrize("decoder", [SpellerConfig(), TransformerSpellerConfig()])
def test_training_in_bfloat16_has_nearly_the_same_gradients(
    subsampling: AnySubsamplingConfig, decoder: AnySpellerConfig
) -> None:
    torch.manual_seed(0)
    config = RecogniserConfig(subsampling=subsampling, encoder=ENCODERS["transformer"], decoder=decoder)
    model, source = config.build(Vectors(WIDTH), VOCAB).eval(), recordings(33, 28, 37)
    gradients = []
    for half in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = model.loss(source, TARGETS)
        assert loss.dtype is torch.float32
        loss.backward()
        gradients.append(torch.cat([part.grad.flatten() for part in model.parameters() if part.grad is not None]))
    exact, near = gradients
    assert torch.cosine_similarity(exact, near, dim=0) > 0.99


def test_inference_in_bfloat16_is_near() -> None:
    model, source = small(ENCODERS["transformer"]), recordings(30, 12)
    with torch.inference_mode():
        exact, lengths = model.ctc(source)
        half, _ = model.to(torch.bfloat16).ctc(source)
    assert half.dtype is torch.float32
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(half[row, :length], exact[row, :length], rtol=0.05, atol=0.1)


def settings_on(page: str) -> list[str]:
    """The lines of the TOML blocks of a page: each is one setting of a recogniser, or of its run."""
    text = (Path(__file__).parents[3] / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def recogniser_by(line: str) -> Recogniser:
    """The recogniser of one line of TOML, under the first of its rules if there are any."""
    settings = tomllib.loads(line)
    if not {"views", "model"} & set(settings):
        return build(RecogniserConfig, settings).build(Vectors(12), VOCAB)
    config = build(TranscribeConfig, settings)
    model = config.model.build(Vectors(12), VOCAB)
    return model.under(config.views[0]) if config.views else model


@pytest.mark.parametrize("line", settings_on("docs/tasks/transcription.md"))
def test_every_setting_of_the_page_makes_a_recogniser_that_learns(line: str) -> None:
    source = Batch.of([np.ones((40, 12), np.float32), np.zeros((33, 12), np.float32)])
    loss = recogniser_by(line).loss(source, Batch.of([[1, 5, 2], [1, 6, 7, 2]]))
    loss.backward()
    assert loss.isfinite()
