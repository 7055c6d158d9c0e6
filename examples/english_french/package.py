"""Extracts text in English and other languages from Debian packages, as tab-separated files for `prepare.py`.

    apt-get download $(python examples/english_french/package.py --names)
    python examples/english_french/package.py --packages packages/ --out text/
    python examples/english_french/package.py --packages packages/ --out text/ --languages de fa ru zh

The rows have a document, an English text and its translation, into French by default; of several languages, each has
its own folder (`text/de`). Three kinds of files are read, wherever a package has them:

* compiled catalogues of messages (`fr/LC_MESSAGES/NAME.mo`), whose keys are English: domain `program`, or `game`;
* pages in HTML, DocBook and Mallard, of which the same file exists in both languages: domain `manual`;
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from document import markup_blocks, paired, roff_blocks, sentence_pairs, unpacked
from language import LANGUAGES

GAMES = (
    *("wesnoth", "freedroidrpg", "widelands", "supertux", "freeciv", "unknown-horizons", "pioneers", "gnubg"),
    *("blobwars", "freedink", "minetest", "springlobby", "warmux", "warzone2100"),
)
"""Packages of games begin with one of these."""
LARGEST = 4_000_000
"""Bytes of a file that is read; larger ones are not pages."""
PAGE = re.compile(r"\.(html|xhtml|page|docbook|xml)(\.gz)?$")
COPYRIGHT = re.compile(r"usr/share/doc/[^/]+/copyright$")
LICENCE = re.compile(r"^License: *([A-Za-z][\w.+-]*(?: (?:or|and|with) [\w.+-]+)*)", re.MULTILINE)
RECORD = Path(__file__).with_name("packages.json")


class Names:
    """Languages of files by their names.

    >>> names = Names(["fr", "zh"])
    >>> names.catalogue("usr/share/locale/zh_CN/LC_MESSAGES/cat.mo"), names.page("usr/share/help/fr/cat/i.html")
    (('zh', 'cat'), ('fr', 'usr/share/help/cat/i.html'))
    >>> names.page("usr/share/doc/faq/fr/i.fr.html"), names.page("usr/share/doc/faq/i.html")
    (('fr', 'usr/share/doc/faq/i.html'), ('en', 'usr/share/doc/faq/i.html'))
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self._of = {locale: code for code in languages for locale in LANGUAGES[code].locales}
        self._of |= {locale.replace("_", "-"): code for locale, code in self._of.items()}
        self._of |= {locale.lower(): code for locale, code in self._of.items()}
        marks = dict.fromkeys([*self._of, "C", "en", "en-US", "en_US"])
        choice = "|".join(self._of)
        self._catalogue = re.compile(rf"(?:.*/)?({choice})/(?:LC_MESSAGES/)?([^/]+)\.mo$|.*[/-]({choice})\.mo$")
        self._manual_page = re.compile(rf"usr/share/man/(?:({choice})/)?(man\d/[^/]+)\.gz$")
        self._mark = re.compile(rf"[/.-]({'|'.join(marks)})(?=[/.])")

    def catalogue(self, name: str) -> tuple[str, str] | None:
        """Language and name of a catalogue."""
        match = self._catalogue.match(name)
        return match and (self._of[match[1] or match[3]], match[2] or Path(name).parent.name)

    def manual_page(self, name: str) -> tuple[str, str] | None:
        """Language of a manual page, and its path without the language."""
        match = self._manual_page.match(name)
        return match and (self._of[match[1]] if match[1] else "en", f"man/{match[2]}")

    def page(self, name: str) -> tuple[str, str] | None:
        """Language of a page, and its path without the language. Pages without one are taken for English."""
        if not PAGE.search(name):
            return None
        codes = [self._of[mark] for mark in self._mark.findall(name) if mark in self._of]
        return codes[0] if codes else "en", self._mark.sub("", name)

    def starred(self, name: str) -> str:
        """The last part of a page's path, with a `*` for the language."""
        return self._mark.sub(lambda match: f"{match[0][0]}*", name).rpartition("/")[2]

    def wanted(self, name: str) -> bool:
        """Whether a file is read."""
        return bool(self.catalogue(name) or self.manual_page(name) or PAGE.search(name) or COPYRIGHT.search(name))


@dataclass
class Shelf:
    """The files of all packages: pages by the path that they share, and rows by language and domain."""

    names: Names
    pages: dict[str, dict[str, tuple[str, str, bytes]]] = field(default_factory=dict)
    rows: dict[str, dict[str, list[tuple[str, str, str]]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    licences: dict[str, set[str]] = field(default_factory=dict)

    def add(self, language: str, domain: str, package: str, rows: Sequence[tuple[str, str, str]]) -> None:
        self.rows.setdefault(language, {}).setdefault(domain, []).extend(rows)
        self.counts[package] += len(rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=Path("packages"), help="folder of .deb files (packages)")
    parser.add_argument("--out", type=Path, default=Path("text"), help="folder for DOMAIN.tsv.xz (text)")
    parser.add_argument(
        "--languages", nargs="+", choices=LANGUAGES, default=["fr"], metavar="CODE", help=f"{', '.join(LANGUAGES)} (fr)"
    )
    parser.add_argument(
        "--names",
        type=Path,
        nargs="?",
        const=RECORD,
        metavar="RECORD",
        help="only print the names of a record's packages (packages.json beside this program)",
    )
    arguments = parser.parse_args(argv)
    if arguments.names:
        print(*json.loads(arguments.names.read_text("utf-8")))
        return 0
    languages = list(dict.fromkeys(arguments.languages))
    shelf = Shelf(Names(languages))
    for path in sorted(arguments.packages.glob("*.deb")):
        read_package(path, shelf)
    read_pages(shelf, languages)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for language in languages:
        folder = arguments.out if len(languages) == 1 else arguments.out / language
        folder.mkdir(exist_ok=True)
        for domain, rows in sorted(shelf.rows.get(language, {}).items()):
            text = "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)
            with lzma.open(folder / f"{domain}.tsv.xz", "wt", encoding="utf-8") as file:
                file.write(text)
            print(f"{language} {domain}: {len(rows):,} rows")
    write_record(arguments.out, arguments.packages.glob("*.deb"), shelf.counts, shelf.licences)
    return 0


def write_record(out: Path, packages: Iterable[Path], counts: Counter[str], licences: dict[str, set[str]]) -> None:
    """Write the versions, rows and licences of the packages that are counted into `packages.json`."""
    versions = dict(path.name.split("_")[:2] for path in packages)
    record = {
        name: {
            "version": versions[name].replace("%3a", ":"),
            "rows": counts[name],
            "licences": sorted(licences.get(name, ())),
        }
        for name in sorted(counts)
    }
    write_facts(out / "packages.json", record)


def write_facts(path: Path, record: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the facts about packages as JSON, one line for each, by name."""
    lines = [f" {json.dumps(name)}: {json.dumps(record[name])}" for name in sorted(record)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def read_package(path: Path, shelf: Shelf) -> None:
    """Put the catalogues, the pages in all languages and the licences of a package on the shelf."""
    package = path.name.split("_")[0]
    for name, content in members(path, shelf.names.wanted):
        if found := shelf.names.catalogue(name):
            language, catalogue_name = found
            domain = "game" if package.startswith(GAMES) else "program"
            rows = [(f"{package}/{catalogue_name}", *row) for row in catalogue(content, language)]
            shelf.add(language, domain, package, rows)
        elif COPYRIGHT.match(name):
            shelf.licences.setdefault(package, set()).update(LICENCE.findall(unpacked(content)))
        elif found := shelf.names.manual_page(name) or shelf.names.page(name):
            language, place = found
            shelf.pages.setdefault(place, {})[language] = (package, name, content)


def members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """The names and contents of those files of a package whose names are wanted.

    Raises ValueError if it is not a Debian package.
    """
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
                    if each.isfile() and each.size <= LARGEST and wanted(file_name):
                        file = files.extractfile(each)
                        if file is not None:
                            yield file_name, file.read()
        place += 60 + size + size % 2


def catalogue(content: bytes, language: str) -> Iterator[tuple[str, str]]:
    """The messages of a compiled catalogue with their translations; of plurals, singular and plural."""
    try:
        messages = gettext.GNUTranslations(io.BytesIO(content))._catalog  # type: ignore[attr-defined]
    except (OSError, UnicodeDecodeError, ValueError):
        return
    for key, translation in messages.items():
        english = key[0] if isinstance(key, tuple) else key
        if isinstance(key, tuple) and key[1] != 0:
            continue
        english = english.rpartition("\x04")[2]
        if english and translation:
            yield from sentence_pairs(english, translation, language)


def read_pages(shelf: Shelf, languages: Sequence[str]) -> None:
    """Add the pairs of all pages that exist in English and another language."""
    for name, sides in sorted(shelf.pages.items()):
        for language in languages:
            if "en" not in sides or language not in sides:
                continue
            manual_page = name.startswith("man/")
            read = roff_blocks if manual_page else markup_blocks
            blocks = [read(unpacked(sides[side][2])) for side in ("en", language)]
            package, page, _ = sides[language]
            document = name if manual_page else f"{package}/{shelf.names.starred(page)}"
            rows = [
                (document, *pair) for one, other in paired(*blocks) for pair in sentence_pairs(one, other, language)
            ]
            shelf.counts[sides["en"][0]] += 0
            shelf.add(language, "manpage" if manual_page else "manual", package, rows)


if __name__ == "__main__":
    raise SystemExit(main())
