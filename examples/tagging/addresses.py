"""Prepares 1,500 addresses of the United States with manually labelled parts, as spans.

    pip download --no-deps --no-binary usaddress usaddress && tar xzf usaddress-*.tar.gz
    python examples/tagging/addresses.py usaddress-*/training/labeled.xml addresses/
    foveate train tag examples/tagging/addresses.toml --out demo/addresses
    foveate evaluate demo/addresses --data addresses/test.txt --per-class
    foveate tag demo/addresses "1600 Pennsylvania Avenue NW, Washington, DC 20500"

The file labels words; neighbours with the same label are one part. `DR MARTIN LUTHER KING JR`, for example, is a single
street name, and a prediction is correct only for the whole name. The split is by a hash of the words: a fifth is for
testing, a tenth for validation, and duplicates are in the same part. Without the file, `--sample` uses the hundred
bundled addresses. With `--plain`, the training data also have every address in lower case and without punctuation, as
people type it.

Labelled by DataMade and the Atlanta Journal-Constitution, MIT licence.
"""

import argparse
import hashlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from foveate.data.labelled import Tagged, read_tagged

SAMPLE = Path(__file__).parent.parent / "data" / "addresses.txt"
PARTS = {0: "test", 1: "test", 2: "valid"}
"""The tenths for testing and validation."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled", type=Path, nargs="?", help="training/labeled.xml")
    parser.add_argument("out", type=Path, help="folder for train.txt, valid.txt and test.txt")
    parser.add_argument("--sample", action="store_true", help="use the bundled addresses instead of the file")
    parser.add_argument("--plain", action="store_true", help="train on each address as `plain` writes it, too")
    arguments = parser.parse_args(argv)
    if (arguments.labelled is None) != arguments.sample:
        parser.error("give the file of addresses, or --sample")
    addresses = read_tagged(SAMPLE) if arguments.sample else labelled(arguments.labelled)
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for address in addresses:
        name = part(address.words)
        parts[name] += [written(address), *([written(plain(address))] if arguments.plain and name == "train" else [])]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, lines in parts.items():
        (arguments.out / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
        words = sum(len(line.split()) for line in lines)
        print(f"{name}: {len(lines):,} addresses, {words:,} words, {sum(line.count('/B-') for line in lines):,} parts")
    return 0


def labelled(path: Path) -> Iterator[Tagged]:
    """The addresses of a file, with labels B-… and I-…."""
    for number, address in enumerate(ElementTree.parse(path).getroot(), start=1):
        words = tuple("".join(word.itertext()).strip() for word in address)
        yield Tagged(number, words, tuple(begun([word.tag for word in address])))


def begun(labels: Iterable[str]) -> Iterator[str]:
    """
    >>> list(begun(["StreetName", "StreetName", "ZipCode"]))
    ['B-StreetName', 'I-StreetName', 'B-ZipCode']
    """
    before = ""
    for label in labels:
        yield f"{'I' if label == before else 'B'}-{label}"
        before = label


def part(words: Sequence[str]) -> str:
    """The part of an address by a hash of its words, ignoring punctuation."""
    digest = hashlib.sha256(" ".join(words).lower().replace(",", "").encode()).hexdigest()
    return PARTS.get(int(digest, 16) % 10, "train")


def plain(address: Tagged) -> Tagged:
    """An address in lower case, without punctuation at the ends of words.

    >>> plain(Tagged(1, ("St.", "Paul,", "#"), ("B-PlaceName", "I-PlaceName", "B-OccupancyType"))).words
    ('st', 'paul', '#')
    """
    return address._replace(words=tuple(word.lower().strip(".,;()") or word for word in address.words))


def written(address: Tagged) -> str:
    """An address as a line of word/tag."""
    return " ".join(f"{word}/{tag}" for word, tag in zip(address.words, address.tags, strict=True)) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
