"""Subsampling makes long rows of frames shorter before an encoder reads them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from foveate.attention.check import require_positive, require_rates
from foveate.config.field import require_choices, setting
from foveate.nn.dropout import dropout
from foveate.nn.layer_stream import LocalStream, RecurrentStream
from foveate.nn.linear_layer import Linear
from foveate.nn.packing import Packing
from foveate.nn.plane_convolution import PlaneConvolution
from foveate.nn.recurrent_layer import Cell, RecurrentConfig, RecurrentEncoder
from foveate.nn.stream import Stream

LARGEST = 64
"""The largest factor: at a hop of 10 ms, a vector for every 0.64 seconds."""


def shorter(lengths: Int[Tensor, " batch"], factor: int) -> Int[Tensor, " batch"]:
    """⌈n / factor⌉: the lengths of subsampled rows. A row with one frame keeps one vector.

    >>> shorter(torch.tensor([0, 1, 4, 5, 100]), 4).tolist()
    [0, 1, 1, 2, 25]
    """
    return torch.div(lengths + factor - 1, factor, rounding_mode="floor")


def subsampled(packing: Packing, factor: int) -> Packing:
    """The packing of the shorter rows."""
    return Packing(shorter(packing.lengths, factor), -(-packing.length // factor))


class Subsampling(nn.Module, ABC):
    """y_1 … y_⌈n/k⌉ = subsample(x_1 … x_n), with k = `factor`

    The input is frames packed without padding, or padded rows; the output has the same layout, with zeros at padding,
    and comes with the packing of the shorter rows. The values at padding and the other rows of the batch do not affect
    the result.

    >>> packing = Packing(torch.tensor([5, 3]), 5)
    >>> y, shorter_rows = SubsamplingConfig(factor=2, hidden_dim=4).build_for(3)(torch.randn(8, 3), packing=packing)
    >>> y.shape, shorter_rows.lengths.tolist()
    (torch.Size([5, 4]), [3, 2])
    """

    factor: int
    output_dim: int
    look_ahead: int | None = None
    """The number of frames after frame k · j that y_j depends on; None if it depends on the whole row."""

    def forward(
        self, x: Float[Tensor, "frames input_dim"] | Float[Tensor, "batch length input_dim"], *, packing: Packing
    ) -> tuple[Float[Tensor, "vectors output_dim"] | Float[Tensor, "batch shorter output_dim"], Packing]:
        if x.dim() == 3:
            y, after = self.reduce(packing.pack(x), packing)
            return after.unpack(y), after
        return self.reduce(x, packing)

    @abstractmethod
    def reduce(
        self, x: Float[Tensor, "frames input_dim"], packing: Packing
    ) -> tuple[Float[Tensor, "vectors output_dim"], Packing]: ...

    def stream_refusals(self) -> list[str]:
        """Why a sequence cannot be subsampled piece by piece; empty where it can."""
        return [] if self.look_ahead is not None else [f"{type(self).__name__} reads from the end, too"]

    def stream_parts(self) -> list[Stream[Any]]:
        """The layers as streams, for a subsampling without refusals."""
        reach = self.look_ahead or 0
        return [
            LocalStream(self._vectors, self.output_dim, left=reach, right=reach, stride=self.factor, name="subsampling")
        ]

    def _vectors(self, x: Tensor, packing: Packing) -> Tensor:
        return self.reduce(x, packing)[0]


@dataclass(frozen=True, kw_only=True)
class SubsamplingConfig:
    """Convolutions over time with stride 2."""

    kind: ClassVar[str] = "convolution"
    factor: int = setting(4, "frames for one vector: 1, 2, 4, 8 …")
    hidden_dim: int = setting(128, "width of the vectors")
    width: int = setting(3, "frames that a layer joins, an odd number")

    def __post_init__(self) -> None:
        require_positive(hidden_dim=self.hidden_dim)
        require_factor(self.factor)
        require_centre(self.width)

    def build_for(self, input_dim: int) -> "TimeSubsampling":
        return TimeSubsampling(self, input_dim)


@dataclass(frozen=True, kw_only=True)
class PlaneSubsamplingConfig:
    """Convolutions over time and frequency with stride 2 on both axes. The input's order is that of a spectrum."""

    kind: ClassVar[str] = "plane"
    factor: int = setting(4, "frames for one vector: 1, 2, 4, 8 …")
    hidden_dim: int = setting(128, "width of the vectors")
    maps: int = setting(16, "feature maps of each layer")
    width: int = setting(3, "frames and bands that a layer joins, an odd number")
    spectra: int = setting(1, "spectra in a frame, one after the other: 3 with deltas and their deltas")

    def __post_init__(self) -> None:
        require_positive(hidden_dim=self.hidden_dim, maps=self.maps, spectra=self.spectra)
        require_factor(self.factor)
        require_centre(self.width)

    def build_for(self, input_dim: int) -> "PlaneSubsampling":
        return PlaneSubsampling(self, input_dim)


@dataclass(frozen=True, kw_only=True)
class PyramidConfig:
    """The pyramid of Listen, Attend and Spell: recurrent layers, each over pairs of vectors of the layer below."""

    kind: ClassVar[str] = "pyramid"
    factor: int = setting(4, "frames for one vector: 1, 2, 4, 8 …")
    hidden_dim: int = setting(128, "per direction")
    cell: Cell = "lstm"
    bidirectional: bool = True
    dropout: float = setting(0.0, "on the output of each layer")

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(hidden_dim=self.hidden_dim)
        require_factor(self.factor)
        require_rates(dropout=self.dropout)

    def build_for(self, input_dim: int) -> "Pyramid":
        return Pyramid(self, input_dim)


AnySubsamplingConfig = SubsamplingConfig | PlaneSubsamplingConfig | PyramidConfig
"""The subsamplings that a configuration can select: "convolution", "plane", "pyramid"."""


class TimeSubsampling(Subsampling):
    """y_j = relu(W [x_{2j−s}; …; x_{2j}; …; x_{2j+s}] + b) in each of log₂ k layers, with zeros beyond the row's ends

    A layer is one matrix product over real frames. With k = 1, there is one layer y_j = W x_j + b.
    """

    def __init__(self, config: SubsamplingConfig, input_dim: int) -> None:
        super().__init__()
        self.factor, self.output_dim, self.width = config.factor, config.hidden_dim, config.width
        self.look_ahead = (config.factor - 1) * (config.width // 2)
        count, width = depth(config.factor), 1 if config.factor == 1 else config.width
        dims = [input_dim, *[config.hidden_dim] * (count - 1)]
        self.layers = nn.ModuleList(Linear(width * dim, config.hidden_dim) for dim in dims)

    def reduce(
        self, x: Float[Tensor, "frames input_dim"], packing: Packing
    ) -> tuple[Float[Tensor, "vectors output_dim"], Packing]:
        if self.factor == 1:
            return self.layers[0](x), packing
        for layer in self.layers:
            joined, packing = _joined(x, packing, self.width // 2, self.width)
            x = relu(layer(joined))
        return x, packing


class PlaneSubsampling(Subsampling):
    """Two-dimensional convolutions with stride 2 on time and frequency, relu, then y_j = W [all maps at j] + b

    The front of many recognisers: the first layers share their weights over frequency, as a voice may be higher or
    lower. A band index is a place, which `TimeSubsampling` does not know. Zeros stand beyond the edges.
    """

    def __init__(self, config: PlaneSubsamplingConfig, input_dim: int) -> None:
        super().__init__()
        if input_dim % config.spectra:
            raise ValueError(
                f"A frame of {input_dim} numbers does not divide into spectra={config.spectra}. Set spectra to 1, or "
                "to 2 or 3 for frames with deltas."
            )
        self.factor, self.output_dim = config.factor, config.hidden_dim
        self.spectra, self.bands = config.spectra, input_dim // config.spectra
        side, count = config.width // 2, depth(config.factor)
        self.look_ahead = (config.factor - 1) * side
        strided = 0 if config.factor == 1 else count
        channels = [config.spectra, *[config.maps] * strided]
        self.layers = nn.ModuleList(
            PlaneConvolution(inputs, outputs, config.width, stride=2, padding=side)
            for inputs, outputs in pairwise(channels)
        )
        self.project = Linear(channels[-1] * -(-self.bands // 2**strided), config.hidden_dim)

    def reduce(
        self, x: Float[Tensor, "frames input_dim"], packing: Packing
    ) -> tuple[Float[Tensor, "vectors output_dim"], Packing]:
        plane = packing.unpack(x).unflatten(-1, (self.spectra, self.bands)).transpose(1, 2)
        if not plane.numel():
            packing = subsampled(packing, self.factor)
            return self.project(x.new_zeros(0, self.project.in_features)), packing
        for layer in self.layers:
            packing = subsampled(packing, 2)
            plane = layer(plane)
            if not packing.full:
                plane = plane.masked_fill_(~_real(packing)[:, None, :, None], 0.0)
            plane = plane.relu_()
        return self.project(packing.pack(plane.transpose(1, 2).flatten(2))), packing


class Pyramid(Subsampling):
    """h_j = pBLSTM([x_{2j}; x_{2j+1}]) in each of log₂ k layers

    Chan et al. 2016, section 3.1 and equation 5. A row with an odd number of vectors ends in a pair with zeros.
    """

    def __init__(self, config: PyramidConfig, input_dim: int) -> None:
        super().__init__()
        self.factor, self.dropout = config.factor, config.dropout
        stack = RecurrentConfig(cell=config.cell, hidden_dim=config.hidden_dim)
        self.output_dim = config.hidden_dim * (2 if config.bidirectional else 1)
        self.joins = 1 if config.factor == 1 else 2
        self.look_ahead = None if config.bidirectional else config.factor - 1
        dims = [input_dim, *[self.output_dim] * (depth(config.factor) - 1)]
        self.layers = nn.ModuleList(
            RecurrentEncoder(stack, self.joins * dim, bidirectional=config.bidirectional) for dim in dims
        )

    def reduce(
        self, x: Float[Tensor, "frames input_dim"], packing: Packing
    ) -> tuple[Float[Tensor, "vectors output_dim"], Packing]:
        for layer in self.layers:
            if self.joins == 2:
                x, packing = _joined(x, packing, 0, 2)
            hidden, _ = layer(packing.unpack(x), packing.lengths)
            x = dropout(packing.pack(hidden), self.dropout, self.training)
        return x, packing

    def stream_parts(self) -> list[Stream[Any]]:
        parts: list[Stream[Any]] = []
        for layer in cast(Iterable[RecurrentEncoder], self.layers):
            if self.joins == 2:
                width = layer.input_dim
                parts.append(LocalStream(_pairs, width, left=0, right=1, stride=2, name="pairs"))
            parts.append(RecurrentStream(layer))
        return parts


def require_factor(factor: int) -> None:
    """Raise ValueError for a factor that strides of 2 cannot make."""
    if factor not in (powers := [2**power for power in range(LARGEST.bit_length())]):
        raise ValueError(f"factor must be one of {', '.join(map(str, powers))}, got {factor}")


def require_centre(width: int) -> None:
    """Raise ValueError for an even width, which has no middle frame."""
    require_positive(width=width)
    if width % 2 == 0:
        raise ValueError(f"width must be odd, so that it has a middle frame, got {width}")


def depth(factor: int) -> int:
    """The number of layers: log₂ of the factor, at least 1."""
    return max(factor.bit_length() - 1, 1)


def _joined(
    x: Float[Tensor, "frames dim"], packing: Packing, before: int, width: int
) -> tuple[Float[Tensor, "vectors joined"], Packing]:
    """[x_{2j−before}; …] of `width` frames for every second frame, with zeros beyond the ends of its row."""
    after = subsampled(packing, 2)
    missing = 2 * after.length + width - 2 - before - packing.length if packing.length else width
    padded = pad(packing.unpack(x), (0, 0, before, missing))
    parts = [padded[:, offset::2][:, : after.length] for offset in range(width)]
    return after.pack(torch.cat(parts, dim=-1)), after


def _pairs(x: Float[Tensor, "frames dim"], packing: Packing) -> Float[Tensor, "vectors joined"]:
    return _joined(x, packing, 0, 2)[0]


def _real(packing: Packing) -> Tensor:
    return torch.arange(packing.length, device=packing.lengths.device) < packing.lengths[:, None]
