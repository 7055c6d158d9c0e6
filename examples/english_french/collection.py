"""Collects English and French text that `package.py` does not read, as training text for `prepare.py --more`.

    apt-get update                  # with Acquire::Languages { "en"; "fr"; }; and DEP-11 (package appstream)
    apt-get download $(python examples/english_french/collection.py --names)
    python examples/english_french/collection.py --lists /var/lib/apt/lists --packages packages/ --out more/files
    python examples/english_french/package.py --packages packages/ --out more/package

The rows have a document, an English and a French text. They are read from

* apt's lists `Translation-en` and `Translation-fr`: descriptions of packages, paired by their digest;
* apt's lists `Components`: names, summaries and descriptions of programs in AppStream, domain `packages` too;
* catalogues of messages that are not compiled, `fr.po`, and `i18n/fr.json` with `i18n/en.json`: domain `program`;
* games: catalogues, texts of Dungeon Crawl, and dialogues of Fish Fillets, whose files contain the English: `game`.

`more.json` beside this program records, like `packages.json`, the packages that were added to the shipped translator's
text, with the licences that they name and the rows of both programs; descriptions of packages have no licence each.
"""

import argparse
import ast
import json
import lzma
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml
from document import markup_blocks, paired, sentence_pairs, unpacked
from package import COPYRIGHT, LICENCE, members, write_record

Row = tuple[str, str, str]
CATALOGUE = re.compile(r"(?:^|[/.])fr\.po$")
MESSAGES = re.compile(r"i18n/(?:en|fr)\.json$")
TEXTS = re.compile(r"dat/descript/(?:fr/)?[a-z]+\.txt$")
DIALOGUES = re.compile(r"dialogs_fr\.lua$")
WANTED = (CATALOGUE, MESSAGES, TEXTS, DIALOGUES, COPYRIGHT)
RECORD = Path(__file__).with_name("more.json")
GAMES = ("crawl", "fillets", "flare", "frozen-bubble", "lincity", "pingus")
"""Packages of games begin with one of these."""
DIALOGUE = re.compile(r'dialogId\([^,]+,[^,]+, "([^"]+)"\)\s*dialogStr\("([^"]+)"\)')
STRING = re.compile(r'^(msgctxt|msgid|msgid_plural|msgstr(?:\[\d\])?)? *("(?:[^"\\]|\\.)*")$')
TEMPLATE = re.compile(r"\{\{|\[\[|''|\w\|\w|@\w+@")
"""Templates and links of wikis, and variables of games: text that is not what a reader sees."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=Path, help="apt's folder of lists")
    parser.add_argument("--packages", type=Path, nargs="*", default=[], help="folders of .deb files")
    parser.add_argument("--out", type=Path, default=Path("more"), help="folder for DOMAIN.tsv.xz (more)")
    parser.add_argument("--names", action="store_true", help="only print the names of the packages")
    arguments = parser.parse_args(argv)
    if arguments.names:
        print(*json.loads(RECORD.read_text("utf-8")))
        return 0
    rows: dict[str, list[Row]] = {}
    if arguments.lists:
        rows["packages"] = [*descriptions(arguments.lists), *components(arguments.lists)]
    paths = sorted(path for folder in arguments.packages for path in folder.glob("*.deb"))
    counts, licences = Counter[str](), dict[str, set[str]]()
    for path in paths:
        domain = "game" if path.name.startswith(GAMES) else "program"
        rows.setdefault(domain, []).extend(package_rows(path, licences))
    arguments.out.mkdir(parents=True, exist_ok=True)
    for domain, found in sorted(rows.items()):
        different = dict.fromkeys(row for row in found if not any(TEMPLATE.search(text) for text in row[1:]))
        text = "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in different)
        with lzma.open(arguments.out / f"{domain}.tsv.xz", "wt", encoding="utf-8") as file:
            file.write(text)
        counts.update(row[0].partition("/")[0] for row in different if domain != "packages")
        print(f"{domain}: {len(different):,} rows")
    write_record(arguments.out, paths, counts, licences)
    return 0


def descriptions(lists: Path) -> Iterator[Row]:
    """The sentences of packages' descriptions, of all releases whose lists are there, and each description once."""
    sides: dict[str, dict[str, tuple[str, str]]] = {"en": {}, "fr": {}}
    for language, found in sides.items():
        for path in sorted(lists.glob(f"*_i18n_Translation-{language}*")):
            for stanza in content(path).split("\n\n"):
                if match := re.match(r"Package: (\S+)\nDescription-md5: (\w+)\nDescription-\w+: ", stanza):
                    found.setdefault(match[2], (match[1], stanza[match.end() :]))
    for digest, (package, english) in sides["en"].items():
        if digest in sides["fr"]:
            one, other = (paragraphs(text) for text in (english, sides["fr"][digest][1]))
            if len(one) == len(other):
                for pair in zip(one, other, strict=True):
                    yield from ((package, *row) for row in sentence_pairs(*pair))


def paragraphs(description: str) -> list[str]:
    """The summary, the paragraphs and the items of lists of a description.

    >>> paragraphs("a cat\\n It\\n sleeps.\\n .\\n  * here\\n  * there")
    ['a cat', 'It sleeps.', 'here', 'there']
    """
    summary, _, text = description.partition("\n")
    marked = re.sub(r"\n \.(?=\n)", "\n", "\n" + text)
    parts = re.split(r"\n\s*(?:\n\s*|[*+-] +)+", marked)
    return [summary, *(" ".join(part.split()) for part in parts if part.strip())]


def components(lists: Path) -> Iterator[Row]:
    """The names, summaries and descriptions of programs in AppStream."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(lists.glob("*_dep11_Components-*")):
        for document in content(path).split("\n---\n"):
            if not re.search(r"^ +fr:", document, re.MULTILINE):
                continue
            start = re.search(r"^(Type|ID):", document, re.MULTILINE)
            facts = yaml.load(document[start.start() if start else 0 :], loader)
            for key in ("Name", "Summary", "Description"):
                english, french = (facts.get(key, {}).get(side) for side in ("C", "fr"))
                if english and french:
                    for pair in paired(markup_blocks(english), markup_blocks(french)):
                        yield from ((facts["ID"], *row) for row in sentence_pairs(*pair))


def content(path: Path) -> str:
    """The text of one of apt's lists, which may be compressed."""
    if path.suffix in (".lz4", ".xz", ".gz"):
        reader = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
        return subprocess.run(reader, check=True, capture_output=True).stdout.decode("utf-8")
    return path.read_text("utf-8")


def package_rows(path: Path, licences: dict[str, set[str]]) -> Iterator[Row]:
    """The rows of a package, whose licences are added. Files in two languages are read when both are known."""
    package = path.name.split("_")[0]
    sides: dict[str, dict[str, bytes]] = {}
    for name, data in members(path, lambda name: any(pattern.search(name) for pattern in WANTED)):
        document = f"{package}/{Path(name).parent.name}"
        if COPYRIGHT.match(name):
            licences.setdefault(package, set()).update(LICENCE.findall(unpacked(data)))
            continue
        if CATALOGUE.search(name):
            pairs = list(messages(data.decode("utf-8", "replace")))
        elif DIALOGUES.search(name):
            pairs = DIALOGUE.findall(data.decode("utf-8", "replace"))
        else:
            reader = flat if MESSAGES.search(name) else entries
            side = "fr" if re.search(r"/fr[/.]", name) else "en"
            place = re.sub(r"(?<=/)(?:en|fr)[/.]", "", name)
            sides.setdefault(place, {})[side] = data
            pairs = list(_matched(sides[place], reader)) if len(sides[place]) == 2 else []
        for pair in pairs:
            yield from ((document, *row) for row in sentence_pairs(*pair))


def _matched(sides: dict[str, bytes], reader: Callable[[str], dict[str, str]]) -> Iterator[tuple[str, str]]:
    """The texts with the same key in both languages, by paragraph if there are equally many."""
    english, french = (reader(sides[side].decode("utf-8", "replace")) for side in ("en", "fr"))
    for key, text in english.items():
        one, other = (re.split(r"\n\s*\n", each.strip()) for each in (text, french.get(key, "")))
        if other[0] and len(one) == len(other):
            yield from zip(one, other, strict=True)


def flat(text: str) -> dict[str, str]:
    """The messages of a JSON file."""
    return {key: value for key, value in json.loads(text).items() if isinstance(value, str)}


def entries(text: str) -> dict[str, str]:
    """The entries of a text of Dungeon Crawl, by their names.

    >>> entries("%%%%\\nacid dragon\\n\\nA small dragon.\\n%%%%\\norc\\n\\nUgly.\\n")
    {'acid dragon': 'A small dragon.', 'orc': 'Ugly.'}
    """
    found = (part.strip().partition("\n") for part in text.split("%%%%"))
    return {name.strip(): body.strip() for name, _, body in found if body}


def messages(text: str) -> Iterator[tuple[str, str]]:
    """The messages of a catalogue with their translations, of plurals the singular, without those marked as fuzzy.

    >>> list(messages('msgid "Open"\\nmsgstr ""\\n"Ouv"\\n"rir"\\n'))
    [('Open', 'Ouvrir')]
    """
    for block in re.split(r"\n\s*\n", text):
        if re.search(r"^#,.*fuzzy", block, re.MULTILINE):
            continue
        cells: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if match := STRING.match(line.strip()):
                name = match[1] or name
                cells[name] = cells.get(name, "") + ast.literal_eval(match[2])
        french = cells.get("msgstr") or cells.get("msgstr[0]", "")
        if cells.get("msgid") and french:
            yield cells["msgid"], french


if __name__ == "__main__":
    raise SystemExit(main())
