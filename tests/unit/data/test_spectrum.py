"""Frames of speech: their number, their energies at known tones, slopes, stacks."""

import numpy as np
import pytest
import torch

from foveate.data import spectrum
from foveate.data.spectrum import cosines, deltas, log_mel, mel_bands, mfcc, num_frames, power_spectrum, stack


def noise(samples: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(samples, generator=torch.Generator().manual_seed(seed)) / 10


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 44_100])
def test_windows_are_never_padded(rate: int) -> None:
    window, hop = int(0.025 * rate), int(0.01 * rate)
    for samples, frames in ((0, 0), (window - 1, 0), (window, 1), (window + hop - 1, 1), (window + hop, 2)):
        assert num_frames(samples, rate) == frames
        assert log_mel(noise(samples), rate, bands=20).shape == (frames, 20)
        assert mfcc(noise(samples), rate, bands=20, cepstra=13).shape == (frames, 13)


def test_a_frame_depends_on_its_own_samples_only() -> None:
    samples = noise(16_000)
    other = samples.clone()
    other[160 * 30 + 400 :] = 7.0
    assert torch.equal(log_mel(samples, 16_000, bands=80)[:31], log_mel(other, 16_000, bands=80)[:31])


def test_long_recordings_are_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = noise(8_123)
    whole = log_mel(samples, 8_000, bands=40)
    for chunk in (1, 7, 98, 99, 100):
        monkeypatch.setattr(spectrum, "_CHUNK", chunk)
        pieces = log_mel(samples, 8_000, bands=40)
        assert pieces.shape == whole.shape
        assert torch.allclose(pieces, whole, atol=1e-4)


def test_a_tone_is_loudest_in_its_band() -> None:
    for hertz in (150, 500, 1500, 3500):
        tone = torch.sin(2 * torch.pi * hertz * torch.arange(16_000) / 16_000)
        band = int(log_mel(tone, 16_000, bands=40).mean(0).argmax())
        peak = mel_bands(16_000, 40)[:, band].argmax() * 16_000 / 512
        assert abs(float(peak) - hertz) < 0.1 * hertz + 32


def test_ten_times_the_amplitude_adds_the_logarithm_of_a_hundred_to_energies_and_changes_one_cepstrum() -> None:
    samples = noise(4_000)
    louder = log_mel(10 * samples, 8_000, bands=40) - log_mel(samples, 8_000, bands=40)
    assert torch.allclose(louder, torch.tensor(100.0).log().expand_as(louder), atol=1e-4)
    change = (mfcc(10 * samples, 8_000, bands=40, cepstra=13) - mfcc(samples, 8_000, bands=40, cepstra=13)).abs()
    assert float(change[:, 1:].max()) < 1e-3 < float(change[:, 0].min())


def test_digital_silence_has_the_smallest_energy() -> None:
    energies = log_mel(torch.zeros(8_000), 8_000, bands=40)
    assert torch.allclose(energies, torch.full_like(energies, np.log(np.finfo(np.float32).eps)))


def test_a_constant_offset_is_removed() -> None:
    samples = noise(8_000)
    assert torch.allclose(power_spectrum(samples + 0.1, 8_000), power_spectrum(samples, 8_000), rtol=1e-2, atol=10)


def test_triangles_add_to_one_between_their_first_and_last_peak() -> None:
    weights = mel_bands(16_000, 20).sum(1)
    peaks = mel_bands(16_000, 20).argmax(0)
    assert torch.allclose(weights[int(peaks[0]) + 1 : int(peaks[-1])], torch.ones(()), atol=1e-5)


def test_more_bands_than_the_spectrum_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"200 bands are more than the spectrum at 8,000 samples a second has"):
        mel_bands(8_000, 200)


def test_the_cosine_transform_without_its_lifter_is_orthonormal() -> None:
    lifter = 1 + 11 * torch.sin(torch.arange(20) * torch.pi / 22)
    basis = cosines(20, 20) / lifter
    assert torch.allclose(basis.T @ basis, torch.eye(20), atol=1e-5)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_slopes_of_a_polynomial_are_its_derivatives(order: int) -> None:
    time = torch.arange(20.0)
    frames = deltas(torch.stack([time, time**2], 1), order)
    exact = (torch.stack([time, time**2], 1), torch.stack([time * 0 + 1, 2 * time], 1), torch.tensor([0.0, 2.0]))
    assert frames.shape == (20, 2 + 2 * order)
    for power in range(order + 1):
        assert torch.allclose(frames[4:-4, 2 * power : 2 * power + 2], exact[power].expand(20, 2)[4:-4], atol=1e-3), (
            power
        )
    assert deltas(torch.zeros(0, 3), order).shape == (0, 3 * (order + 1))


def test_stacks_hold_neighbouring_frames_and_leave_an_incomplete_stack_out() -> None:
    frames = torch.arange(14.0).view(7, 2)
    assert stack(frames, 3, 3).tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert stack(frames, 3, 1).shape == (5, 6)
    assert stack(frames, 1, 1) is frames
    assert stack(frames[:2], 3, 3).tolist() == [[0, 1, 2, 3, 2, 3]]
    assert stack(frames[:0], 3, 2).shape == (0, 6)
