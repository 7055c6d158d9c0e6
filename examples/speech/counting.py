"""Joins recordings of number words, by real voices in five languages, into strings of numbers below a hundred.

    apt install asterisk-core-sounds-{en,es,fr,it,ru}-wav
    python examples/speech/counting.py numbers/
    foveate train transcribe examples/speech/counting.toml --out asr/
    foveate evaluate asr/ --data numbers/test-fr.tsv
    foveate transcribe asr/ numbers/test-fr/00000.wav --words-with-times

Telephone systems read numbers by joining recordings of their words, which this script does: "cuarenta y dos",
"quatre-vingt dix-sept". A string has one to four numbers of one language. A fifth of the numbers of several words occur
in the strings for testing only, and strings for testing have no others; a tenth likewise for validation. There is one
table for training and one for validation, with all languages, and one for testing for each language; words with their
times are beside every string, as `digits.py` writes them.

Each language has **one speaker, who has said each word once**: a recogniser of these strings has to learn how words
follow each other with their pauses, and not how other people say them. English digits by other speakers, of
`digits.py`, show how little it has learnt of that.

The recordings are licensed under CC-BY-SA-3.0 (Digium and others) and are not bundled.
"""

import argparse
import hashlib
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import soundfile
from digits import BLOCK, Spoken, joined, write

SOUNDS = Path("/usr/share/asterisk/sounds")
SIZES = {"train": 3000, "valid": 200, "test": 100}
"""The numbers of strings; those for testing for each language."""
LONGEST = 4
"""The largest number of numbers in a string."""
QUIET = 0.02
"""Blocks at both ends of a recording are cut off while they are quieter than this share of its loudest sample."""

BELOW_TWENTY = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis "
    "diecisiete dieciocho diecinueve",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept "
    "dix-huit dix-neuf",
    "it": "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici "
    "diciassette diciotto diciannove",
    "ru": "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать "
    "четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать",
}
TENS = {
    "en": "twenty thirty forty fifty sixty seventy eighty ninety",
    "es": "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "fr": "vingt trente quarante cinquante soixante soixante-dix quatre-vingt quatre-vingt-dix",
    "it": "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
    "ru": "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
}
TWENTIES = "veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
ONES, EIGHTS = (
    "ventuno trentuno quarantuno cinquantuno sessantuno settantuno ottantuno novantuno",
    "ventotto trentotto quarantotto cinquantotto sessantotto settantotto ottantotto novantotto",
)
LANGUAGES = tuple(TENS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the strings and their tables")
    parser.add_argument("--sounds", type=Path, default=SOUNDS, help=f"folder with es_MX_f_Allison, … ({SOUNDS})")
    parser.add_argument("--seed", type=int, default=0, help="determines the strings and the pauses (0)")
    parser.add_argument("--train", type=int, default=SIZES["train"], help="number of strings for training (3000)")
    arguments = parser.parse_args(argv)
    recordings = {language: read(arguments.sounds, language) for language in LANGUAGES}
    for part, count in {**SIZES, "train": arguments.train}.items():
        generator = random.Random(f"{arguments.seed} {part}")
        if part == "test":
            for language, sounds in recordings.items():
                drawn = itertools.islice(strings({language: sounds}, part, generator), count)
                write(drawn, arguments.out, f"{part}-{language}")
        else:
            write(itertools.islice(strings(recordings, part, generator), count), arguments.out, part)
    return 0


def parts_of(number: int, language: str) -> list[tuple[str, str]]:
    """The recordings of a number below a hundred, each with the word that it says.

    >>> [word for _, word in parts_of(97, "fr")], [word for _, word in parts_of(42, "es")]
    (['quatre-vingt', 'dix-sept'], ['cuarenta', 'y', 'dos'])
    >>> parts_of(38, "it"), parts_of(32, "it")
    ([('38', 'trentotto')], [('30', 'trenta'), ('2', 'due')])
    """
    below, tens = BELOW_TWENTY[language].split(), TENS[language].split()
    ten, unit = divmod(number, 10)
    whole = dict(enumerate(below)) | {10 * n: word for n, word in enumerate(tens, 2)}
    if language == "es":
        whole |= dict(enumerate(TWENTIES.split(), 21))
    if language == "it":
        whole |= {10 * n + 1: word for n, word in enumerate(ONES.split(), 2)}
        whole |= {10 * n + 8: word for n, word in enumerate(EIGHTS.split(), 2)}
    if number in whole:
        return [(str(number), whole[number])]
    if language == "fr" and ten in (7, 9):
        ten, unit = ten - 1, unit + 10
    linked = {"es": [("and", "y")], "fr": [("et", "et")] if unit in (1, 11) and ten < 8 else []}
    return [(str(10 * ten), tens[ten - 2]), *linked.get(language, []), (str(unit), below[unit])]


def part_of(number: int, language: str) -> str:
    """The part of a number. Numbers of one word are for training, because every word has to occur there."""
    if len(parts_of(number, language)) == 1:
        return "train"
    tenth = int(hashlib.sha256(f"{language} {number}".encode()).hexdigest(), 16) % 10
    return "test" if tenth < 2 else "valid" if tenth == 2 else "train"


def read(folder: Path, language: str) -> Mapping[str, tuple[np.ndarray, int]]:
    """The samples and the rate of each recording of number words of a language, by name."""
    # Installed sounds have links such as `es` and `es_MX`, which lead to the same recordings.
    speakers = [one for one in sorted(folder.glob(f"{language}_*/digits")) if not one.parent.is_symlink()]
    if not speakers:
        package = f"asterisk-core-sounds-{language}-wav"
        raise SystemExit(
            f"There is no {folder / f'{language}_…' / 'digits'}. Install its package: apt install {package}"
        )
    names = {name for number in range(100) for name, _ in parts_of(number, language)}
    return {name: trimmed(*soundfile.read(speakers[0] / f"{name}.wav", dtype="float32")) for name in names}


def trimmed(samples: np.ndarray, rate: int) -> tuple[np.ndarray, int]:
    """A recording without the quiet blocks at both ends.

    >>> sound = np.repeat([0.0, 0.01, 1.0, 0.5, 0.0], 80)
    >>> trimmed(sound, 8000)[0].tolist() == [1.0] * 80 + [0.5] * 80
    True
    """
    block = int(BLOCK * rate)
    blocks = np.abs(samples[: len(samples) // block * block].reshape(-1, block)).max(1)
    loud = np.flatnonzero(blocks > QUIET * blocks.max())
    return samples[loud[0] * block : (loud[-1] + 1) * block], rate


def strings(
    recordings: Mapping[str, Mapping[str, tuple[np.ndarray, int]]], part: str, generator: random.Random
) -> Iterator[Spoken]:
    """Random strings of numbers of a part, in a random one of the languages."""
    while True:
        language = generator.choice(sorted(recordings))
        numbers = [number for number in range(100) if part_of(number, language) == part]
        drawn = generator.choices(numbers, k=generator.randint(1, LONGEST))
        spoken = [one for number in drawn for one in parts_of(number, language)]
        sounds = [recordings[language][name] for name, _ in spoken]
        yield joined([samples for samples, _ in sounds], sounds[0][1], [word for _, word in spoken], generator)


if __name__ == "__main__":
    raise SystemExit(main())
