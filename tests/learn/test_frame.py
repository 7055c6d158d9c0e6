"""Glides of a whistle are labelled frame by frame: which way one goes is heard from neighbouring frames only."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from foveate.data.audio import AudioReader
from foveate.decode.label_path import SmoothingConfig
from foveate.models.tagger import TaggerConfig
from foveate.nn.encoder import CNNEncoderConfig, WindowEncoderConfig
from foveate.tasks.labelling import LabelledDataConfig
from foveate.tasks.tag.frame_side import FRAMES
from foveate.tasks.tag.frame_task import FrameTask
from foveate.tasks.tag.frame_use import FrameLabeller
from foveate.tasks.tag.task import TagConfig
from foveate.train import TrainConfig, fit

RATE = 8_000


def whistles(folder: Path, count: int) -> Path:
    """Recordings of glides between 600 and 2,400 Hz, up and down, with pauses that have no label."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(count):
        parts, lines, time = [np.zeros(400)], list[str](), 0.05
        for _ in range(6):
            seconds, rises = generator.uniform(0.12, 0.3), bool(generator.integers(2))
            pitch = np.geomspace(600, 2400, round(seconds * RATE))[:: 1 if rises else -1]
            parts += [
                np.sin(2 * np.pi * np.cumsum(pitch) / RATE),
                np.zeros(round(generator.uniform(0.02, 0.08) * RATE)),
            ]
            seconds = len(parts[-2]) / RATE
            lines.append(f"{time:.6f}\t{time + seconds:.6f}\t{'up' if rises else 'down'}\n")
            time += seconds + len(parts[-1]) / RATE
        sound = np.concatenate(parts)
        soundfile.write(folder / f"{number}.wav", 0.3 * sound + generator.normal(0, 0.01, len(sound)), RATE)
        (folder / f"{number}.txt").write_text("".join(lines))
        rows.append(f"{number}.wav\t{number}.txt\n")
    (folder / "data.tsv").write_text("".join(rows))
    return folder / "data.tsv"


def trained(encoder: CNNEncoderConfig | WindowEncoderConfig, table: Path, run: Path) -> FrameTask:
    config = TagConfig(
        reader=AudioReader(rate=RATE, bands=24, normalisation="recording"),
        data=LabelledDataConfig(data=str(table), max_length=400, max_tokens=1600),
        model=TaggerConfig(encoder=encoder, embedding_dim=24, dropout=0.0),
        decode=SmoothingConfig(),
    )
    task, _ = FrameTask.prepare(config, run)
    fit(task, TrainConfig(steps=100, validate_every=100, save_every=100, learning_rate=5e-3), run)
    task.model.eval()
    return task


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whistles(tmp_path_factory.mktemp("whistles"), 80)


@pytest.fixture(scope="module")
def task(table: Path, tmp_path_factory: pytest.TempPathFactory) -> FrameTask:
    encoder = CNNEncoderConfig(hidden_dim=32, num_layers=2, width=5, dropout=0.0)
    return trained(encoder, table, tmp_path_factory.mktemp("run"))


def test_an_encoder_of_neighbours_hears_which_way_a_whistle_goes(table: Path, task: FrameTask) -> None:
    with torch.inference_mode():
        assert task.validate()["accuracy"] >= 0.93
    examples = list(task.config.read(str(table)))[:10]
    scores = {score.name: score.value for score in FRAMES.scores(FRAMES.in_use(task), examples, per_class=False)}
    assert scores["PER"] <= 10
    assert scores["smoothed PER"] <= 15  # smoothing removes a few of the shortest pauses, of 20 ms


def test_the_segments_of_a_recording_are_close_to_its_label_track(table: Path, task: FrameTask) -> None:
    labeller = FrameLabeller(task.model, task.vocabulary, SmoothingConfig())
    pairs = list[tuple[float, float]]()
    for example in list(task.config.read(str(table)))[:10]:
        (labelled,) = labeller.label([example.thing])
        heard = [one for one in labelled.segments if one.label != "-"]
        if [one.label for one in heard] == list(example.track.names):
            pairs += [
                (getattr(one, side), getattr(right, side))
                for one, right in zip(heard, example.track.segments, strict=True)
                for side in ("start", "end")
            ]
    assert len(pairs) >= 60  # half of the recordings have the right labels in the right order
    assert float(np.median([abs(one - right) for one, right in pairs])) < 0.01  # a frame


def test_a_fully_connected_layer_that_sees_one_frame_cannot(table: Path, tmp_path: Path) -> None:
    task = trained(WindowEncoderConfig(hidden_dim=32, window=0), table, tmp_path)
    with torch.inference_mode():
        assert task.validate()["accuracy"] <= 0.75
