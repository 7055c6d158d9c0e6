"""Translates speech: English digits, read in pairs, become German numbers, which name their units before their tens.

    python examples/speech/digits.py free-spoken-digit-dataset/recordings digits/
    python examples/speech/translation.py digits/ --out demo/german
    python examples/speech/translation.py digits/ --out demo/german --variant both --variant ctc --seeds 0,1,2

"four two seven" is "zwei und vierzig sieben": the first German word translates the second English one. The recordings
are those of digits.py, and the words of German numbers are written apart. The script writes their tables beside those
of the digits (train.german.tsv, …); `--tables` stops there. Each variant changes some settings of translation.toml. All
learn for about the same time on one thread. The table has, for the official test recordings:

* **errors per word** (WER), the share of strings without an error, and BLEU, in percent;
* **pointing**: of the units and tens of numbers such as "zwei und vierzig", in strings without an error, the share that
  was heard while its digit was spoken, in percent. A word is heard at the output with its largest weight of attention
  or, for CTC, with the largest probability of its label;
* **back**: of these numbers, the share whose tens were heard before their units, as they were spoken, though they are
  written after them. A search along the outputs, such as CTC's, cannot go back.

The rivals: `frequent` always writes the most frequent text, and `words` recognises English words by CTC, which a rule
then reads as German numbers. A variant whose name ends in "lent" begins with the encoder of `words`, which has to be
trained before it, with the same seed and for the same time.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from foveate.attention import record
from foveate.data.audio_file import Clip
from foveate.data.batch import Batch
from foveate.data.label_track import read_track
from foveate.data.text import read_lines
from foveate.data.tokeniser import BOS, EOS
from foveate.decode import viterbi
from foveate.metrics.corpus import evaluate
from foveate.metrics.transcription import Edits
from foveate.tasks.transcribe.use import Transcriber

sys.path.append(str(Path(__file__).parents[1]))
from figures import keep, show
from measure import Loan, Recipe, measuring

CONFIGURATION = Path(__file__).parent / "translation.toml"
RESULTS = Path(__file__).parent / "results.json"
ENGLISH = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DIGITS = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
TEENS = ("zehn", "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn")
TENS = ("zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
PARTS = ("train", "valid", "test")
WORDS, FREQUENT = "words", "frequent"
CTC = ("model.decoder=none",)
VARIANTS: dict[str, Sequence[str]] = {
    FREQUENT: (),
    WORDS: CTC,
    "ctc": CTC,
    "attention": ("model.ctc_weight=0",),
    "both": (),
    "ctc, lent": CTC,
    "attention, lent": ("model.ctc_weight=0",),
}
"""The settings in which each variant differs from translation.toml."""
LENT = ", lent"
"""The ending of a variant whose encoder begins with the weights of `words`."""
EARS = ("subsampling.", "encoder.")
"""The parts of the recogniser that are lent."""
NEAR = 0.02
"""Seconds before and after a word that still belong to it: two frames."""


@dataclass(frozen=True)
class Word:
    """A German word, and the places of the digits that it translates; none for "und"."""

    text: str
    places: tuple[int, ...]


def main(argv: Sequence[str] | None = None) -> int:
    parser = measuring(__doc__, out=Path("demo/german"), results=RESULTS, seconds=120, variants=VARIANTS)
    parser.add_argument("digits", type=Path, help="the folder that digits.py has written")
    parser.add_argument("--tables", action="store_true", help="write the tables with German texts, and stop")
    arguments = parser.parse_args(argv)
    for part in PARTS:
        write(arguments.digits, part)
    if arguments.tables:
        return 0
    table = f"German numbers, {arguments.seconds:g} s"
    for variant in arguments.variant or VARIANTS:
        for seed in arguments.seeds:
            figures = measured(variant, seed, arguments.digits, arguments.out, arguments.seconds)
            keep(table, variant, seed, figures, path=arguments.results)
            show(table, path=arguments.results)
    return 0


def measured(variant: str, seed: int, digits: Path, out: Path, seconds: float) -> dict[str, float]:
    """Train a variant, and the figures of its translations."""
    names, english = zip(*rows(digits / "test.tsv"), strict=True)
    if variant == FREQUENT:
        texts = Counter(german for _, german in rows(digits / "train.german.tsv"))
        return errors(english, [texts.most_common(1)[0][0]] * len(english))
    kind = "" if variant == WORDS else ".german"
    data = {name: digits / f"{part}{kind}.tsv" for name, part in (("data", "train"), ("valid_data", "valid"))}
    recipe = Recipe(task="transcribe", configuration=CONFIGURATION, data=data)
    run, store = out / f"{variant.replace(', ', '-')}-{seed}-{seconds:g}", out / ("store" + kind)
    ears = Loan(out / f"{WORDS}-{seed}-{seconds:g}", EARS) if variant.endswith(LENT) else None
    spent = recipe.train(VARIANTS[variant], seed, run, store=store, seconds=seconds, loan=ears)
    transcriber = Transcriber.load(run)
    answers = [one.text for one in transcriber.transcribe([Clip(digits / name) for name in names])]
    if variant == WORDS:
        return {**errors(english, [german(answer) for answer in answers]), **spent}
    right = [name for name, text, answer in zip(names, english, answers, strict=True) if answer == german(text)]
    return {**errors(english, answers), **pointing(transcriber, digits, right), **spent}


def rows(table: Path) -> Iterator[list[str]]:
    return (line.split("\t") for line in read_lines(table))


def write(digits: Path, part: str) -> None:
    """Write the table of a part with German texts."""
    lines = [f"{name}\t{german(text)}\n" for name, text in rows(digits / f"{part}.tsv")]
    (digits / f"{part}.german.tsv").write_text("".join(lines), encoding="utf-8")


def german(english: str) -> str:
    """Digits in pairs, as numbers. A last one without a partner stays alone, and zero is no tens.

    >>> german("four two seven"), german("one two zero five"), german("three zero two one")
    ('zwei und vierzig sieben', 'zwölf null fünf', 'dreißig ein und zwanzig')
    """
    return " ".join(word.text for word in words(english))


def words(english: str) -> Iterator[Word]:
    """The German words of a string of digits."""
    values = [ENGLISH.index(word) for word in english.split()]
    for first in range(0, len(values), 2):
        both = (first, first + 1)
        match values[first : first + 2]:
            case [1, unit]:
                yield Word(TEENS[unit], both)
            case [0, unit]:
                yield from (Word(DIGITS[0], both[:1]), Word(DIGITS[unit], both[1:]))
            case [ten, 0]:
                yield Word(TENS[ten - 2], both)
            case [ten, unit]:
                yield Word("ein" if unit == 1 else DIGITS[unit], both[1:])
                yield from (Word("und", ()), Word(TENS[ten - 2], both[:1]))
            case [digit]:
                yield Word(DIGITS[digit], both[:1])


def errors(english: Sequence[str], answers: Sequence[str]) -> dict[str, float]:
    """The errors of translations, in percent."""
    gold = [german(text) for text in english]
    right = sum(answer == text for answer, text in zip(answers, gold, strict=True))
    return {
        "WER": 100 * Edits.of_words(gold, answers).rate,
        "strings right": 100 * right / len(gold),
        "BLEU": evaluate(answers, gold, ["bleu"])[0].value,
    }


def pointing(transcriber: Transcriber, digits: Path, names: Sequence[str]) -> dict[str, float]:
    """Pointing and going back, in percent, in recordings whose translations are right."""
    inside, back = [], []
    for name in names:
        spoken = read_track(digits / Path(name).with_suffix(".txt")).segments
        text = list(words(" ".join(part.label for part in spoken)))
        seconds = heard(transcriber, digits / name, [word.text for word in text])
        for place, word in enumerate(text):
            if word.text == "und":
                unit, ten = place - 1, place + 1
                back.append(seconds[ten] < seconds[unit])
                for at in (unit, ten):
                    (digit,) = (spoken[number] for number in text[at].places)
                    inside.append(digit.start - NEAR <= seconds[at] <= digit.end + NEAR)
    if not back:
        return {}
    return {"pointing": 100 * sum(inside) / len(inside), "back": 100 * sum(back) / len(back)}


@torch.inference_mode()
def heard(transcriber: Transcriber, path: Path, text: Sequence[str]) -> list[float]:
    """The second at which each word of a translation was heard: by attention or, in a model without it, by CTC."""
    model, source = transcriber.model, Batch.of([transcriber.row(Clip(path))])
    first = float(getattr(transcriber.rows, "first", 0.0))
    tokens = transcriber.tokeniser.encode(" ".join(text))
    if model.decoder is None:
        (one,) = viterbi(*model.ctc(source), torch.tensor(tokens), torch.tensor([len(tokens)]))
        places = [frames.peak for frames in one.frames]
    else:
        encoded = model.encode(source)
        with record(model.decoder) as recording:
            model(encoded, Batch.of([[BOS, *tokens, EOS]]))
        (attention,) = recording.of_kind("cross")
        places = attention.weights()[0].mean(0).argmax(-1).tolist()[: len(tokens)]
    return [first + place * transcriber.hop for place in places]


if __name__ == "__main__":
    raise SystemExit(main())
