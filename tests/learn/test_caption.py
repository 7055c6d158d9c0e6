"""A captioner learns in seconds to say what lies where, for new pictures too, and looks at what it names."""

import itertools
from pathlib import Path

import numpy as np

from foveate.data.image import ImageReader
from foveate.inspect import alignment
from foveate.inspect.figure.pixel import photograph
from foveate.models import CaptionerConfig, GazeConfig
from foveate.models.convolution import PictureCNNConfig
from foveate.tasks.caption.side import SIDE
from foveate.tasks.caption.task import CaptionConfig, CaptionDataConfig, CaptionTask
from foveate.train import TrainConfig, fit

STEPS = 240
SHADES = {"dark": 90, "grey": 160, "light": 240}


def written(folder: Path, count: int, seed: int) -> Path:
    """Pictures of 16 × 16 with a square on either side, and captions of their shades."""
    kinds, lines = list(itertools.product(SHADES, SHADES)), []
    folder.mkdir()
    for number in range(count):
        draw = np.random.default_rng((seed, number))
        pixels = draw.integers(0, 30, (16, 16), dtype=np.uint8)
        for side, shade in enumerate(kinds[number % len(kinds)]):
            top, left = draw.integers(0, 11), 8 * side + draw.integers(0, 3)
            pixels[top : top + 5, left : left + 5] = SHADES[shade] + draw.integers(-15, 15)
        (folder / f"{number}.png").write_bytes(photograph(np.repeat(pixels[..., None], 3, 2)))
        lines.append(f"{number}.png\t{' then '.join(kinds[number % len(kinds)])}\n")
    (folder / "captions.tsv").write_text("".join(lines))
    return folder / "captions.tsv"


def test_what_lies_where_is_learnt_and_looked_at(tmp_path: Path) -> None:
    training, test = (written(tmp_path / part, count, seed) for part, count, seed in (("a", 216, 0), ("b", 27, 1)))
    config = CaptionConfig(
        data=CaptionDataConfig(data=str(training), max_tokens=600),
        reader=ImageReader(patch=4, colour=False),
        model=CaptionerConfig(
            encoder=PictureCNNConfig(channels=(8, 16), convolutions=1, norm="batch"),
            decoder=GazeConfig(embedding_dim=16, hidden_dim=32, penalty=0.0, dropout=0.0),
            dropout=0.0,
        ),
    )
    task, _ = CaptionTask.prepare(config, tmp_path / "run")
    fit(task, TrainConfig(steps=STEPS, validate_every=STEPS, save_every=STEPS, learning_rate=1e-2), tmp_path / "run")
    describer = SIDE.in_use(task)
    things, references = SIDE.things(config, str(test))
    captions = [one.text for one in describer.caption(things)]
    assert np.mean([caption == texts[0] for caption, texts in zip(captions, references, strict=True)]) >= 0.95
    inside = []
    for thing, texts in zip(things, references, strict=True):
        weights = alignment(describer.trace(thing, texts[0])).weights.reshape(4, 4, 2, 2)  # word, row, side, column
        inside += [weights[word, :, side].sum() for word, side in ((0, 0), (2, 1))]
    assert np.mean(inside) >= 0.8
