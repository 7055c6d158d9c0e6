"""Spectra, cepstra, slopes and bands equal stored numbers of librosa: see `spectrum/make.py`."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from foveate.data.spectrum import LIFTER, cosines, deltas, mel_bands, power_spectrum

RATE = 8_000


@pytest.fixture(scope="module")
def numbers() -> dict[str, np.ndarray]:
    stored = json.loads((Path(__file__).parent / "spectrum/librosa.json").read_text())
    return {name: np.array(value, np.float32) for name, value in stored.items()}


def sound() -> torch.Tensor:
    time = np.arange(RATE // 10) / RATE
    samples = 0.3 * np.sin(2 * np.pi * (300 + 2000 * time) * time) + 0.05 * np.sin(1e6 * np.sin(1e4 * time))
    return torch.from_numpy(samples.astype(np.float32))


def test_the_spectrum_of_each_window_is_that_of_librosa(numbers: dict[str, np.ndarray]) -> None:
    ours = power_spectrum(sound(), RATE).log().numpy()
    assert ours.shape == numbers["log_power"].shape == (8, 129)
    assert np.abs(ours - numbers["log_power"]).max() < 2e-3


def test_cepstra_without_their_lifter_are_those_of_librosa(numbers: dict[str, np.ndarray]) -> None:
    lifter = 1 + LIFTER / 2 * torch.sin(torch.arange(13) * torch.pi / LIFTER)
    ours = torch.from_numpy(numbers["log_power"][:, :40]) @ (cosines(40, 13) / lifter)
    assert np.abs(ours.numpy() - numbers["cepstra"]).max() < 1e-3


def test_slopes_are_those_of_librosa(numbers: dict[str, np.ndarray]) -> None:
    ours = deltas(torch.from_numpy(numbers["cepstra"]))[:, 13:]
    assert np.abs(ours.numpy() - numbers["slopes"]).max() < 1e-3


def test_bands_have_the_edges_of_librosa(numbers: dict[str, np.ndarray]) -> None:
    weights, edges = mel_bands(RATE, 20).numpy(), numbers["edges"]
    hertz = np.arange(129) * RATE / 256
    for band in range(20):
        inside = (edges[band] < hertz) & (hertz < edges[band + 2])
        assert ((weights[:, band] > 1e-5) == inside).all()
        assert abs(np.interp(edges[band + 1], hertz, weights[:, band]) - 1) < 0.35
