"""Changes training pictures at random: mirrored, shifted, RandAugment's simple changes, and Mixup.

All of it is a function of (seed, step, example): an example's changes depend neither on its batch nor on the steps
before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import avg_pool2d, grid_sample, pad

from foveate.config import setting
from foveate.data.mixture import Mixture

Levels = Float[Tensor, "channels rows columns"]
"""Pixels from 0, black, to 1, white."""
UNMOVED = ((1.0, 0.0), (0.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class ImageAugmentationConfig:
    """Changes of the pictures of training; those of validation and use are unchanged."""

    flip: bool = setting(False, "mirror half of the pictures, left to right; not for letters and digits")
    padding: int = setting(0, "pixels by which a picture is shifted at most, up or down and left or right")
    changes: int = setting(0, "RandAugment: changes of each picture, drawn from ten, one after the other")
    strength: float = setting(0.3, "RandAugment: how strong its changes are, from 0 to 1")
    mixup: float = setting(
        0.0, "Mixup: parameter of the beta distribution of the share of another picture and its label; 0: off"
    )

    def __post_init__(self) -> None:
        if min(self.padding, self.changes) < 0:
            raise ValueError("padding and changes must be at least 0")
        if not 0 <= self.strength <= 1:
            raise ValueError(f"strength must be from 0 to 1, got {self.strength}")
        if not 0 <= self.mixup <= 100:
            raise ValueError(f"mixup must be from 0 to 100, got {self.mixup}")

    def __str__(self) -> str:
        parts = (
            (self.flip, "mirrored"),
            (self.padding, f"shifted by up to {self.padding} pixel{'s' * (self.padding > 1)}"),
            (self.changes, f"with {self.changes} random change{'s' * (self.changes > 1)}"),
            (self.mixup, "mixed with others"),
        )
        return ", ".join(text for on, text in parts if on)


def altered(
    picture: Float[Tensor, "channels rows columns"],
    config: ImageAugmentationConfig,
    mean: Float[Tensor, "channels 1 1"],
    deviation: Float[Tensor, "channels 1 1"],
    *,
    draw: tuple[int, int, int],
) -> Float[Tensor, "channels rows columns"]:
    """A normalised picture with the changes of a `draw`, (seed, step, example).

    A shift repeats the pixels of the edge, which equals a random crop of a padded picture (Krizhevsky et al. 2012,
    section 4.1). Then follow the changes of RandAugment, on levels from 0 to 1.

    Reference: Cubuk et al. 2020, "RandAugment", section 3: each change is drawn from all with the same chance, and all
    have the same strength, with a random sign.
    """
    seed, step, example = draw
    generator = np.random.default_rng([seed % (1 << 64), step, example, 2])
    if config.flip or config.padding:
        down, right = generator.integers(-config.padding, config.padding + 1, 2).tolist()
        mirrored = config.flip and bool(generator.integers(2))
        rows, columns = (
            (torch.arange(size) + by).clamp(0, size - 1)
            for size, by in zip(picture.shape[1:], (down, right), strict=True)
        )
        picture = picture[:, rows[:, None], columns.flip(0) if mirrored else columns]
    if config.changes:
        levels = picture * deviation + mean
        for _ in range(config.changes):
            change = CHANGES[int(generator.integers(len(CHANGES)))]
            levels = change(levels, config.strength * (1 - 2 * int(generator.integers(2))))
        picture = (levels.clamp(0, 1) - mean) / deviation
    return picture


def partners(examples: Sequence[int], count: int, alpha: float, *, seed: int, step: int) -> Mixture:
    """For each example another one of `count` and the share of the example itself, drawn from Beta(α, α).

    The partner comes from all training data, not from the batch, so that a batch does not change its examples.

    Reference: Zhang et al. 2018, "mixup: Beyond empirical risk minimization", equation 1.
    """
    others, shares = list[int](), list[float]()
    for example in examples:
        generator = np.random.default_rng([seed % (1 << 64), step, example, 3])
        others.append(int(generator.integers(count)))
        shares.append(float(generator.beta(alpha, alpha)))
    return Mixture(tuple(others), torch.tensor(shares))


def moved(levels: Levels, matrix: Sequence[Sequence[float]], shift: tuple[float, float] = (0.0, 0.0)) -> Levels:
    """The picture whose pixel at x, from the centre, is the old one at `matrix` x + `shift`, in (row, column).

    >>> stripe = torch.eye(3)[None]
    >>> moved(stripe, ((1.0, 0.0), (0.0, 1.0)), (1.0, 0.0))[0].int().tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
    """
    rows, columns = levels.shape[1:]
    size = torch.tensor([rows, columns], dtype=torch.float32)
    at = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), -1) - (size - 1) / 2
    old = at @ torch.tensor(matrix, dtype=torch.float32).T + torch.tensor(shift)
    place = (2 * old / size).flip(-1)  # grid_sample names the column first, from −1 to 1 over the sides of pixels
    sampled: Tensor = grid_sample(levels[None], place[None], "bilinear", "border", align_corners=False)
    return sampled[0]


def blended(levels: Levels, ground: Tensor, strength: float) -> Levels:
    """`ground` at −1, the picture at 0, and beyond it at 1."""
    return (ground + (1 + strength) * (levels - ground)).clamp(0, 1)


def _rotated(levels: Levels, strength: float) -> Levels:
    angle = np.deg2rad(30) * strength
    cosine, sine = float(np.cos(angle)), float(np.sin(angle))
    return moved(levels, ((cosine, sine), (-sine, cosine)))


def _contrast(levels: Levels, strength: float) -> Levels:
    # In float64, so that the sum does not depend on the number of threads.
    return blended(levels, levels.double().mean().float(), 0.9 * strength)


def _sharpness(levels: Levels, strength: float) -> Levels:
    smooth = avg_pool2d(pad(levels[None], (1, 1, 1, 1), "replicate"), 3, stride=1)[0]
    return blended(levels, smooth, 0.9 * strength)


def _posterised(levels: Levels, strength: float) -> Levels:
    count = 1 << (8 - round(4 * abs(strength)))
    return (levels * 256 // (256 // count)).clamp(0, count - 1) / (count - 1)


CHANGES: tuple[Callable[[Levels, float], Levels], ...] = (
    lambda levels, strength: levels,
    _rotated,
    lambda levels, strength: moved(levels, ((1.0, 0.0), (0.3 * strength, 1.0))),
    lambda levels, strength: moved(levels, ((1.0, 0.3 * strength), (0.0, 1.0))),
    lambda levels, strength: moved(levels, UNMOVED, (0.3 * strength * levels.shape[1], 0.0)),
    lambda levels, strength: moved(levels, UNMOVED, (0.0, 0.3 * strength * levels.shape[2])),
    lambda levels, strength: blended(levels, torch.zeros(()), 0.9 * strength),
    _contrast,
    _sharpness,
    _posterised,
)
"""Unchanged, rotated by 30° at most, sheared by 0.3 along columns and rows, shifted by 0.3 of the side down and right,
brighter or darker, with more or less contrast, sharper or smoother, with fewer levels (16 at least)."""
