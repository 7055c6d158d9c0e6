"""Prepares ten thousand snippets of film reviews, rated by twenty readers each, for classification by sentiment.

    pip download --no-deps --no-binary vaderSentiment vaderSentiment && tar xzf vaderSentiment-*.tar.gz
    tar xzf vaderSentiment-*/additional_resources/hutto_ICWSM_2014.tar.gz
    python examples/classifying/sentiment.py hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt sentiment/
    foveate train classify examples/classifying/sentiment.toml --out demo/sentiment
    foveate evaluate demo/sentiment --data sentiment/test.tsv --per-class
    foveate classify demo/sentiment "A dull , endless film with one good joke" --look

The label is the sign of the readers' mean rating. The file does not contain film and review, so the split is by a hash
of the text: a fifth is for testing, a tenth for validation, and duplicates are in the same part. Without the file,
`--sample` writes a few hundred generated sentences for trying the commands.

Hutto & Gilbert 2014, "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text". The snippets
belong to their authors and are not bundled.
"""

import argparse
import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from foveate.data.labelled import LabelledText
from foveate.data.text import read_lines

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
PARTS = {0: "test", 1: "test", 2: "valid"}
"""The tenths for testing and validation."""
PRAISE = ("a warm", "a funny", "a gripping", "a tender", "a bright")
BLAME = ("a dull", "a clumsy", "an endless", "a hollow", "a noisy")
KINDS = ("film", "comedy", "thriller", "drama", "sequel", "biopic")
ENDS = ("with a fine cast", "about two brothers", "from a first director", "set in a small town", "of two hours")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ratings", type=Path, nargs="?", help="movieReviewSnippets_GroundTruth.txt")
    parser.add_argument("out", type=Path, help="folder for train.tsv, valid.tsv and test.tsv")
    parser.add_argument("--sample", action="store_true", help="use generated sentences instead of the file")
    arguments = parser.parse_args(argv)
    if (arguments.ratings is None) != arguments.sample:
        parser.error("give the file of ratings, or --sample")
    examples = generated() if arguments.sample else snippets(arguments.ratings)
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for example in examples:
        parts[part(example.text)].append(f"{example.text}\t{example.label}\n")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, lines in parts.items():
        (arguments.out / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
        praising = sum(line.endswith("\tpraise\n") for line in lines)
        print(f"{name}: {len(lines):,} texts, {praising:,} of them praise")
    return 0


def snippets(path: Path) -> Iterator[LabelledText]:
    """Lower-case words and signs with spaces between them, with labels; ratings of exactly 0 are left out."""
    for number, line in enumerate(read_lines(path), start=1):
        _, rating, text = line.split("\t", 2)
        if float(rating):
            yield LabelledText(number, words(text), "praise" if float(rating) > 0 else "blame")


def words(text: str) -> str:
    """
    >>> words("It's a ''fun'' ride, isn't it?")
    "it's a ' ' fun ' ' ride , isn't it ?"
    """
    return " ".join(WORD.findall(text.lower()))


def part(text: str) -> str:
    """The part of a text, by its hash."""
    return PARTS.get(int(hashlib.sha256(text.encode()).hexdigest(), 16) % 10, "train")


def generated(count: int = 400) -> Iterator[LabelledText]:
    """Sentences whose adjective determines the label."""
    generator = random.Random(0)
    for number in range(1, count + 1):
        label, adjectives = generator.choice((("praise", PRAISE), ("blame", BLAME)))
        rest = generator.choice(KINDS), generator.choice(ENDS), str(generator.randint(1, 999))
        yield LabelledText(number, " ".join((generator.choice(adjectives), *rest)), label)


if __name__ == "__main__":
    raise SystemExit(main())
