"""Taggers of vectors with every kind of encoder: alone as in a batch, by what they see, resumed to the bit."""

import io
import signal
import tomllib
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from foveate.config import build
from foveate.data.batch import Batch
from foveate.decode.label_path import SmoothingConfig
from foveate.tasks.tag.frame_task import FrameTask
from foveate.tasks.tag.frame_use import FrameLabeller
from foveate.tasks.tag.task import TagConfig
from foveate.train import TrainConfig, fit
from foveate.train.log import Quiet

BLOCK = "model_dim = 8, num_heads = 2, feedforward_dim = 12"
SEEING = 'encoder_attention = {{ visibility = "window(left={left}, right={right})" }}'
PLACES = 'num_layers = 2, position = { kind = "none" }'
LINES = {
    "rnn": '{ kind = "rnn", cell = "lstm", hidden_dim = 5 }',
    "rnn forwards": '{ kind = "rnn", hidden_dim = 5, bidirectional = false }',
    "cnn": '{ kind = "cnn", hidden_dim = 7, width = 3, num_layers = 2 }',
    "alone": '{ kind = "window", hidden_dim = 7 }',
    "window": '{ kind = "window", window = 2, hidden_dim = 7 }',
    "full": f'{{ kind = "transformer", block = {{ {BLOCK} }}, {PLACES} }}',
    "truncated": f'{{ kind = "transformer", block = {{ {BLOCK}, {SEEING.format(left=2, right=1)} }}, {PLACES} }}',
    "bert": f'{{ kind = "bert", num_layers = 1, max_length = 24, block = {{ {BLOCK}, norm = "post" }} }}',
}
"""Of the configuration's `model`: what stands after `encoder =`."""
REACH = {"rnn forwards": (99, 0), "cnn": (2, 2), "alone": (0, 0), "window": (2, 2), "truncated": (4, 2)}
"""The vectors on each side that reach a label, with two layers where there are two."""
TRAIN = TrainConfig(steps=3, validate_every=2, save_every=2, log_every=1)

encoders = pytest.mark.parametrize("encoder", LINES)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, generator = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    for number in range(30):
        vectors = generator.normal(size=(1 + number % 9, 3)).astype(np.float32)
        np.save(folder / f"{number}.npy", vectors)
        (folder / f"{number}.txt").write_text("".join(f"{'up' if one[0] > 0 else 'down'}\n" for one in vectors))
    (folder / "data.tsv").write_text("".join(f"{number}.npy\t{number}.txt\n" for number in range(30)))
    return folder / "data.tsv"


def prepared(encoder: str, table: Path, run: Path) -> FrameTask:
    settings = tomllib.loads(f'reader = "vector"\n[model]\nencoder = {LINES[encoder]}\nembedding_dim = 6\n')
    data = {"data": str(table), "max_length": 20, "max_tokens": 40}
    return FrameTask.prepare(build(TagConfig, {**settings, "data": data}), run)[0]


@encoders
def test_vectors_get_the_same_logits_alone_as_in_a_batch(encoder: str, table: Path, tmp_path: Path) -> None:
    task = prepared(encoder, table, tmp_path)
    task.model.double().eval()
    together = task.logits(task.read(task.training, range(9)))
    alone = [task.logits(task.read(task.training, [example])) for example in range(9)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-10)


@encoders
def test_what_stands_in_padding_changes_no_label(encoder: str, table: Path, tmp_path: Path) -> None:
    task = prepared(encoder, table, tmp_path)
    task.model.double().eval()
    rows = task.training.rows([1, 5, 8]).rows
    values = torch.nn.functional.pad(rows.values, (0, 0, 0, 3), value=50.0)
    for row, length in enumerate(rows.lengths.tolist()):
        values[row, length:] = 60.0
    torch.testing.assert_close(task.model(Batch(values, rows.lengths)), task.model(rows), rtol=0, atol=1e-10)


@pytest.mark.parametrize("encoder", REACH)
def test_a_label_depends_on_the_vectors_that_its_encoder_sees(encoder: str, table: Path, tmp_path: Path) -> None:
    model = prepared(encoder, table, tmp_path).model.double().eval()
    values = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lengths = torch.tensor([12])

    def logits(values: torch.Tensor) -> torch.Tensor:
        return model(Batch(values[None], lengths))

    reached = torch.autograd.functional.jacobian(logits, values).abs().amax((1, 3)) > 0
    left, right = REACH[encoder]
    distance = torch.arange(12)[:, None] - torch.arange(12)
    assert not (reached & ((distance > left) | (-distance > right))).any()
    # A rectifier may close single paths, but not all of a distance.
    assert all(reached[distance == far].any() for far in range(-right, min(left, 11) + 1))


@encoders
def test_a_run_that_was_stopped_ends_with_the_same_bits(encoder: str, table: Path, tmp_path: Path) -> None:
    weights = []
    for stopped in (False, True):
        run = tmp_path / str(stopped)
        if stopped:
            assert fit(prepared(encoder, table, run), TRAIN, run, progress=Stop()).interrupted
        assert fit(prepared(encoder, table, run), TRAIN, run, resume=stopped).step == TRAIN.steps
        weights.append((run / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_smoothed_labels_are_the_same_alone_and_among_others(table: Path, tmp_path: Path) -> None:
    task = prepared("cnn", table, tmp_path)
    labeller = FrameLabeller(task.model.double(), task.vocabulary, SmoothingConfig())
    things = [example.thing for example in task.config.read(str(table))]
    together = labeller.label(things)
    assert [labeller.label([thing])[0].labels for thing in things] == [one.labels for one in together]


class Stop(Quiet):
    """Ctrl-C after the first step."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())

    def advance(self, step: int, loss: float) -> None:
        if step == 1:
            signal.raise_signal(signal.SIGINT)


def test_frames_of_recordings_are_masked_in_training_by_seed_and_step(tmp_path: Path) -> None:
    for number in range(12):
        soundfile.write(tmp_path / f"{number}.wav", np.random.default_rng(number).normal(0, 0.1, 800), 8_000)
        (tmp_path / f"{number}.txt").write_text("0.0\t0.1\tnoise\n")
    (tmp_path / "data.tsv").write_text("".join(f"{number}.wav\t{number}.txt\n" for number in range(12)))
    data = {"data": str(tmp_path / "data.tsv"), "max_length": 20, "max_tokens": 40}
    reader = {"kind": "audio", "rate": 8_000, "bands": 10}
    masks = build(TagConfig, {"reader": {**reader, "augmentation": {}}, "data": data})
    task, _ = FrameTask.prepare(masks, tmp_path / "run")
    assert not torch.equal(task.batch(0).rows.values, task.read(task.training, task.batch(0).examples).rows.values)
    assert torch.equal(task.batch(0).rows.values, task.batch(0).rows.values)
