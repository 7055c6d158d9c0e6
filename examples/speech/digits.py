"""Joins recordings of spoken digits, by real voices, into strings of one to seven digits with known word times.

    git clone https://github.com/Jakobovski/free-spoken-digit-dataset
    python examples/speech/digits.py free-spoken-digit-dataset/recordings digits/
    foveate train transcribe --data digits/train.tsv --valid-data digits/valid.tsv --out asr/
    foveate evaluate asr/ --data digits/test.tsv

The Free Spoken Digit Dataset has 3,000 recordings with names such as `7_theo_12.wav`: the digit, one of six speakers,
and an index from 0 to 49. The indices 0 to 4 are its official test part; 5 and 6 are for validation here, and no string
contains recordings of two parts. Every string has one speaker, and between its words there are random pauses, filled
with noise as quiet as the quietest part of the recording before them. The strings are a function of `--seed`.

For each part, the script writes a folder with one WAV file per string, a table such as train.tsv (`path<TAB>words`),
and beside each WAV file its words with their times in seconds (`start<TAB>end<TAB>word`, a label track as Audacity
reads and writes them). The table train.words.tsv (`path<TAB>track`) is for labelling every frame: `foveate train tag`.

Zohar Jackson and others, Free Spoken Digit Dataset, licensed under CC-BY-SA-4.0. The recordings are not bundled.
"""

import argparse
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NAME = re.compile(r"(?P<digit>\d)_(?P<speaker>\w+)_(?P<index>\d+)")
TEST, VALID = range(5), range(5, 7)
"""The indices for testing, which are the official ones, and for validation."""
SIZES = {"train": 4000, "valid": 200, "test": 400}
"""The numbers of strings."""
LONGEST = 7
"""The largest number of digits in a string."""
PAUSE = (0.0, 0.25)
"""The shortest and the longest pause, in seconds."""
BLOCK = 0.01
"""The length, in seconds, of the blocks among which the quietest is sought."""

Recordings = Mapping[str, Mapping[str, Sequence[Path]]]
"""The recordings of a part, by speaker and by digit."""


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """A string of words as one sound, with the first and last second of each word."""

    samples: np.ndarray
    rate: int
    words: tuple[str, ...]
    times: tuple[tuple[float, float], ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def track(self) -> str:
        """The lines of a label track."""
        rows = zip(self.times, self.words, strict=True)
        return "".join(f"{start:.6f}\t{end:.6f}\t{word}\n" for (start, end), word in rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, help="folder with 0_george_0.wav and the others")
    parser.add_argument("out", type=Path, help="folder for the strings and their tables")
    parser.add_argument("--seed", type=int, default=0, help="determines the strings and the pauses (0)")
    parser.add_argument("--train", type=int, default=SIZES["train"], help="number of strings for training (4000)")
    arguments = parser.parse_args(argv)
    parts = split(arguments.recordings)
    if not all(parts.values()):
        parser.error(f"{arguments.recordings} needs recordings of each part, such as 0_george_0.wav, 0_george_5.wav")
    for part, count in {**SIZES, "train": arguments.train}.items():
        # A text as seed, because equal numbers would give the parts the same digits in the same order.
        write(strings(parts[part], count, random.Random(f"{arguments.seed} {part}")), arguments.out, part)
    return 0


def split(folder: Path) -> dict[str, Recordings]:
    """The recordings of each part. Files with other names are left out."""
    parts: dict[str, dict[str, dict[str, list[Path]]]] = {part: {} for part in SIZES}
    for path in sorted(folder.glob("*.wav")):
        if name := NAME.fullmatch(path.stem):
            speaker = parts[part_of(int(name["index"]))].setdefault(name["speaker"], {})
            speaker.setdefault(name["digit"], []).append(path)
    return parts


def part_of(index: int) -> str:
    """
    >>> part_of(4), part_of(5), part_of(49)
    ('test', 'valid', 'train')
    """
    return "test" if index in TEST else "valid" if index in VALID else "train"


def strings(
    recordings: Recordings, count: int, generator: random.Random, *, longest: int = LONGEST
) -> Iterator[Spoken]:
    """Random strings of one speaker each, with random recordings of their digits."""
    for _ in range(count):
        speaker = recordings[generator.choice(sorted(recordings))]
        digits = generator.choices(sorted(speaker), k=generator.randint(1, longest))
        paths = [generator.choice(speaker[digit]) for digit in digits]
        sounds = [soundfile.read(path, dtype="float32") for path in paths]
        if len(rates := {rate for _, rate in sounds}) > 1:
            raise SystemExit(f"{', '.join(map(str, paths))} have different rates: {sorted(rates)} Hz. Resample them.")
        words = [WORDS[int(digit)] for digit in digits]
        yield joined([samples for samples, _ in sounds], rates.pop(), words, generator)


def joined(sounds: Sequence[np.ndarray], rate: int, words: Sequence[str], generator: random.Random) -> Spoken:
    """The sounds of words one after another, with a pause before each and after the last."""
    noise = np.random.default_rng(generator.getrandbits(64))
    pieces, times, at = [], [], 0
    for samples in (*sounds, sounds[-1][:0]):
        level = quietest(samples if len(samples) else sounds[-1], int(BLOCK * rate))
        pause = noise.normal(0, level, int(generator.uniform(*PAUSE) * rate)).astype(np.float32)
        pieces += [pause, samples]
        times.append(((at + len(pause)) / rate, (at + len(pause) + len(samples)) / rate))
        at += len(pause) + len(samples)
    return Spoken(samples=np.concatenate(pieces), rate=rate, words=tuple(words), times=tuple(times[:-1]))


def quietest(samples: np.ndarray, block: int) -> float:
    """The smallest root mean square of a block.

    >>> quietest(np.array([3.0, -3.0, 1.0, -1.0, 2.0, 2.0]), block=2)
    1.0
    """
    blocks = samples[: len(samples) // block * block].reshape(-1, block)
    return float(np.sqrt((blocks**2).mean(1)).min()) if len(blocks) else 0.0


def write(spoken: Iterator[Spoken], folder: Path, part: str) -> None:
    """Write the sounds, their label tracks, and their table."""
    (folder / part).mkdir(parents=True, exist_ok=True)
    lines, seconds = [], 0.0
    for number, one in enumerate(spoken):
        name = f"{part}/{number:05}.wav"
        soundfile.write(folder / name, one.samples, one.rate, subtype="PCM_16")
        (folder / name).with_suffix(".txt").write_text(one.track, encoding="utf-8")
        lines.append(f"{name}\t{one.text}\n")
        seconds += len(one.samples) / one.rate
    (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
    tracks = [f"{name}\t{Path(name).with_suffix('.txt')}\n" for name in (line.split("\t")[0] for line in lines)]
    (folder / f"{part}.words.tsv").write_text("".join(tracks), encoding="utf-8")
    print(f"{part}: {len(lines):,} strings, {seconds / 60:.1f} minutes")


if __name__ == "__main__":
    raise SystemExit(main())
