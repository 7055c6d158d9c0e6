"""Makes librosa.json with librosa 0.11 (`pip install librosa`): python make.py > librosa.json

A tone that rises with noise, at 8,000 samples a second. librosa pads windows to the length of its transform on both
sides, keeps the mean of a window, and emphasises the whole signal, so the numbers are those of windows that this
script has prepared as Kaldi does; librosa's part is the spectrum, the cosine transform and the slopes.
"""

import json

import numpy as np

RATE, SIZE, HOP, LENGTH = 8_000, 200, 80, 256


def sound() -> np.ndarray:
    """Samples that need no generator of random numbers."""
    time = np.arange(RATE // 10) / RATE
    return 0.3 * np.sin(2 * np.pi * (300 + 2000 * time) * time) + 0.05 * np.sin(1e6 * np.sin(1e4 * time))


def main() -> None:
    import librosa  # only for making these numbers

    window = librosa.filters.get_window("hann", SIZE, fftbins=False) ** 0.85
    frames = 32768 * librosa.util.frame(sound(), frame_length=SIZE, hop_length=HOP).T
    frames = frames - frames.mean(1, keepdims=True)
    frames = np.stack([librosa.effects.preemphasis(frame, coef=0.97, zi=[-0.97 * frame[0]]) for frame in frames])
    padded = np.pad(frames, ((0, 0), (0, LENGTH - SIZE)))
    whole = np.pad(window, (0, LENGTH - SIZE))
    power = [
        np.abs(librosa.stft(one, n_fft=LENGTH, hop_length=LENGTH, window=whole, center=False)) ** 2 for one in padded
    ]
    power = np.concatenate(power, 1).T
    cepstra = librosa.feature.mfcc(S=np.log(power[:, :40]).T, n_mfcc=13, dct_type=2, norm="ortho").T
    slopes = librosa.feature.delta(cepstra.T, width=5, order=1, mode="nearest").T
    mel = librosa.mel_frequencies(n_mels=22, fmin=20, fmax=RATE / 2, htk=True)
    numbers = {"log_power": np.log(power), "cepstra": cepstra, "slopes": slopes, "edges": mel}
    print(json.dumps({name: np.round(value, 5).tolist() for name, value in numbers.items()}))


if __name__ == "__main__":
    main()
