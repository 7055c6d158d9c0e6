"""Sound from energies: a tone comes back as the same tone, and speech-like chirps with the energies they had."""

import math

import numpy as np
import pytest
import torch

from foveate.data.spectrum import log_mel, mel_bands
from foveate.data.waveform import spectrum_of_bands, waveform

RATE = 8_000


def chirp(seconds: float = 1.0) -> torch.Tensor:
    """A voice-like sound: a falling pitch with harmonics, and a swell."""
    time = torch.arange(int(RATE * seconds)) / RATE
    pitch = 2 * math.pi * (180 * time - 30 * time**2)
    voice = sum(torch.sin(number * pitch) / number for number in range(1, 12))
    return 0.2 * voice * torch.sin(math.pi * time / seconds)


def test_the_energies_of_the_sound_are_close_to_those_that_it_was_made_of() -> None:
    energies = log_mel(chirp(), RATE, bands=40)
    sound = waveform(energies, RATE)
    again = log_mel(torch.from_numpy(sound), RATE, bands=40)
    loud = energies > energies.max() - 8
    assert again.shape == energies.shape
    assert float((again - energies)[loud].abs().mean()) < 0.15  # 0.65 dB


def test_more_iterations_come_closer_than_random_phases() -> None:
    energies = log_mel(chirp(), RATE, bands=40)
    loud = energies > energies.max() - 8

    def distance(iterations: int) -> float:
        sound = torch.from_numpy(waveform(energies, RATE, iterations=iterations))
        return float((log_mel(sound, RATE, bands=40) - energies)[loud].abs().mean())

    assert distance(60) < 0.5 * distance(1)


def test_a_tone_keeps_its_pitch() -> None:
    tone = 0.5 * torch.sin(2 * math.pi * 1_000 * torch.arange(RATE) / RATE)
    sound = waveform(log_mel(tone, RATE, bands=40), RATE)
    spectrum = np.abs(np.fft.rfft(sound))
    peak = spectrum.argmax() * RATE / len(sound)
    assert abs(peak - 1_000) < 60  # a band there is 90 Hz wide
    assert np.abs(sound).max() <= 1.0


def test_bands_of_a_spectrum_come_back() -> None:
    power = torch.rand(5, 129, dtype=torch.float64)
    bands = power @ mel_bands(RATE, 30).double()
    again = spectrum_of_bands(bands, RATE) @ mel_bands(RATE, 30).double()
    assert bool((spectrum_of_bands(bands, RATE) >= 0).all())
    torch.testing.assert_close(again, bands, rtol=0.02, atol=1e-3)


def test_the_sound_is_a_function_of_the_seed() -> None:
    energies = log_mel(chirp(0.3), RATE, bands=40)
    first, second, other = (waveform(energies, RATE, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_nothing_makes_no_sound_and_numbers_that_are_not_finite_are_refused() -> None:
    assert waveform(torch.zeros(0, 40), RATE).shape == (0,)
    with pytest.raises(ValueError, match="finite"):
        waveform(torch.full((3, 40), math.nan), RATE)
