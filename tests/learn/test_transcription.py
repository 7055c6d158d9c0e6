"""Tones that spell words are written down, from recordings to texts, and the words are found where they are heard."""

from pathlib import Path

import pytest
import soundfile

from foveate.attention import AttentionConfig, Visibility, chunk, everything, window
from foveate.data.audio import AudioReader
from foveate.data.synthetic import Spelled, tones
from foveate.errors import UsageError
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


def taught(folder: Path, rule: Visibility, views: tuple[Visibility, ...] | None = None) -> TranscribeTask:
    """A small recogniser of tones, trained for some seconds and validated on the recordings of `folder / "test"`."""
    training, _ = recorded(folder / "train", 250, seed=0)
    block = BlockConfig(
        model_dim=64,
        num_heads=2,
        feedforward_dim=128,
        norm="pre",
        dropout=0.0,
        encoder_attention=AttentionConfig(visibility=rule),
    )
    config = TranscribeConfig(
        reader=AudioReader(rate=RATE, bands=40),
        data=TranscribeDataConfig(data=str(training), valid_data=str(folder / "test" / "clips.tsv"), max_tokens=2_500),
        model=RecogniserConfig(
            subsampling=PlaneSubsamplingConfig(factor=4, hidden_dim=64, maps=8),
            encoder=TransformerEncoderConfig(block=block, num_layers=1),
            dropout=0.0,
        ),
        views=views,
    )
    task, _ = TranscribeTask.prepare(config, folder / "run")
    recipe = TrainConfig(steps=450, validate_every=450, save_every=450, learning_rate=2e-3, schedule=Cosine(warmup=30))
    fit(task, recipe, folder / "run")
    return task


def test_tones_that_spell_words_are_written_down(tmp_path: Path) -> None:
    testing, recordings = recorded(tmp_path / "test", 40, seed=1)
    task = taught(tmp_path, window(left=8, right=8))
    transcriber = Transcriber(task.model, task.rows, task.tokeniser)
    transcripts = transcriber.transcribe([example.thing for example in task.config.read(str(testing))])
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


def test_one_model_writes_by_the_whole_and_by_chunks_of_several_sizes(tmp_path: Path) -> None:
    """Without views, 45 to 60 % of these texts are right under the chunks (23 November 2026)."""
    testing, recordings = recorded(tmp_path / "test", 40, seed=1)
    views = (chunk(2, left=8), chunk(16, left=1))
    task = taught(tmp_path, everything(), views)
    transcriber = Transcriber(task.model, task.rows, task.tokeniser, views=views)
    things = [example.thing for example in task.config.read(str(testing))]
    drawn_between = chunk(4, left=4)
    for one in (transcriber, *(transcriber.under(rule) for rule in (*views, drawn_between))):
        pairs = zip(one.transcribe(things), recordings, strict=True)
        assert sum(transcript.text == recording.text for transcript, recording in pairs) >= 0.95 * len(recordings)
    waits = [transcriber.under(rule).stream().latency.worst for rule in (views[0], drawn_between, views[1])]
    assert waits == pytest.approx([0.095, 0.175, 0.655])
    with pytest.raises(UsageError, match=r'learnt to see by "chunk\(2, left=8\)" or "chunk\(16, left=1\)"'):
        transcriber.stream()
