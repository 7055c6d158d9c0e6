"""The text of a stream is that of the whole recording, whatever the sizes of the pieces."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.attention import AttentionConfig, Visibility, causal, chunk, window
from foveate.data.audio import AudioReader, AudioRows
from foveate.data.audio_file import Recording
from foveate.data.batch import Batch
from foveate.data.feature import VectorRows
from foveate.data.tokeniser import CharacterTokeniser
from foveate.decode import CTCConfig, prefix_search
from foveate.errors import DataError, UsageError
from foveate.models import Recogniser, RecogniserConfig
from foveate.nn import (
    BlockConfig,
    PlaneSubsamplingConfig,
    RNNEncoderConfig,
    SubsamplingConfig,
    TransformerEncoderConfig,
)
from foveate.tasks.transcribe.text_stream import TextStream
from foveate.tasks.transcribe.use import Transcriber

RATE = 8000
LETTERS = CharacterTokeniser.train(["one two three four five"])


def rows(**settings: Any) -> AudioRows:
    reader = AudioReader(rate=RATE, bands=12, **settings)
    width = reader.geometry.bands * reader.geometry.parts
    return AudioRows(settings=reader, mean=(9.0,) * width, deviation=(3.0,) * width)


def transformer(rule: Visibility) -> TransformerEncoderConfig:
    attention = AttentionConfig(visibility=rule)
    block = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=16, norm="pre", encoder_attention=attention)
    return TransformerEncoderConfig(block=block, num_layers=2)


def built(config: RecogniserConfig, vectors: AudioRows) -> Recogniser:
    torch.manual_seed(1)
    model = config.build(vectors.input, LETTERS.vocab_size).eval()
    with torch.no_grad():  # sharper than a model without training, so that texts have several letters
        model.ctc_output.weight.mul_(20)
        model.ctc_output.bias[0] -= 5
    return model


MODELS: list[tuple[RecogniserConfig, dict[str, Any]]] = [
    (RecogniserConfig(encoder=transformer(window(left=8, right=2))), {}),
    (RecogniserConfig(encoder=transformer(chunk(4, left=1)), subsampling=SubsamplingConfig(factor=2)), {"deltas": 2}),
    (
        RecogniserConfig(encoder=transformer(causal()), subsampling=PlaneSubsamplingConfig(maps=2)),
        {"normalisation": "running"},
    ),
    (
        RecogniserConfig(encoder=RNNEncoderConfig(bidirectional=False), subsampling=SubsamplingConfig(factor=1)),
        {"stack": 4, "stride": 3},
    ),
]


@pytest.mark.parametrize(("config", "chosen"), MODELS)
def test_the_text_of_pieces_is_that_of_the_recording(config: RecogniserConfig, chosen: dict[str, Any]) -> None:
    vectors, search = rows(**chosen), CTCConfig(beam=4, settle_after=8)
    model = built(config, vectors)
    stream = TextStream(model, vectors, LETTERS, search)

    @settings(max_examples=8)
    @given(
        pieces=st.lists(st.integers(0, 5000), min_size=1, max_size=8), end=st.integers(1, 4000), seed=st.integers(0, 9)
    )
    def holds(pieces: list[int], end: int, seed: int) -> None:
        certain: tuple[int, ...]
        samples = speechlike(sum(pieces) + end, seed)
        state, certain = stream.begin(), ()
        for piece in np.split(samples, np.cumsum(pieces))[:-1]:
            state, partial = stream.advance(state, piece, last=False)
            assert partial.tokens[: len(certain)] == certain
            certain = partial.tokens[: partial.certain]
        state, partial = stream.advance(state, samples[sum(pieces) :], last=True)
        assert partial.tokens[: len(certain)] == certain
        assert stream.text(partial) == whole(model, vectors, samples, search)

    holds()


def test_a_stream_writes_the_text_of_the_file_by_default() -> None:
    """Both settle after the same number of outputs: a search that waits until the end writes another text."""
    config, chosen = MODELS[0]
    vectors = rows(**chosen)
    transcriber = Transcriber(built(config, vectors), vectors, LETTERS)
    samples = speechlike(40 * RATE, 0)
    (transcript,) = transcriber.transcribe([Recording("tones", samples, RATE)])
    stream = transcriber.stream()
    _, partial = stream.advance(stream.begin(), samples, last=True)
    assert stream.text(partial) == transcript.text != whole(transcriber.model, vectors, samples, CTCConfig())


def speechlike(samples: int, seed: int) -> np.ndarray:
    """Tones that change every 80 ms."""
    generator = np.random.default_rng(seed)
    pitch = np.repeat(generator.uniform(150, 3000, samples // 640 + 1), 640)[:samples]
    loud = np.repeat(generator.uniform(0, 0.5, samples // 640 + 1), 640)[:samples]
    return (loud * np.sin(2 * np.pi * np.cumsum(pitch) / RATE)).astype(np.float32)


def whole(model: Recogniser, vectors: AudioRows, samples: np.ndarray, config: CTCConfig) -> str:
    row = vectors.row(Recording("tones", samples, RATE))
    if not len(row):
        return ""
    with torch.inference_mode():
        [[best]] = prefix_search(*model.ctc(Batch.of([row])), config)
    return LETTERS.decode(best.tokens)


def test_texts_of_the_law_have_many_letters() -> None:
    """The law compares more than empty texts."""
    for config, chosen in MODELS:
        vectors = rows(**chosen)
        text = whole(built(config, vectors), vectors, speechlike(16_000, 3), CTCConfig(beam=4))
        assert len(text) >= 4


def test_the_latency_counts_windows_subsampling_and_layers() -> None:
    vectors = rows()
    model = built(RecogniserConfig(encoder=transformer(window(left=8, right=2))), vectors)
    stream = TextStream(model, vectors, LETTERS)
    assert str(stream.latency) == "215 ms (windows 25 ms, subsampling 30 ms, attention 2 × 80 ms)"
    assert stream.seconds == 0.04


def test_vectors_of_whole_files_cannot_be_streamed() -> None:
    vectors = rows()
    model = built(RecogniserConfig(encoder=transformer(causal())), vectors)
    with pytest.raises(UsageError, match="cannot read samples while they arrive"):
        TextStream(model, VectorRows(mean=(0.0,), deviation=(1.0,)), LETTERS)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.ones(800, np.int16), "divide 16-bit samples by 32,768"),
        (np.zeros((800, 2), np.float32), "Take the mean of channels"),
        (np.full(800, 3000.0, np.float32), "where 1 is full scale"),
        (np.full(800, np.nan, np.float32), "not numbers"),
    ],
)
def test_samples_that_are_not_sound_are_refused(samples: np.ndarray, message: str) -> None:
    vectors = rows()
    model = built(RecogniserConfig(encoder=transformer(window(left=8, right=2))), vectors)
    stream = TextStream(model, vectors, LETTERS)
    with pytest.raises(DataError, match=message):
        stream.advance(stream.begin(), samples, last=False)
