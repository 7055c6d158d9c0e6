"""Frames of speech from samples: log-mel energies, cepstra, their slopes, stacks, in PyTorch.

Frames follow Kaldi: windows of 25 ms begin every 10 ms, the first with the first sample, and a window is never padded:
the number of frames is 1 + ⌊(samples − window) / hop⌋. Within a window, the mean is subtracted, then 0.97 of each
sample's predecessor; the window is Povey's, the Hann window to the power 0.85. Energies are those of 16-bit samples.

Reference: Povey et al. 2011, "The Kaldi speech recognition toolkit", section III.
"""

import contextlib
import math
from functools import lru_cache
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

WINDOW, HOP = 0.025, 0.010
"""Seconds of a window, and between the beginnings of two windows."""
LOWEST = 20.0
"""The lowest frequency of the bands, in hertz; the highest is half the rate."""
EMPHASIS = 0.97
SCALE = float(1 << 15)
FLOOR = torch.finfo(torch.float32).eps
"""The smallest energy of a band, whose logarithm, −15.9, stands for digital silence."""
LIFTER = 22.0
SLOPE = 2
"""The number of frames before and after a frame that its slope is computed from."""
_CHUNK = 4096
Features = Literal["log_mel", "mfcc"]


def window_length(rate: int) -> int:
    """Samples of a window.

    >>> window_length(16_000), window_length(8_000)
    (400, 200)
    """
    return int(rate * WINDOW)


def hop_length(rate: int) -> int:
    """Samples between the beginnings of two windows.

    >>> hop_length(16_000), hop_length(11_025)
    (160, 110)
    """
    return int(rate * HOP)


def num_frames(samples: int, rate: int) -> int:
    """1 + ⌊(samples − window) / hop⌋, or 0 for fewer samples than a window has.

    >>> [num_frames(16_000 * seconds, 16_000) for seconds in (1, 5, 10)]
    [98, 498, 998]
    """
    return max(0, 1 + (samples - window_length(rate)) // hop_length(rate))


def power_spectrum(samples: Float[Tensor, " samples"], rate: int) -> Float[Tensor, "frames bins"]:
    """|FFT|² of each window, padded with zeros to a power of 2."""
    size, hop = window_length(rate), hop_length(rate)
    if len(samples) < size:
        return samples.new_zeros(0, transform_length(rate) // 2 + 1)
    frames = samples.unfold(0, size, hop) * SCALE
    frames = frames - frames.mean(1, keepdim=True)
    before = torch.cat([frames[:, :1], frames[:, :-1]], 1)
    spectrum = torch.fft.rfft((frames - EMPHASIS * before) * povey_window(size).to(frames), n=transform_length(rate))
    return spectrum.real**2 + spectrum.imag**2


def log_mel(samples: Float[Tensor, " samples"], rate: int, *, bands: int) -> Float[Tensor, "frames bands"]:
    """ln max(M |FFT|², ε), with triangular bands M that are equally wide in mel = 1127 ln(1 + hertz / 700).

    >>> tone = torch.sin(2 * math.pi * 1000 * torch.arange(16_000) / 16_000)
    >>> energies = log_mel(tone, 16_000, bands=40)
    >>> energies.shape, int(energies.mean(0).argmax())  # 1,000 Hz are 1,000 mel, and the bands end at 2,840 mel
    (torch.Size([98, 40]), 13)
    """
    weights = mel_bands(rate, bands).to(samples)
    size, hop = window_length(rate), hop_length(rate)
    pieces = []
    for first in range(0, max(num_frames(len(samples), rate), 1), _CHUNK):  # in constant memory
        piece = samples[first * hop : (first + _CHUNK - 1) * hop + size]
        pieces.append((power_spectrum(piece, rate) @ weights).clamp(min=FLOOR).log())
    return torch.cat(pieces)


def mfcc(samples: Float[Tensor, " samples"], rate: int, *, bands: int, cepstra: int) -> Float[Tensor, "frames cepstra"]:
    """The first coefficients of the orthonormal cosine transform of log-mel energies, c_k (1 + 11 sin(π k / 22)).

    Reference: Davis & Mermelstein 1980; the lifter is that of the HTK book, section 5.6.2.
    """
    return log_mel(samples, rate, bands=bands) @ cosines(bands, cepstra).to(samples)


def deltas(frames: Float[Tensor, "frames width"], order: int = 1) -> Float[Tensor, "frames wider"]:
    """Frames beside their slopes: d_t = Σ_n n (x_{t+n} − x_{t−n}) / 2 Σ_n n², n = 1, 2, and for order 2 also the slopes
    of the slopes. The first and the last frame stand for those outside.

    >>> deltas(torch.arange(6.0)[:, None])[:, 1]
    tensor([0.5000, 0.8000, 1.0000, 1.0000, 0.8000, 0.5000])

    Reference: Furui 1986; the HTK book, section 5.9.
    """
    reach = SLOPE * order
    if not len(frames):
        return frames.new_zeros(0, frames.shape[1] * (1 + order))
    return slopes(pad(frames.T[None], (reach, reach), mode="replicate")[0].T, order)


def slopes(frames: Float[Tensor, "frames width"], order: int) -> Float[Tensor, "inner wider"]:
    """`deltas` of the frames that have 2 · order frames on both sides."""
    reach, inner = SLOPE * order, len(frames) - 2 * SLOPE * order
    parts = [frames[reach : reach + inner]]
    for power in range(1, order + 1):
        kernel = _slope_kernel(power).to(frames)
        first = reach - SLOPE * power
        windows = frames[first : first + inner + 2 * SLOPE * power].unfold(0, len(kernel), 1)
        parts.append(windows @ kernel)
    return torch.cat(parts, 1)


def stack(frames: Float[Tensor, "frames width"], count: int, stride: int) -> Float[Tensor, "stacks wider"]:
    """`count` consecutive frames as one vector, every `stride` frames. An incomplete stack at the end is left out,
    unless it is the only one, which its last frame completes.

    >>> stack(torch.arange(5.0)[:, None], 3, 2)
    tensor([[0., 1., 2.],
            [2., 3., 4.]])
    """
    if count == stride == 1 or not len(frames):
        return frames.new_zeros(0, frames.shape[1] * count) if not len(frames) else frames
    if len(frames) < count:
        frames = torch.cat([frames, frames[-1:].expand(count - len(frames), -1)])
    return frames.unfold(0, count, stride).transpose(1, 2).flatten(1)


@lru_cache(maxsize=16)
def mel_bands(rate: int, bands: int) -> Float[Tensor, "bins bands"]:
    """Triangles whose edges are equally far from each other in mel, from 20 Hz to half the rate.

    Raises ValueError for more bands than the bins of the spectrum distinguish.
    """
    length = transform_length(rate)
    low, high = (1127 * math.log1p(hertz / 700) for hertz in (LOWEST, rate / 2))
    step = (high - low) / (bands + 1)
    # Kaldi's bins end before half the rate, where every triangle is 0.
    mel = 1127 * torch.log1p(torch.arange(length // 2 + 1, dtype=torch.float64) * (rate / length / 700))
    left = low + step * torch.arange(bands, dtype=torch.float64)
    rising = (mel[:, None] - left) / step
    weights = torch.minimum(rising, 2 - rising).clamp(min=0)
    if not bool((weights.sum(0) > 0).all()):
        raise ValueError(f"{bands} bands are more than the spectrum at {rate:,} samples a second has. Choose fewer.")
    return weights.float()


def most_bands(rate: int, limit: int) -> int:
    """The largest number of bands that the bins of the spectrum distinguish, up to a limit.

    >>> most_bands(16_000, 80), most_bands(1_000, 40)
    (80, 25)
    """
    for bands in range(limit, 1, -1):
        with contextlib.suppress(ValueError):
            mel_bands(rate, bands)
            return bands
    return 1


@lru_cache(maxsize=16)
def cosines(bands: int, cepstra: int) -> Float[Tensor, "bands cepstra"]:
    """The orthonormal cosine transform of type II, with the lifter."""
    k = torch.arange(cepstra, dtype=torch.float64)
    angle = (torch.arange(bands, dtype=torch.float64)[:, None] + 0.5) * k * (math.pi / bands)
    scale = torch.where(k == 0, math.sqrt(1 / bands), math.sqrt(2 / bands))
    return (angle.cos() * scale * (1 + LIFTER / 2 * (k * math.pi / LIFTER).sin())).float()


def transform_length(rate: int) -> int:
    """The length of the Fourier transform of a window: the next power of 2.

    >>> transform_length(16_000), transform_length(8_000)
    (512, 256)
    """
    return 1 << (window_length(rate) - 1).bit_length()


@lru_cache(maxsize=16)
def povey_window(size: int) -> Float[Tensor, " size"]:
    """(½ − ½ cos(2π n / (size − 1)))^0.85"""
    return torch.hann_window(size, periodic=False, dtype=torch.float64).pow(0.85).float()


@lru_cache(maxsize=4)
def _slope_kernel(power: int) -> Float[Tensor, " width"]:
    """The slope applied `power` times: a convolution of slopes."""
    once = torch.arange(-SLOPE, SLOPE + 1, dtype=torch.float64)
    once = once / (once**2).sum()
    kernel = torch.ones(1, dtype=torch.float64)
    for _ in range(power):
        padded = pad(kernel, (2 * SLOPE, 2 * SLOPE))
        kernel = padded.unfold(0, len(once), 1) @ once.flip(0)
    return kernel.float()
