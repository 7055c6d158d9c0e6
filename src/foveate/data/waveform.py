"""Sound from log-mel energies, the inverse of `spectrum.py` as far as it exists: the algorithm of Griffin and Lim."""

import io
import math
import wave

import numpy as np
import torch
from jaxtyping import Complex, Float, Float32
from torch import Tensor
from torch.nn.functional import fold

from foveate.attention.check import require_positive
from foveate.data.spectrum import EMPHASIS, SCALE, hop_length, mel_bands, povey_window, transform_length, window_length

ITERATIONS = 60
MOMENTUM = 0.99
"""The weight of the last change in the accelerated algorithm."""
_MEL_STEPS = 60
_LOUDEST = 0.9


def waveform(
    energies: Float[Tensor, "frames bands"], rate: int, *, iterations: int = ITERATIONS, seed: int = 0
) -> Float32[np.ndarray, " samples"]:
    """Samples between −1 and 1 whose `log_mel` energies are close to these.

    The spectrum of each frame is the non-negative one whose bands come closest to the energies. Its phases begin with
    random ones, a function of `seed`; each iteration computes the samples whose windows come closest to the spectra,
    and takes the phases of their windows. A sound that would exceed 1 is scaled down.

    Raises ValueError for numbers that are not finite.

    Reference: Griffin & Lim 1984, "Signal estimation from modified short-time Fourier transform"; Perraudin et al.
    2013, "A fast Griffin–Lim algorithm", algorithm 2.
    """
    require_positive(rate=rate, iterations=iterations)
    if not bool(torch.isfinite(energies).all()):
        raise ValueError("Energies must be finite numbers, and these have NaN or infinite ones.")
    if not len(energies):
        return np.zeros(0, np.float32)
    magnitude = spectrum_of_bands(energies.exp(), rate).sqrt() / SCALE
    generator = torch.Generator().manual_seed(seed)
    phase = torch.rand(magnitude.shape, generator=generator, dtype=magnitude.dtype) * (2 * math.pi)
    guess = torch.polar(magnitude, phase)
    before = guess
    for _ in range(iterations):
        consistent = _windows(_samples(guess, rate), rate)
        ahead = consistent + MOMENTUM * (consistent - before)
        guess, before = torch.polar(magnitude, ahead.angle()), consistent
    samples = _without_emphasis(_samples(guess, rate).numpy())
    return (samples * min(1.0, _LOUDEST / max(float(np.abs(samples).max()), 1e-12))).astype(np.float32)


def wav(samples: Float[np.ndarray, " samples"], rate: int) -> bytes:
    """A WAV file of one channel with 16 bits a sample, for samples from −1 to 1."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(sixteen_bits(samples))
    return file.getvalue()


def sixteen_bits(samples: Float[np.ndarray, " samples"]) -> bytes:
    """Samples from −1 to 1 as numbers of 16 bits, the low byte first."""
    return np.rint(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def spectrum_of_bands(energies: Float[Tensor, "frames bands"], rate: int) -> Float[Tensor, "frames bins"]:
    """The non-negative power spectra whose bands come closest to the energies, by multiplicative updates.

    Reference: Lee & Seung 2001, "Algorithms for non-negative matrix factorization", theorem 1.
    """
    bands = mel_bands(rate, energies.shape[1]).double()
    energies = energies.double()
    goal, gram = energies @ bands.T, bands @ bands.T
    power = goal / bands.sum(1).clamp(min=1e-12)
    for _ in range(_MEL_STEPS):
        power = power * goal / (power @ gram).clamp(min=1e-30)
    return power


def _windows(samples: Float[Tensor, " samples"], rate: int) -> Complex[Tensor, "frames bins"]:
    size = window_length(rate)
    frames = samples.unfold(0, size, hop_length(rate)) * povey_window(size).to(samples)
    return torch.fft.rfft(frames, n=transform_length(rate))


def _samples(spectra: Complex[Tensor, "frames bins"], rate: int) -> Float[Tensor, " samples"]:
    """The samples whose windows come closest to the spectra: their sum, divided by that of the squared windows."""
    size, hop = window_length(rate), hop_length(rate)
    window = povey_window(size).to(spectra.real)
    frames = torch.fft.irfft(spectra, n=transform_length(rate))[:, :size] * window
    weights = (window**2).expand(len(frames), -1)
    count = (len(frames) - 1) * hop + size
    total, weight = (fold(part.T[None], (1, count), (1, size), stride=(1, hop)).flatten() for part in (frames, weights))
    return total / weight.clamp(min=1e-3)


def _without_emphasis(samples: np.ndarray) -> np.ndarray:
    """y_t = x_t + 0.97 y_{t−1}: the inverse of the emphasis, in blocks whose powers of 0.97 do not vanish."""
    size = 256
    powers = EMPHASIS ** np.arange(size)
    response = np.tril(EMPHASIS ** np.subtract.outer(np.arange(size), np.arange(size)).clip(0))
    result, last = np.empty(len(samples)), 0.0
    for first in range(0, len(samples), size):
        block = samples[first : first + size]
        result[first : first + size] = (
            response[: len(block), : len(block)] @ block + last * EMPHASIS * powers[: len(block)]
        )
        last = result[first + len(block) - 1]
    return result
