"""Shapes in pictures, directions of sequences and tones are learnt in less than a minute, also for new examples."""

from pathlib import Path

import numpy as np
import soundfile
import torch

from foveate.data.audio import AudioReader
from foveate.data.augmentation import AugmentationConfig
from foveate.data.feature import VectorReader
from foveate.data.image import ImageReader
from foveate.data.synthetic import SHAPES, shapes
from foveate.inspect.figure.pixel import encode
from foveate.models import ClassifierConfig
from foveate.nn import BlockConfig, NoneConfig, TransformerEncoderConfig
from foveate.tasks.classify.task import ClassifyConfig, ClassifyTask
from foveate.tasks.labelling import LabelledDataConfig
from foveate.train import TrainConfig, fit

GREY = tuple((level, level, level) for level in range(256))


def accuracy(config: ClassifyConfig, run: Path, *, steps: int, learning_rate: float) -> float:
    task, _ = ClassifyTask.prepare(config, run)
    fit(task, TrainConfig(steps=steps, validate_every=steps, save_every=steps, learning_rate=learning_rate), run)
    task.model.eval()
    with torch.inference_mode():
        return task.validate()["accuracy"]


def test_a_classifier_distinguishes_shapes_in_pictures(tmp_path: Path) -> None:
    kinds = ("disc", "bars", "columns")
    for number, example in enumerate(shapes(1000, seed=0, side=16, noise=0.02)):
        if (name := SHAPES[example.label]) in kinds:
            (tmp_path / "pictures" / name).mkdir(parents=True, exist_ok=True)
            pixels = (np.array(example.ids) - 1).astype(np.uint8).reshape(16, 16)
            (tmp_path / "pictures" / name / f"{number}.png").write_bytes(encode(pixels, GREY))
    block = BlockConfig(model_dim=64, num_heads=4, feedforward_dim=128, norm="pre", dropout=0.0)
    config = ClassifyConfig(
        reader=ImageReader(patch=4, colour=False),
        data=LabelledDataConfig(data=str(tmp_path / "pictures"), max_tokens=1024),
        model=ClassifierConfig(
            encoder=TransformerEncoderConfig(block=block, position=NoneConfig()), embedding_dim=64, dropout=0.0
        ),
    )
    assert accuracy(config, tmp_path / "run", steps=250, learning_rate=2e-3) >= 0.95


def test_a_classifier_learns_the_direction_of_a_sequence_of_vectors(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    lengths, falls = generator.integers(3, 9, 300), generator.integers(0, 2, 300)
    slopes = [np.linspace(0, 1, length)[:: -1 if fall else 1] for length, fall in zip(lengths, falls, strict=True)]
    noise = generator.normal(7, 100, (lengths.sum(), 2))
    inputs = np.column_stack([np.concatenate(slopes), noise])
    np.savez(tmp_path / "data.npz", inputs=inputs, lengths=lengths, labels=np.array(["rises", "falls"])[falls])
    config = ClassifyConfig(
        reader=VectorReader(),
        data=LabelledDataConfig(data=str(tmp_path / "data.npz"), max_length=16, max_tokens=256),
        model=ClassifierConfig(embedding_dim=16, dropout=0.0),
    )
    assert accuracy(config, tmp_path / "run", steps=80, learning_rate=5e-3) >= 0.95


def test_a_classifier_distinguishes_tones_with_masks_and_speeds(tmp_path: Path) -> None:
    generator, lines = np.random.default_rng(0), []
    for number in range(120):
        label = ("rises", "falls")[number % 2]
        time = np.linspace(0, 1, int(generator.uniform(0.1, 0.3) * 8_000))
        hertz = generator.uniform(300, 600) + 1200 * (time if label == "rises" else 1 - time)
        samples = 0.2 * np.sin(2 * np.pi * np.cumsum(hertz) / 8_000) + generator.normal(0, 0.02, len(time))
        soundfile.write(tmp_path / f"{number}.wav", samples, 8_000)
        lines.append(f"{number}.wav\t{label}\n")
    (tmp_path / "tones.tsv").write_text("".join(lines))
    augmentation = AugmentationConfig(time_width=5, speeds=(0.9, 1.0, 1.1))
    config = ClassifyConfig(
        reader=AudioReader(rate=8_000, bands=20, augmentation=augmentation),
        data=LabelledDataConfig(data=str(tmp_path / "tones.tsv"), max_length=64, max_tokens=512),
        model=ClassifierConfig(embedding_dim=16, dropout=0.0),
    )
    assert accuracy(config, tmp_path / "run", steps=60, learning_rate=5e-3) >= 0.95
