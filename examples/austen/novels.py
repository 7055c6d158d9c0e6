"""Extracts Jane Austen's six novels as texts, one for testing and one for validation.

    apt-get download r-cran-janeaustenr && dpkg -x r-cran-janeaustenr_*.deb package
    python examples/austen/novels.py package/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb austen/
    foveate train language_model examples/shakespeare/run.toml --text austen/train.txt \
        --valid-text austen/valid.txt --out demo/austen
    foveate evaluate demo/austen --text austen/test.txt --context 64

The package stores them for R, as vectors of lines, which this program reads without R. *Persuasion* is the test text,
*Northanger Abbey* the validation text. The novels are from Project Gutenberg, in the public domain.
"""

import argparse
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

PARTS = {"PERSUASION": "test", "NORTHANGER ABBEY": "valid"}
"""The part of a novel, by its first line."""
INTEGER, HEADER = 4, b"X\n"
STRING, STRINGS = 9, 16
"""The numbers of R's types: a string, and a vector of strings."""
VERSION_WITH_ENCODING = 3


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the package's Rdata.rdb")
    parser.add_argument("out", type=Path, help="folder for train.txt, valid.txt and test.txt")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    texts = {"train": "", "valid": "", "test": ""}
    for novel in vectors(arguments.data.read_bytes()):
        if novel:
            texts[PARTS.get(novel[0].upper(), "train")] += "".join(f"{line.rstrip()}\n" for line in novel)
    for part, text in texts.items():
        (arguments.out / f"{part}.txt").write_text(text, encoding="utf-8")
        print(f"{part}: {len(text):,} characters")
    return 0


def vectors(data: bytes) -> Iterator[list[str]]:
    """The vectors of strings in a database of R, which contains the size and the zlib data of each value."""
    while data:
        packed = zlib.decompressobj()
        value = packed.decompress(data[INTEGER:])
        data = packed.unused_data
        if len(value) > INTEGER and value.startswith(HEADER):
            yield list(strings(value[len(HEADER) :]))


def strings(value: bytes) -> Iterator[str]:
    """The strings of one value, with big-endian numbers of four bytes; none for a value of another type."""

    def number(at: int) -> int:
        return int.from_bytes(value[at : at + INTEGER], "big", signed=True)

    at = 3 * INTEGER  # the version of the format, and two versions of R
    if number(0) == VERSION_WITH_ENCODING:
        at += INTEGER + number(at)
    if number(at) & 0xFF != STRINGS:
        return
    count, at = number(at + INTEGER), at + 2 * INTEGER
    for _ in range(count):
        if number(at) & 0xFF != STRING:
            return
        length = max(number(at + INTEGER), 0)
        begin = at + 2 * INTEGER
        yield value[begin : begin + length].decode("utf-8", "replace")
        at = begin + length


if __name__ == "__main__":
    raise SystemExit(main())
