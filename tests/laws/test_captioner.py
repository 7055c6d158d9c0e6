"""Captioners: resumed to the bit, whatever the padding of captions, and with batches that do not tell lengths."""

import io
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from foveate.attention import AdditiveConfig, AttentionConfig, HardConfig
from foveate.data.batch import Batch
from foveate.data.image import ImageReader
from foveate.data.image_augmentation import ImageAugmentationConfig
from foveate.inspect.figure.pixel import photograph
from foveate.models import CaptionerConfig, GazeConfig, TransformerSpellerConfig
from foveate.models.convolution import PictureCNNConfig
from foveate.nn import BlockConfig
from foveate.tasks.caption.task import CaptionConfig, CaptionDataConfig, CaptionTask
from foveate.train import TrainConfig, fit
from foveate.train.log import Quiet

BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=16, norm="pre", dropout=0.1)
SOFT = GazeConfig(embedding_dim=6, hidden_dim=8)
DECODERS = {
    "soft": SOFT,
    "hard": replace(
        SOFT,
        attention=AttentionConfig(score=AdditiveConfig(), normaliser=HardConfig(mode="sample", expectation=0.5)),
    ),
    "transformer": TransformerSpellerConfig(block=BLOCK, num_layers=1),
}
CAPTIONS = ("a b", "a b c d e f g h", "a c")
TRAIN = TrainConfig(steps=6, validate_every=3, save_every=2)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, lines = tmp_path_factory.mktemp("pictures"), []
    for number in range(36):
        pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        (folder / f"{number}.png").write_bytes(photograph(pixels))
        lines.append(f"{number}.png\t{CAPTIONS[number % 3]}\n")
    (folder / "captions.tsv").write_text("".join(lines))
    return folder / "captions.tsv"


def prepared(table: Path, run: Path, decoder: str = "soft", norm: str = "batch") -> CaptionTask:
    config = CaptionConfig(
        data=CaptionDataConfig(data=str(table), max_tokens=80, held_out=3),
        reader=ImageReader(patch=4, augmentation=ImageAugmentationConfig(flip=True)),
        model=CaptionerConfig(encoder=PictureCNNConfig(channels=(4, 8), norm=norm), decoder=DECODERS[decoder]),
    )
    return CaptionTask.prepare(config, run)[0]


class Stop(Quiet):
    """Ctrl-C after the third step, between two checkpoints."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())

    def advance(self, step: int, loss: float) -> None:
        if step == 3:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_resumed_training_ends_with_the_same_bits(decoder: str, table: Path, tmp_path: Path) -> None:
    weights = []
    for stopped in (False, True):
        run = tmp_path / str(stopped)
        if stopped:
            assert fit(prepared(table, run, decoder), TRAIN, run, progress=Stop()).interrupted
        assert fit(prepared(table, run, decoder), TRAIN, run, resume=stopped).step == TRAIN.steps
        weights.append((run / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


@pytest.mark.parametrize("decoder", ["soft", "transformer"])
@pytest.mark.parametrize("training", [True, False])
def test_padding_of_captions_changes_nothing(decoder: str, training: bool, table: Path, tmp_path: Path) -> None:
    task = prepared(table, tmp_path, decoder)
    model = task.model.train(training)
    for part in model.modules():
        if isinstance(getattr(part, "dropout", None), float):
            part.dropout = 0.0
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    batch = task.batch(0)
    values = torch.nn.functional.pad(batch.target.ids, (0, 4), value=5)
    padded = Batch(values, batch.target.lengths)
    losses, gradients = [], []
    for target in (batch.target, padded):
        model.zero_grad()
        loss = model.loss(batch.source, target)
        loss.backward()
        losses.append(loss.detach())
        gradients.append([one.grad.clone() for one in model.parameters() if one.grad is not None])
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-6, atol=0)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_batches_of_a_model_with_batch_norm_do_not_tell_the_length_of_a_caption(table: Path, tmp_path: Path) -> None:
    lengths = {}
    for norm in ("batch", "group"):
        task = prepared(table, tmp_path / norm, norm=norm)
        lengths[norm] = [set(task.batch(step).target.lengths.tolist()) for step in range(task.plan.steps_per_epoch)]
        rows = [number for step in range(task.plan.steps_per_epoch) for number in task.plan.examples(step).tolist()]
        assert sorted(rows) == list(range(33))
    assert any(len(batch) > 1 for batch in lengths["batch"])
    assert all(len(batch) == 1 for batch in lengths["group"])
