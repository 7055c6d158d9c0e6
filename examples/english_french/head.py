"""Finds the cross-attention of a translator that aligns words best.

    python examples/english_french/head.py RUN data/test.verses.tsv

The dictionary of `everyday.py` contains the translations of some words: if `king` and `roi` occur once in a pair, the
row of `roi` should have its largest weight at `king`. The program prints the share of rows for which this is true, for
every layer, every head and the mean of heads, while a word is produced and while it is consumed, the best first.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from everyday import WORDS, bare_forms

from foveate import Translator
from foveate.data.text import Pair, read_pairs
from foveate.metrics import Links
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.word_alignment import every_head, score_heads


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the run folder, or the name of a model that comes with foveate")
    parser.add_argument("pairs", type=Path, help="held-out pairs, tab-separated")
    parser.add_argument("--most", type=int, default=500, metavar="N", help="number of pairs (500)")
    arguments = parser.parse_args(argv)
    translator = Translator.load(arguments.run)
    known = [pair for pair in read_pairs(arguments.pairs) if anchors(pair.source.split(), pair.target.split())]
    for share, head in ranking(translator, known[: arguments.most]):
        print(f"{share:5.1f} %  {head}")
    return 0


def ranking(translator: Translator, pairs: Sequence[Pair]) -> list[tuple[float, Head]]:
    """Every head with its percentage of correct anchors, the best first."""
    gold = [Links.of(anchors(pair.source.split(), pair.target.split())) for pair in pairs]
    heads = every_head(translator)
    scores = score_heads(translator, pairs, gold, heads)
    found = [(recall.value, head) for head, (_, _, recall) in zip(heads, scores, strict=True)]
    return sorted(found, key=lambda each: -each[0])


def anchors(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """The positions of words and their translations, for words that occur once on each side."""
    english, french = bare_forms(source), bare_forms(target)
    links = []
    for word, forms in DICTIONARY.items():
        here = [place for place, each in enumerate(english) if each == word]
        there = [place for place, each in enumerate(french) if each in forms]
        if len(here) == len(there) == 1:
            links.append((here[0], there[0]))
    return links


def dictionary() -> dict[str, set[str]]:
    """English words with their unambiguous French forms."""
    found: dict[str, set[str]] = {}
    for table in ("nouns", "people", "places", "numbers", "days"):
        for english, french in WORDS[table]:
            found.setdefault(english, set()).add(french.split()[0])
    for table in ("after", "moods"):
        for english, french in WORDS[table]:
            found.setdefault(english, set()).update(form + end for form in french.split() for end in ("", "s"))
    return {english: forms for english, forms in found.items() if " " not in english}


DICTIONARY = dictionary()

if __name__ == "__main__":
    raise SystemExit(main())
