"""Lets a speech synthesiser read sentences in many voices, and writes the sounds with the times of their phones.

    apt install espeak-ng                                        # or another way to get libespeak-ng
    python examples/speech/phones.py phones/
    foveate train tag --data phones/train.tsv --valid-data phones/valid.tsv --out frames/
    foveate evaluate frames/ --data phones/test.tsv

**All voices are synthetic**: variants of one formant synthesiser, eSpeak NG, which reports when each phone begins.
Times are exact, and figures from them say nothing about people's voices.

The sentences are English verses of `examples/data/verses.tsv.xz`, split by book as in `examples/verses`, and every
voice is in one part only: sentences and voices of the test part are both unseen. Which voice reads which sentence, and
how fast, is a function of `--seed`. `--text FILE` reads other sentences, one per line, split by their order.

For each part, the script writes a folder with one WAV file per sentence, beside each its phones with their times in
seconds (`start<TAB>end<TAB>phone`, a label track as Audacity reads and writes them), and two tables: train.tsv
(`path<TAB>track`) for labelling every frame, and train.text.tsv (`path<TAB>sentence`) for `foveate train transcribe`.
Phones have eSpeak's names, as `espeak-ng -x` prints them, without stress; `_` is silence.
"""

import argparse
import ctypes
import ctypes.util
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from foveate.data.text import read_lines

VERSES = Path(__file__).parent.parent / "data" / "verses.tsv.xz"
ENGLISH = 2
"""The column of the World English Bible."""
VALID_BOOKS = {3, 44}  # Leviticus, Acts
TEST_BOOKS = {8, 27, 43, 45}  # Ruth, Daniel, John, Romans: as in examples/verses
SIZES = {"train": 1000, "valid": 60, "test": 150}
"""The numbers of sentences."""
VOICES = {
    "test": ("m3", "f2", "Andy", "Annie", "john", "steph2", "klatt3", "grandma"),
    "valid": ("m5", "f4", "Alex", "belinda"),
    "train": (
        *("m1", "m2", "m4", "m6", "m7", "m8", "f1", "f3", "f5", "adam", "Alicia", "Andrea", "antonio", "aunty"),
        *("benjamin", "boris", "caleb", "croak", "david", "Denis", "Diogo", "ed", "edward", "Gene", "grandpa"),
        *("gustave", "Henrique", "Hugo", "iven", "Jacky", "klatt", "klatt2", "Lee", "linda", "marcelo", "Marco"),
        *("Mario", "max", "Michael", "michel", "miguel", "Mike", "norbert", "pablo", "paul", "pedro", "quincy"),
        *("rob", "robert", "sandro", "shelby", "steph", "steph3", "travis", "victor", "zac", "anika"),
    ),
}
"""Variants of the voice by the names of their files, each in one part."""
SPEED = (140, 200)
"""The slowest and the fastest speech, in words per minute."""
SILENCE = "_"


class Stretch(NamedTuple):
    """A phone from one second to another."""

    start: float
    end: float
    phone: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for sounds and tables")
    parser.add_argument("--text", type=Path, help="sentences, one per line, instead of the verses")
    parser.add_argument("--language", default="en-us", help="of --text, such as es, fr or ru (en-us)")
    parser.add_argument("--seed", type=int, default=0, help="determines the sentences, their voices and speeds (0)")
    parser.add_argument("--train", type=int, default=SIZES["train"], help="number of sentences for training (1000)")
    parser.add_argument("--library", help="path of libespeak-ng, if it is not found by its name")
    arguments = parser.parse_args(argv)
    if arguments.text is None and arguments.language != "en-us":
        parser.error("--language needs sentences in that language: give --text")
    sentences = verses() if arguments.text is None else own(arguments.text)
    reader = Synthesiser.load(arguments.library, arguments.language)
    for part, count in {**SIZES, "train": arguments.train}.items():
        generator = random.Random(f"{arguments.seed} {part}")
        chosen = generator.sample(sentences[part], min(count, len(sentences[part])))
        write(chosen, reader, generator, arguments.out, part)
    return 0


def verses() -> dict[str, list[str]]:
    """The English verses of each part, by book."""
    parts: dict[str, list[str]] = {part: [] for part in SIZES}
    for line in read_lines(VERSES):
        cells = line.split("\t")
        book = int(cells[0].split(".")[0])
        part = "valid" if book in VALID_BOOKS else "test" if book in TEST_BOOKS else "train"
        parts[part].append(cells[ENGLISH])
    return parts


def own(path: Path) -> dict[str, list[str]]:
    """The lines of a file: the last tenth for testing, the tenth before it for validation."""
    sentences = list(dict.fromkeys(line.strip() for line in read_lines(path) if line.strip()))
    tenth = max(1, len(sentences) // 10)
    if len(sentences) < 3:
        raise SystemExit(f"{path} has {len(sentences)} different lines, and at least 3 are needed, one for each part.")
    return {"train": sentences[: -2 * tenth], "valid": sentences[-2 * tenth : -tenth], "test": sentences[-tenth:]}


def write(sentences: Sequence[str], reader: "Synthesiser", generator: random.Random, folder: Path, part: str) -> None:
    """Write the sounds, their label tracks, and their table."""
    (folder / part).mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[str]] = {f"{part}.tsv": [], f"{part}.text.tsv": []}
    seconds, phones = 0.0, set()
    for number, sentence in enumerate(sentences):
        name = f"{part}/{number:05}.wav"
        samples, begun = reader.say(sentence, voice=generator.choice(VOICES[part]), speed=generator.randint(*SPEED))
        soundfile.write(folder / name, samples, reader.rate, subtype="PCM_16")
        track = list(stretches(begun, len(samples) / reader.rate))
        text = "".join(f"{one.start:.6f}\t{one.end:.6f}\t{one.phone}\n" for one in track)
        (folder / name).with_suffix(".txt").write_text(text, encoding="utf-8")
        rows[f"{part}.tsv"].append(f"{name}\t{Path(name).with_suffix('.txt')}\n")
        rows[f"{part}.text.tsv"].append(f"{name}\t{sentence}\n")
        seconds += len(samples) / reader.rate
        phones |= {one.phone for one in track}
    for table, lines in rows.items():
        (folder / table).write_text("".join(lines), encoding="utf-8")
    print(f"{part}: {len(sentences):,} sentences, {seconds / 60:.1f} minutes, {len(phones)} phones")


def stretches(begun: Sequence[tuple[float, str]], duration: float) -> Iterator[Stretch]:
    """Stretches without gaps from the seconds at which phones begin; equal neighbours become one.

    >>> begun = [(0.1, "h"), (0.2, "aI"), (0.5, "_:"), (0.6, "_")]
    >>> [f"{one.phone} {one.start}-{one.end}" for one in stretches(begun, 0.7)]
    ['_ 0.0-0.1', 'h 0.1-0.2', 'aI 0.2-0.5', '_ 0.5-0.7']
    """
    bounds = [(0.0, SILENCE), *((start, SILENCE if name.startswith(SILENCE) else name) for start, name in begun)]
    bounds = [bound for bound, after in zip(bounds, [*bounds[1:], (duration, "")], strict=True) if after[0] > bound[0]]
    kept = [bound for i, bound in enumerate(bounds) if i == 0 or bound[1] != bounds[i - 1][1]]
    for (start, phone), (end, _) in zip(kept, [*kept[1:], (duration, "")], strict=True):
        yield Stretch(start, end, phone)


class _Identity(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("phone", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    """`espeak_EVENT` of speak_lib.h."""

    _fields_ = (
        *(("type", ctypes.c_int), ("identifier", ctypes.c_uint), ("text_position", ctypes.c_int)),
        *(("length", ctypes.c_int), ("milliseconds", ctypes.c_int), ("sample", ctypes.c_int)),
        *(("user_data", ctypes.c_void_p), ("identity", _Identity)),
    )


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
_SYNCHRONOUS, _PHONE_EVENTS, _UTF8 = 2, 1, 1
_END, _PHONE = 0, 7
_RATE = 1
"""The number of the parameter for words per minute."""


class Synthesiser:
    """eSpeak NG by its library. It keeps one state for the whole process, so there is one synthesiser in a program."""

    def __init__(self, library: ctypes.CDLL, language: str) -> None:
        self.library, self.language = library, language
        self.rate = int(library.espeak_Initialize(_SYNCHRONOUS, 0, None, _PHONE_EVENTS))
        if self.rate <= 0:
            raise SystemExit("eSpeak NG finds no data. Install them: apt install espeak-ng-data")
        self._pieces: list[np.ndarray] = []
        self._begun: list[tuple[float, str]] = []
        self._callback = _CALLBACK(self._receive)  # the library keeps a pointer to it
        library.espeak_SetSynthCallback(self._callback)

    @classmethod
    def load(cls, path: str | None = None, language: str = "en-us") -> "Synthesiser":
        """Load the library by its path, or by its name."""
        name = path or ctypes.util.find_library("espeak-ng") or "libespeak-ng.so.1"
        try:
            return cls(ctypes.CDLL(name), language)
        except OSError as error:
            raise SystemExit(f"{error}. Install eSpeak NG (apt install espeak-ng), or give --library.") from None

    def say(self, text: str, *, voice: str, speed: int) -> tuple[np.ndarray, list[tuple[float, str]]]:
        """The samples of a text, −1 to 1, and the seconds at which its phones begin."""
        self._pieces, self._begun = [], []
        name = f"{self.language}+{voice}"
        if self.library.espeak_SetVoiceByName(name.encode()) != 0:
            raise SystemExit(f"eSpeak NG has no voice {name}. `espeak-ng --voices=variant` lists its variants.")
        self.library.espeak_SetParameter(_RATE, speed, 0)
        data = text.encode()
        self.library.espeak_Synth(data, len(data) + 1, 0, 1, 0, _UTF8, None, None)
        samples = np.concatenate([np.zeros(0, np.int16), *self._pieces])
        return samples.astype(np.float32) / 32768, self._begun

    def _receive(
        self, samples: "ctypes._Pointer[ctypes.c_short]", count: int, events: "ctypes._Pointer[_Event]"
    ) -> int:
        if samples and count > 0:
            self._pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        at = 0
        while events[at].type != _END:
            if events[at].type == _PHONE:
                self._begun.append((events[at].sample / self.rate, events[at].identity.phone.decode()))
            at += 1
        return 0


if __name__ == "__main__":
    raise SystemExit(main())
