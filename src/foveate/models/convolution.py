"""A plain CNN, and ResNet of He et al. 2016, over pictures: their output is a grid of vectors."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu

from foveate.attention.check import require_positive
from foveate.config.field import require_choices, setting
from foveate.data.batch import Batch
from foveate.models.picture_encoder import PictureEncoder, patches_of
from foveate.nn.embed import Input, Patches
from foveate.nn.packing import Packing
from foveate.nn.plane_convolution import PlaneConvolution

Norm = Literal["group", "batch"]
GROUPS = 8
"""The number of groups of a group norm, where it divides the channels (Wu and He 2018 have 32 for wide networks)."""
NORMS = (
    "group: over some channels of one picture; batch: over all pictures of a training batch, as published, and with "
    "running means afterwards"
)


@dataclass(frozen=True, kw_only=True)
class PictureCNNConfig:
    """Stages of convolutions of 3 × 3, each followed by a maximum over squares of 2 × 2."""

    kind: ClassVar[str] = "picture_cnn"
    channels: tuple[int, ...] = setting((32, 64), "the width of each stage")
    convolutions: int = setting(2, "in each stage")
    norm: Norm = setting("group", NORMS)

    def __post_init__(self) -> None:
        require_choices(self)
        require_stages(self.channels, convolutions=self.convolutions)

    def build_encoder(self, source: int | Input) -> "PictureCNN":
        """The encoder for patches. Raises ValueError for another input."""
        return PictureCNN(self, patches_of(source, "A CNN over pictures"))


@dataclass(frozen=True, kw_only=True)
class ResNetConfig:
    """Stages of residual blocks; each stage after the first halves the rows and columns.

    The defaults are the network of 20 layers for pictures of 32 × 32 in He et al. 2016, section 4.2, but for its norm.
    """

    kind: ClassVar[str] = "resnet"
    channels: tuple[int, ...] = setting((16, 32, 64), "the width of each stage")
    blocks: int = setting(3, "residual blocks of two convolutions in each stage")
    norm: Norm = setting("group", NORMS)

    def __post_init__(self) -> None:
        require_choices(self)
        require_stages(self.channels, blocks=self.blocks)

    def build_encoder(self, source: int | Input) -> "ResNet":
        """The encoder for patches. Raises ValueError for another input."""
        return ResNet(self, patches_of(source, "A ResNet"))


class GridNetwork(PictureEncoder):
    """Folds patches back into pictures, and computes a grid of vectors by `network`.

    Values at padding and other pictures do not affect a result; with batch norm this holds in evaluation mode, where
    means and variances are those of training.
    """

    network: nn.Module

    def __init__(self, patches: Patches, width: int, grid: tuple[int, int]) -> None:
        super().__init__()
        self.patches, self.output_dim, self.grid = patches, width, grid

    def encode(self, batch: Batch) -> tuple[Float[Tensor, "tokens output_dim"], Packing]:
        """A vector for each place of the grid. Raises ValueError for a part of a picture, or another size."""
        count, (rows, columns) = self.patches.count, self.grid
        self._require_whole(batch)
        weight = next(self.parameters())
        pictures = self.patches.picture(batch.features[:, :count].to(weight.dtype))
        hidden: Tensor = self.network(pictures.contiguous(memory_format=torch.channels_last))
        lengths = torch.full_like(batch.lengths, rows * columns)
        return hidden.permute(0, 2, 3, 1).reshape(-1, self.output_dim), Packing(lengths, rows * columns)

    def _require_whole(self, batch: Batch) -> None:
        (rows, columns), count = self.patches.grid, self.patches.count
        whole = batch.length >= count and bool((batch.lengths == count).all())
        if whole and batch.places is not None:
            whole = bool((batch.places[:, :count] == self.standard.to(batch.places.device)).all())
        if not whole:
            raise ValueError(
                f"A convolutional network was built for whole pictures of {rows} × {columns} patches, in their order, "
                "and these rows are not. Scale the pictures, or choose a ViT, which reads parts of pictures."
            )


class PictureCNN(GridNetwork):
    """x ← pool(relu(norm(W ∗ x)) …) for each stage, with kernels W of 3 × 3 and a maximum over 2 × 2

    >>> from foveate.data.row import Row
    >>> import numpy as np
    >>> patches = Patches(size=4, channels=1, grid=(7, 7))
    >>> encoder = PictureCNNConfig(channels=(8, 16)).build_encoder(patches)
    >>> picture = Row(np.zeros((49, 16), np.float32), places=np.indices((7, 7)).reshape(2, -1).T)
    >>> hidden, packing = encoder.encode(Batch.of([picture]))
    >>> encoder.grid, hidden.shape
    ((7, 7), torch.Size([49, 16]))

    Where 2 does not divide the rows or columns, the last maximum is over fewer pixels.
    """

    def __init__(self, config: PictureCNNConfig, patches: Patches) -> None:
        super().__init__(patches, config.channels[-1], halved(patches, len(config.channels)))
        self.network = nn.Sequential(*_stages(config, patches.channels))


class ResNet(GridNetwork):
    """y = relu(x + norm(W_2 ∗ relu(norm(W_1 ∗ x)))), with W_s ∗ x in place of x where the shape changes

    Reference: He et al. 2016, equations 1 and 2, and section 4.2; projections are their option B.
    """

    def __init__(self, config: ResNetConfig, patches: Patches) -> None:
        super().__init__(patches, config.channels[-1], halved(patches, len(config.channels) - 1))
        first, width, blocks = config.channels[0], config.channels[0], list[nn.Module]()
        for stage, channels in enumerate(config.channels):
            for number in range(config.blocks):
                stride = 2 if stage and not number else 1
                blocks.append(ResidualBlock(width, channels, stride=stride, norm=config.norm))
                width = channels
        self.network = nn.Sequential(Convolution(patches.channels, first, norm=config.norm), nn.ReLU(), *blocks)


class Convolution(nn.Module):
    """norm(W ∗ x), without a bias, which the norm has"""

    def __init__(self, inputs: int, outputs: int, *, norm: Norm, size: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.convolution = PlaneConvolution(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")
        batch = norm == "batch"
        self.norm: nn.Module = nn.BatchNorm2d(outputs) if batch else nn.GroupNorm(gcd(outputs, GROUPS), outputs)

    def forward(self, x: Float[Tensor, "batch inputs height width"]) -> Float[Tensor, "batch outputs rows columns"]:
        normed: Tensor = self.norm(self.convolution(x))
        return normed


class ResidualBlock(nn.Module):
    """y = relu(shortcut(x) + norm(W_2 ∗ relu(norm(W_1 ∗ x))))"""

    def __init__(self, inputs: int, outputs: int, *, stride: int, norm: Norm) -> None:
        super().__init__()
        self.first = Convolution(inputs, outputs, norm=norm, stride=stride)
        self.second = Convolution(outputs, outputs, norm=norm)
        changes = stride > 1 or inputs != outputs
        self.shortcut: nn.Module = nn.Identity()
        if changes:
            self.shortcut = Convolution(inputs, outputs, norm=norm, size=1, stride=stride)

    def forward(self, x: Float[Tensor, "batch inputs height width"]) -> Float[Tensor, "batch outputs rows columns"]:
        return relu(self.shortcut(x) + self.second(relu(self.first(x))))


def halved(patches: Patches, times: int) -> tuple[int, int]:
    """Rows and columns of pixels, halved so many times and rounded up each time.

    >>> halved(Patches(size=4, channels=1, grid=(7, 8)), 3)
    (4, 4)
    """
    rows, columns = (-(-count * patches.size // 2**times) for count in patches.grid)
    return rows, columns


def require_stages(channels: tuple[int, ...], **counts: int) -> None:
    """Raise ValueError for a network without stages, or for sizes below 1."""
    require_positive(**counts, **{f"channels[{stage}]": width for stage, width in enumerate(channels)})
    if not channels:
        raise ValueError("channels must have a width for each stage, such as [32, 64]")


def _stages(config: PictureCNNConfig, inputs: int) -> Iterator[nn.Module]:
    for channels in config.channels:
        for _ in range(config.convolutions):
            yield Convolution(inputs, channels, norm=config.norm)
            yield nn.ReLU()
            inputs = channels
        yield nn.MaxPool2d(2, ceil_mode=True)
