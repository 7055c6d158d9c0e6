"""Tones that spell words are written down, from recordings to texts, and the words are found where they are heard."""

from pathlib import Path

import soundfile

from foveate.attention import AttentionConfig, window
from foveate.data.audio import AudioReader
from foveate.data.synthetic import Spelled, tones
from foveate.models import RecogniserConfig
from foveate.nn import BlockConfig, PlaneSubsamplingConfig, TransformerEncoderConfig
from foveate.tasks.transcribe.task import TranscribeConfig, TranscribeDataConfig, TranscribeTask
from foveate.tasks.transcribe.use import Transcriber
from foveate.train import TrainConfig, fit
from foveate.train.schedule import Cosine

RATE = 8_000


def recorded(folder: Path, count: int, seed: int) -> tuple[Path, list[Spelled]]:
    """A table of recordings, and what they say."""
    folder.mkdir()
    recordings = list(tones(count, seed=seed, rate=RATE))
    for number, one in enumerate(recordings):
        soundfile.write(folder / f"{number:03}.wav", one.samples, RATE)
    lines = (f"{number:03}.wav\t{one.text}\n" for number, one in enumerate(recordings))
    (folder / "clips.tsv").write_text("".join(lines))
    return folder / "clips.tsv", recordings


def test_tones_that_spell_words_are_written_down(tmp_path: Path) -> None:
    training, _ = recorded(tmp_path / "train", 250, seed=0)
    testing, recordings = recorded(tmp_path / "test", 40, seed=1)
    block = BlockConfig(
        model_dim=64,
        num_heads=2,
        feedforward_dim=128,
        norm="pre",
        dropout=0.0,
        encoder_attention=AttentionConfig(visibility=window(left=8, right=8)),
    )
    config = TranscribeConfig(
        reader=AudioReader(rate=RATE, bands=40),
        data=TranscribeDataConfig(data=str(training), valid_data=str(testing), max_tokens=2_500),
        model=RecogniserConfig(
            subsampling=PlaneSubsamplingConfig(factor=4, hidden_dim=64, maps=8),
            encoder=TransformerEncoderConfig(block=block, num_layers=1),
            dropout=0.0,
        ),
    )
    task, _ = TranscribeTask.prepare(config, tmp_path / "run")
    recipe = TrainConfig(steps=450, validate_every=450, save_every=450, learning_rate=2e-3, schedule=Cosine(warmup=30))
    fit(task, recipe, tmp_path / "run")

    transcriber = Transcriber(task.model, task.rows, task.tokeniser)
    transcripts = transcriber.transcribe([example.thing for example in config.read(str(testing))])
    pairs = list(zip(transcripts, recordings, strict=True))
    right = [(transcript, recording) for transcript, recording in pairs if transcript.text == recording.text]
    assert len(right) >= 0.95 * len(pairs)

    # The middle of each word that is right lies within the stretch in which its tones are heard.
    middles = [
        start <= (word.start + word.end) / 2 <= end
        for transcript, recording in right
        for word, (_, start, end) in zip(transcript.words, recording.words, strict=True)
    ]
    assert sum(middles) >= 0.98 * len(middles)
