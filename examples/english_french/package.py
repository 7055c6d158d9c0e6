"""Extracts English and French text from Debian packages, as tab-separated files for `prepare.py`.

    apt-get download $(python examples/english_french/package.py --names)
    python examples/english_french/package.py --packages packages/ --out text/

The rows have a document, an English and a French text. Three kinds of files are read, wherever a package has them:

* compiled catalogues of messages (`fr/LC_MESSAGES/NAME.mo`), whose keys are English: domain `program`, or `game`;
* pages in HTML, DocBook and Mallard, of which the same file exists in English and in French: domain `manual`;
* manual pages in roff, in `man/man7` and `man/fr/man7`: domain `manpage`.

Translations made with gettext, itstool or po4a have the structure of their originals, so that blocks are paired by a
comparison of structure; blocks of many sentences are divided if both sides have equally many.

`packages.json` in the folder of the text records every package with text: its version, its number of rows, and the
licences that its `usr/share/doc/NAME/copyright` names (none, where that file is not in Debian's machine-readable form).
Most are GPL or GFDL, so that the text is not part of this project. `packages.json` beside this program is the record of
the shipped translator's text, and `--names` prints its packages.
"""

import argparse
import gettext
import io
import json
import lzma
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from document import Block, markup_blocks, paired, roff_blocks, sentence_pairs, unpacked

GAMES = ("wesnoth", "freedroidrpg", "widelands", "supertux", "freeciv", "unknown-horizons", "pioneers", "gnubg")
"""Packages of games begin with one of these."""
LARGEST = 4_000_000
"""Bytes of a file that is read; larger ones are not pages."""
CATALOGUE = re.compile(r"(?:.*/)?(?:fr|fr_FR)/(?:LC_MESSAGES/)?([^/]+)\.mo$|.*[/-](fr|fr_FR)\.mo$")
MANUAL_PAGE = re.compile(r"usr/share/man/(fr/)?(man\d/[^/]+)\.gz$")
PAGE = re.compile(r"\.(html|xhtml|page|docbook|xml)(\.gz)?$")
COPYRIGHT = re.compile(r"usr/share/doc/[^/]+/copyright$")
LICENCE = re.compile(r"^License: *([A-Za-z][\w.+-]*(?: (?:or|and|with) [\w.+-]+)*)", re.MULTILINE)
RECORD = Path(__file__).with_name("packages.json")
LANGUAGE = re.compile(r"(?<=[/.])(fr|fr-FR|fr_FR|C|en|en-US|en_US)(?=[/.])")


@dataclass
class Shelf:
    """The files of all packages: French and English pages by the path that they share, and rows of catalogues."""

    pages: dict[str, dict[str, tuple[str, bytes]]] = field(default_factory=dict)
    rows: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    licences: dict[str, set[str]] = field(default_factory=dict)

    def add(self, domain: str, package: str, rows: Sequence[tuple[str, str, str]]) -> None:
        self.rows.setdefault(domain, []).extend(rows)
        self.counts[package] += len(rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=Path("packages"), help="folder of .deb files (packages)")
    parser.add_argument("--out", type=Path, default=Path("text"), help="folder for DOMAIN.tsv.xz (text)")
    parser.add_argument("--names", action="store_true", help="only print the names of the packages")
    arguments = parser.parse_args(argv)
    if arguments.names:
        print(*json.loads(RECORD.read_text("utf-8")))
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    shelf = Shelf()
    for path in sorted(arguments.packages.glob("*.deb")):
        read_package(path, shelf)
    read_pages(shelf)
    for domain, rows in sorted(shelf.rows.items()):
        text = "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)
        with lzma.open(arguments.out / f"{domain}.tsv.xz", "wt", encoding="utf-8") as file:
            file.write(text)
        print(f"{domain}: {len(rows):,} rows")
    versions = dict(path.name.split("_")[:2] for path in sorted(arguments.packages.glob("*.deb")))
    record = {
        name: {
            "version": versions[name].replace("%3a", ":"),
            "rows": shelf.counts[name],
            "licences": sorted(shelf.licences.get(name, ())),
        }
        for name in sorted(shelf.counts)
    }
    lines = [f" {json.dumps(name)}: {json.dumps(facts)}" for name, facts in record.items()]
    (arguments.out / "packages.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    return 0


def read_package(path: Path, shelf: Shelf) -> None:
    """Put the French catalogues, the English and French pages and the licences of a package on the shelf."""
    package = path.name.split("_")[0]
    for name, content in members(path):
        if match := CATALOGUE.match(name):
            domain = "game" if package.startswith(GAMES) else "program"
            document = f"{package}/{match[1] or Path(name).parent.name}"
            shelf.add(domain, package, [(document, *row) for row in catalogue(content)])
        elif COPYRIGHT.match(name):
            shelf.licences.setdefault(package, set()).update(LICENCE.findall(unpacked(content)))
        elif match := MANUAL_PAGE.match(name):
            shelf.pages.setdefault(f"man/{match[2]}", {})["fr" if match[1] else "en"] = (package, content)
        elif PAGE.search(name):
            marks = LANGUAGE.findall(name)
            language = "fr" if any(mark.startswith("fr") for mark in marks) else "en"
            shelf.pages.setdefault(LANGUAGE.sub("*", name), {})[language] = (package, content)


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """The names and contents of a package's text files. Raises ValueError if it is not a Debian package."""
    content = path.read_bytes()
    if not content.startswith(b"!<arch>\n"):
        raise ValueError(f"{path} is not a Debian package. Download it again with `apt-get download`.")
    place = 8
    while place < len(content):
        name, size = content[place : place + 16].decode().strip(), int(content[place + 48 : place + 58])
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(content[place + 60 : place + 60 + size])) as files:
                for each in files:
                    file_name = each.name.removeprefix("./")
                    wanted = each.isfile() and each.size <= LARGEST
                    if wanted and any(
                        pattern.search(file_name) for pattern in (CATALOGUE, MANUAL_PAGE, PAGE, COPYRIGHT)
                    ):
                        file = files.extractfile(each)
                        if file is not None:
                            yield file_name, file.read()
        place += 60 + size + size % 2


def catalogue(content: bytes) -> Iterator[tuple[str, str]]:
    """The messages of a compiled catalogue with their translations; of plurals, singular and plural."""
    try:
        messages = gettext.GNUTranslations(io.BytesIO(content))._catalog  # type: ignore[attr-defined]
    except (OSError, UnicodeDecodeError, ValueError):
        return
    for key, french in messages.items():
        english = key[0] if isinstance(key, tuple) else key
        if isinstance(key, tuple) and key[1] != 0:
            continue
        english = english.rpartition("\x04")[2]
        if english and french:
            yield from sentence_pairs(english, french)


def read_pages(shelf: Shelf) -> None:
    """Add the pairs of all pages that exist in both languages."""
    for name, sides in sorted(shelf.pages.items()):
        if len(sides) < 2:
            continue
        blocks: list[list[Block]] = []
        for language in ("en", "fr"):
            content = unpacked(sides[language][1])
            blocks.append(roff_blocks(content) if name.startswith("man/") else markup_blocks(content))
        package = sides["fr"][0]
        document = name if name.startswith("man/") else f"{package}/{name.rpartition('/')[2]}"
        rows = [(document, *pair) for one, other in paired(*blocks) for pair in sentence_pairs(one, other)]
        shelf.counts[sides["en"][0]] += 0
        shelf.add("manpage" if name.startswith("man/") else "manual", package, rows)


if __name__ == "__main__":
    raise SystemExit(main())
