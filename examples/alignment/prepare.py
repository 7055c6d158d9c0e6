"""Prepares Greek and English verses with links by people between their words, split by book.

    pip download --no-deps bible-alignments==0.4.2 && unzip bible_alignments-*.whl 'data/*'
    python examples/alignment/prepare.py data/ gold/ --lower
    foveate train translate --source gold/train.tsv --columns 0,1 --set data.links_column=2 --out run/
    foveate evaluate run/ --source gold/test.tsv --gold gold/test.links

It writes train, valid and test as `.tsv` (Greek, English, links, verse) and as `.links` (only the third column). A link
`3-4` means that word 3 of the Greek and word 4 of the English, counted from 0, translate each other; words are
separated by spaces. English punctuation is removed, because it has no links; the Greek text has none. Links between
different verses are dropped and counted. John and Romans are the test data, Ephesians and James the validation data.

Text and links are under CC-BY-4.0 (see examples/data/README.md for the attribution). `--slice FILE` writes the four
bundled letters.
"""

import argparse
import csv
import json
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PARTS = {"43": "test", "45": "test", "49": "valid", "59": "valid"}
"""The books for testing and validation, by number."""
SLICE = ("48", "49", "50", "51")
"""Galatians, Ephesians, Philippians, Colossians."""
GREEK = Path("sources/SBLGNT.tsv")
ENGLISH = Path("eng/targets/BSB/nt_BSB.tsv")
LINKS = Path("eng/alignments/BSB/SBLGNT-BSB-manual.json")


class Verse(NamedTuple):
    """Two texts of the same verse, with the links between their words."""

    key: str
    greek: tuple[str, ...]
    english: tuple[str, ...]
    links: frozenset[tuple[int, int]]

    def line(self) -> str:
        return f"{' '.join(self.greek)}\t{' '.join(self.english)}\t{self.pharaoh()}\t{self.key}\n"

    def pharaoh(self) -> str:
        return " ".join(f"{source}-{target}" for source, target in sorted(self.links))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the package's folder data/")
    parser.add_argument("out", type=Path, help="folder for train, valid and test")
    parser.add_argument("--lower", action="store_true", help="small letters only")
    parser.add_argument("--lemma", action="store_true", help="dictionary forms of Greek words")
    parser.add_argument("--slice", type=Path, metavar="FILE", help="write the bundled letters to this .tsv.xz as well")
    arguments = parser.parse_args(argv)
    verses, dropped = read(arguments.data, lower=arguments.lower, lemma=arguments.lemma)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "valid", "test"):
        chosen = [verse for verse in verses if PARTS.get(verse.key[:2], "train") == part]
        write(chosen, arguments.out, part)
        print(f"{part}: {len(chosen):,} verses, {sum(len(verse.links) for verse in chosen):,} links")
    print(f"{dropped} links between words of different verses are left out")
    if arguments.slice:
        text = "".join(verse.line() for verse in verses if verse.key[:2] in SLICE)
        arguments.slice.write_bytes(lzma.compress(text.encode(), preset=9))
    return 0


def read(data: Path, *, lower: bool = False, lemma: bool = False) -> tuple[list[Verse], int]:
    """All verses with links in their order, and the number of dropped links."""
    spelling = "lemma" if lemma else "text"
    greek = _words(data / GREEK, spelling, verse=lambda row: row["id"][1:9], lower=lower)
    english = _words(data / ENGLISH, "text", verse=lambda row: row["source_verse"], lower=lower)
    places = [
        {word: (key, i) for key, words in side.items() for i, word in enumerate(words)} for side in (greek, english)
    ]
    links: dict[str, set[tuple[int, int]]] = {}
    dropped = 0
    for record in json.loads((data / LINKS).read_text(encoding="utf-8"))["records"]:
        for source in record["source"]:
            for target in record["target"]:
                (left, i), (right, j) = places[0][source], places[1][target]
                if left == right:
                    links.setdefault(left, set()).add((i, j))
                dropped += left != right
    texts = ({key: tuple(words.values()) for key, words in side.items()} for side in (greek, english))
    left_text, right_text = texts
    return [Verse(key, left_text[key], right_text[key], frozenset(links[key])) for key in sorted(links)], dropped


def write(verses: Sequence[Verse], folder: Path, name: str) -> None:
    """Write NAME.tsv and NAME.links."""
    (folder / f"{name}.tsv").write_text("".join(verse.line() for verse in verses), encoding="utf-8")
    (folder / f"{name}.links").write_text("".join(f"{verse.pharaoh()}\n" for verse in verses), encoding="utf-8")


def _words(
    path: Path, spelling: str, *, verse: Callable[[Mapping[str, str]], str], lower: bool
) -> dict[str, dict[str, str]]:
    """The words of each verse by their identities."""
    verses: dict[str, dict[str, str]] = {}
    for row in _rows(path):
        if not row.get("exclude") and row["text"].strip():
            word = "".join((row[spelling] or row["text"]).split())  # a word with a space would become two words
            verses.setdefault(verse(row), {})[row["id"]] = word.lower() if lower else word
    return verses


def _rows(path: Path) -> Iterator[Mapping[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


if __name__ == "__main__":
    raise SystemExit(main())
