"""Log-mel energies and cepstra equal Kaldi's."""

from typing import Any

import kaldi_native_fbank
import numpy as np
import pytest
import torch

from foveate.data.spectrum import log_mel, mfcc


def sound(rate: int) -> np.ndarray:
    """A tone that rises, noise, and digital silence."""
    time = np.arange(int(1.37 * rate)) / rate
    samples = 0.3 * np.sin(2 * np.pi * (200 + 0.1 * rate * time) * time)
    samples += 0.05 * np.random.default_rng(0).normal(size=len(time))
    samples[2000:4500] = 0
    return samples.astype(np.float32)


def frames(extractor: Any, samples: np.ndarray, rate: int) -> np.ndarray:
    extractor.accept_waveform(rate, (samples * 32768).tolist())
    extractor.input_finished()
    return np.stack([extractor.get_frame(number) for number in range(extractor.num_frames_ready)])


@pytest.mark.parametrize(("rate", "bands"), [(8_000, 40), (11_025, 23), (16_000, 80)])
def test_log_mel_energies_equal_those_of_kaldi(rate: int, bands: int) -> None:
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq, options.frame_opts.dither, options.mel_opts.num_bins = rate, 0, bands
    theirs = frames(kaldi_native_fbank.OnlineFbank(options), sound(rate), rate)
    ours = log_mel(torch.from_numpy(sound(rate)), rate, bands=bands).numpy()
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-3


@pytest.mark.parametrize(("rate", "bands"), [(8_000, 23), (16_000, 40)])
def test_cepstra_equal_those_of_kaldi(rate: int, bands: int) -> None:
    options = kaldi_native_fbank.MfccOptions()
    options.frame_opts.samp_freq, options.frame_opts.dither, options.mel_opts.num_bins = rate, 0, bands
    options.num_ceps, options.use_energy = 13, False
    theirs = frames(kaldi_native_fbank.OnlineMfcc(options), sound(rate), rate)
    ours = mfcc(torch.from_numpy(sound(rate)), rate, bands=bands, cepstra=13).numpy()
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-3
