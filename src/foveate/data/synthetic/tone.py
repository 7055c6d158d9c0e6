"""Recordings of tones that spell words, a pitch for each letter, which show whether a recogniser works."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

WORDS = ("sea", "tea", "rest", "star", "sets")


class Spelled(NamedTuple):
    """A recording: samples from −1 to 1, its text, and each word with its start and end in seconds."""

    samples: Float[np.ndarray, " samples"]
    text: str
    words: tuple[tuple[str, float, float], ...]


def tones(
    count: int, *, seed: int = 0, words: Sequence[str] = WORDS, most: int = 3, rate: int = 8_000, noise: float = 0.01
) -> Iterator[Spelled]:
    """Texts of one to `most` words. A letter is a tone of 60 to 110 ms, a pause between words 150 to 300 ms.

    The pitches of the letters are equally far apart, from 300 Hz to less than half of the rate.

    >>> recording = next(tones(1, seed=3))
    >>> recording.text, [f"{word} {start:.2f} {end:.2f}" for word, start, end in recording.words]
    ('sea sea tea', ['sea 0.08 0.34', 'sea 0.55 0.81', 'tea 1.06 1.33'])
    """
    generator, letters = np.random.default_rng(seed), sorted({*"".join(words)})
    step = (0.45 * rate - 300) / max(len(letters), 1)
    for _ in range(count):
        chosen = [str(word) for word in generator.choice(list(words), generator.integers(1, most + 1))]
        parts, times = [np.zeros(_samples(generator, 0.05, 0.2, rate))], []
        for word in chosen:
            start = sum(map(len, parts)) / rate
            for letter in word:
                length = _samples(generator, 0.06, 0.11, rate)
                pitch = 300 + step * letters.index(letter) + generator.normal(0, step / 20)
                turns = pitch * np.arange(length) / rate + generator.random()
                parts.append(0.3 * np.hanning(length) ** 0.3 * np.sin(2 * np.pi * turns))
            times.append((word, start, sum(map(len, parts)) / rate))
            parts.append(np.zeros(_samples(generator, 0.15, 0.3, rate)))
        samples = np.concatenate(parts)
        samples = samples + generator.normal(0, noise, len(samples))
        yield Spelled(samples.clip(-1, 1).astype(np.float32), " ".join(chosen), tuple(times))


def _samples(generator: np.random.Generator, least: float, most: float, rate: int) -> int:
    return int(generator.integers(round(least * rate), round(most * rate)))
