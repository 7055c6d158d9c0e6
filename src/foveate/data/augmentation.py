"""Changes training examples of speech by masks and speeds, which are functions of (seed, step, example)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foveate.config import setting
from foveate.data.batch import Batch


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """SpecAugment's masks, and copies of each recording at other speeds."""

    time_masks: int = setting(2, "masks over consecutive frames")
    time_width: int = setting(40, "frames of the widest mask; a frame is 10 ms")
    time_share: float = setting(0.2, "the share of a recording that a mask over frames covers at most")
    band_masks: int = setting(2, "masks over neighbouring bands")
    band_share: float = setting(0.3, "the share of the bands that a mask covers at most")
    speeds: tuple[float, ...] = setting(
        (1.0,), "speeds that are stored for each recording, 1 included; each takes as much room as the data"
    )

    def __post_init__(self) -> None:
        if min(self.time_masks, self.time_width, self.band_masks) < 0:
            raise ValueError("time_masks, time_width and band_masks must be at least 0")
        for name in ("time_share", "band_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1, got {getattr(self, name)}")
        if 1.0 not in self.speeds or len(set(self.speeds)) < len(self.speeds):
            raise ValueError(f"speeds must be different and contain 1, got {list(self.speeds)}")
        if not 0.5 <= min(self.speeds) <= max(self.speeds) <= 2:
            raise ValueError(f"speeds must be from 0.5 to 2, got {list(self.speeds)}")


@dataclass(frozen=True)
class Geometry:
    """The arrangement of the numbers of a stored vector: `stack` frames, each of `parts` blocks (energies, slopes …) of
    `bands` numbers; the next vector begins `stride` frames later.
    """

    bands: int
    parts: int = 1
    stack: int = 1
    stride: int = 1

    @property
    def width(self) -> int:
        return self.bands * self.parts * self.stack

    def frames(self, vectors: int) -> int:
        """The number of frames in this number of vectors."""
        return (vectors - 1) * self.stride + self.stack if vectors else 0


def masked(
    batch: Batch, examples: Sequence[int], config: AugmentationConfig, geometry: Geometry, *, seed: int, step: int
) -> Batch:
    """Rows in which some ranges of frames and of bands have the mean of their row: SpecAugment without warping.

    A mask covers the same frames in all vectors that share them, and the same bands in energies and slopes. A mask
    over frames is at most `time_width` frames wide, and at most the share of the recording. The masks of a row depend
    on (seed, step, example) only, and not on the other rows of the batch.

    Reference: Park et al. 2019, "SpecAugment", section 2.
    """
    if not (config.time_masks or config.band_masks):
        return batch
    features = batch.features
    hidden = torch.zeros(features.shape, dtype=torch.bool)
    for row, (example, length) in enumerate(zip(examples, batch.lengths.tolist(), strict=True)):
        generator = _generator(seed, step, example)
        hidden[row, :length] = _hidden(generator, length, config, geometry)
    inside = torch.arange(batch.length) < batch.lengths[:, None]
    mean = _row_means(features, inside)
    return replace(batch, values=torch.where(hidden & inside[..., None], mean[:, None], features))


def speeds_of(examples: Sequence[int], count: int, *, seed: int, step: int) -> list[int]:
    """The number of the stored speed that each example takes in a step.

    Reference: Ko et al. 2015, "Audio augmentation for speech recognition".
    """
    # The last number separates this draw from that of masks.
    return [int(np.random.default_rng([seed % (1 << 64), step, one, 1]).integers(count)) for one in examples]


def _generator(seed: int, step: int, example: int) -> np.random.Generator:
    return np.random.default_rng([seed % (1 << 64), step, example])


def _hidden(
    generator: np.random.Generator, length: int, config: AugmentationConfig, geometry: Geometry
) -> Bool[Tensor, "length width"]:
    frames, bands = geometry.frames(length), geometry.bands
    over_frames, over_bands = np.zeros(frames, bool), np.zeros(bands, bool)
    widest = min(config.time_width, int(config.time_share * frames))
    for line, count, most in (
        (over_frames, config.time_masks, widest),
        (over_bands, config.band_masks, int(config.band_share * bands)),
    ):
        for _ in range(count):
            width = int(generator.integers(most + 1))
            first = int(generator.integers(len(line) - width + 1))
            line[first : first + width] = True
    which = np.arange(length)[:, None] * geometry.stride + np.arange(geometry.stack)
    hidden = over_frames[which][:, :, None, None] | over_bands
    whole = np.broadcast_to(hidden, (length, geometry.stack, geometry.parts, bands))
    return torch.from_numpy(np.array(whole).reshape(length, geometry.width))


def _row_means(
    features: Float[Tensor, "batch length width"], inside: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch width"]:
    """The mean of each number over the vectors of a row, without padding."""
    counts: Int[Tensor, " batch"] = inside.sum(1).clamp(min=1)
    return (features * inside[..., None]).sum(1) / counts[:, None]
