"""Collects English and French text that `package.py` does not read, as training text for `prepare.py --more`.

    apt-get update                  # with Acquire::Languages { "en"; "fr"; }; and DEP-11 (package appstream)
    apt-get download $(python examples/english_french/collection.py --names)
    python examples/english_french/collection.py --lists /var/lib/apt/lists --packages packages/ --out more/files
    python examples/english_french/package.py --packages packages/ --out more/package

The rows have a document, an English and a French text. They are read from

* apt's lists `Translation-en` and `Translation-fr`: descriptions of packages, paired by their digest;
* apt's lists `Components`: names, summaries and descriptions of programs in AppStream, domain `packages` too;
* catalogues of messages that are not compiled, `fr.po`, and `i18n/fr.json` with `i18n/en.json`: domain `program`;
* language packs of Mozilla's programs, in French and in British English: domain `program`;
* FreeDict's dictionaries, one line for each headword: domain `dictionary`;
* games: catalogues, texts of Dungeon Crawl, and dialogues of Fish Fillets, whose files contain the English: `game`.

Language packs need `fluent.syntax`, AppStream PyYAML: `pip install '.[dev]'` has both.

`more.json` beside this program records, like `packages.json`, the packages that were added to the shipped translator's
text, with the licences that they name and the rows of both programs; descriptions of packages have no licence each.
"""

import argparse
import ast
import gzip
import io
import json
import lzma
import re
import subprocess
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml
from document import markup_blocks, paired, sentence_pairs, unpacked
from fluent.syntax import FluentParser
from fluent.syntax import ast as ast_of_fluent
from package import COPYRIGHT, LICENCE, members, write_record

Row = tuple[str, str, str]
Sides = dict[str, tuple[str, bytes]]
"""The package and the content of a file in each language."""
BRANDS = {"brand-short-name": "Firefox", "brand-shorter-name": "Firefox", "brand-full-name": "Firefox"}
"""Names for the terms that stand for a program's own name, on both sides."""
CATALOGUE = re.compile(r"(?:^|[/.])fr\.po$")
MESSAGES = re.compile(r"i18n/(?:en|fr)\.json$")
TEXTS = re.compile(r"dat/descript/(?:fr/)?[a-z]+\.txt$")
DIALOGUES = re.compile(r"dialogs_fr\.lua$")
LANGUAGE_PACK = re.compile(r"langpack-(?:fr|en-GB)@.*\.xpi$")
DICTIONARY = re.compile(r"freedict-(?:eng-fra|fra-eng)\.dict\.dz$")
WANTED = (CATALOGUE, MESSAGES, TEXTS, DIALOGUES, LANGUAGE_PACK, DICTIONARY, COPYRIGHT)
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
    counts, licences, sides = Counter[str](), dict[str, set[str]](), dict[str, Sides]()
    for path in paths:
        domain = "game" if path.name.startswith(GAMES) else "program"
        domain = "dictionary" if path.name.startswith("dict-") else domain
        rows.setdefault(domain, []).extend(package_rows(path, licences, sides))
    arguments.out.mkdir(parents=True, exist_ok=True)
    for domain, found in sorted(rows.items()):
        different = dict.fromkeys(row for row in found if not any(TEMPLATE.search(text) for text in row[1:]))
        text = "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in different)
        with lzma.open(arguments.out / f"{domain}.tsv.xz", "wt", encoding="utf-8") as file:
            file.write(text)
        counts.update(row[0].partition("/")[0] for row in different if domain != "packages")
        print(f"{domain}: {len(different):,} rows")
    counts.update({package: 0 for pair in sides.values() if len(pair) == 2 for package, _ in pair.values()})
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


def package_rows(path: Path, licences: dict[str, set[str]], sides: dict[str, Sides]) -> Iterator[Row]:
    """The rows of a package, whose licences are added. Files in two languages are read when both are known; those that
    are known are `sides`, by the path that they share.
    """
    package = path.name.split("_")[0]
    for name, data in members(path, lambda name: any(pattern.search(name) for pattern in WANTED)):
        document = f"{package}/{Path(name).parent.name}"
        if COPYRIGHT.match(name):
            licences.setdefault(package, set()).update(LICENCE.findall(unpacked(data)))
            continue
        if CATALOGUE.search(name):
            pairs = list(messages(data.decode("utf-8", "replace")))
        elif DIALOGUES.search(name):
            pairs = DIALOGUE.findall(data.decode("utf-8", "replace"))
        elif DICTIONARY.search(name):
            pairs = list(headwords(gzip.decompress(data).decode("utf-8"), english="eng-fra" in name))
        else:
            reader = flat if MESSAGES.search(name) else language_pack if LANGUAGE_PACK.search(name) else entries
            side = "fr" if re.search(r"[/-]fr[/.@]", name) else "en"
            place = re.sub(r"(?<=[/-])(?:en(?:-GB)?|fr)[/.@]", "", name)
            sides.setdefault(place, {})[side] = (package, data)
            pairs = list(_matched(sides[place], reader)) if len(sides[place]) == 2 else []
        for pair in pairs:
            yield from ((document, *row) for row in sentence_pairs(*pair))


def _matched(sides: Sides, reader: Callable[[bytes], dict[str, str]]) -> Iterator[tuple[str, str]]:
    """The texts with the same key in both languages, by paragraph if there are equally many."""
    english, french = (reader(sides[side][1]) for side in ("en", "fr"))
    for key, text in english.items():
        one, other = (re.split(r"\n\s*\n", each.strip()) for each in (text, french.get(key, "")))
        if other[0] and len(one) == len(other):
            yield from zip(one, other, strict=True)


def flat(content: bytes) -> dict[str, str]:
    """The messages of a JSON file."""
    return {key: value for key, value in json.loads(content).items() if isinstance(value, str)}


def entries(content: bytes) -> dict[str, str]:
    """The entries of a text of Dungeon Crawl, by their names.

    >>> entries(b"%%%%\\nacid dragon\\n\\nA small dragon.\\n%%%%\\norc\\n\\nUgly.\\n")
    {'acid dragon': 'A small dragon.', 'orc': 'Ugly.'}
    """
    found = (part.strip().partition("\n") for part in content.decode("utf-8", "replace").split("%%%%"))
    return {name.strip(): body.strip() for name, _, body in found if body}


def language_pack(content: bytes) -> dict[str, str]:
    """The messages of a language pack, by file and name: those of Fluent and of property files."""
    texts = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            if name.endswith((".ftl", ".properties")):
                read = fluent if name.endswith(".ftl") else properties
                place = re.sub(r"/(?:en-GB|fr)(?=/)", "", name)
                texts.update({f"{place} {key}": text for key, text in read(archive.read(name).decode("utf-8"))})
    return texts


def fluent(text: str) -> Iterator[tuple[str, str]]:
    """The messages and attributes of a Fluent file that have no variants, without markup.

    >>> list(fluent("open = Open { $name }\\ntab =\\n    .label = New tab\\n    .accesskey = T\\n"))
    [('open', 'Open {name}'), ('tab.label', 'New tab')]
    """
    resource = FluentParser().parse(text)
    for message in resource.body:
        if isinstance(message, ast_of_fluent.Message):
            name = message.id.name
            parts = [(name, message.value), *((f"{name}.{each.id.name}", each.value) for each in message.attributes)]
            for key, pattern in parts:
                value = plain(pattern) if pattern else ""
                if value and not key.endswith(("key", "style", "width", "height")):
                    yield key, value


def plain(pattern: ast_of_fluent.Pattern) -> str:
    """The text of a pattern, with `{name}` for a variable and the name of a brand; empty if it has variants."""
    pieces = []
    for element in pattern.elements:
        if isinstance(element, ast_of_fluent.TextElement):
            pieces.append(element.value)
        elif isinstance(element.expression, ast_of_fluent.VariableReference):
            pieces.append(f"{{{element.expression.id.name}}}")
        elif isinstance(element.expression, ast_of_fluent.TermReference):
            words = element.expression.id.name.removesuffix("-brand-name").split("-")
            pieces.append(BRANDS.get(element.expression.id.name) or " ".join(words).title())
        else:
            return ""
    return re.sub(r"<[^>]*>", "", "".join(pieces))


def properties(text: str) -> Iterator[tuple[str, str]]:
    """The messages of a property file.

    >>> list(properties("# files\\nsize=%S\\\\u00a0bytes\\nopenKey=O\\n"))
    [('size', '%S\\xa0bytes')]
    """
    for name, value in re.findall(r"^([\w.-]+)\s*=[ \t]*(.*)$", text, re.MULTILINE):
        if "key" not in name.casefold() and ";" not in value:  # plurals
            yield name, re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), value)


def headwords(text: str, *, english: bool) -> Iterator[tuple[str, str]]:
    """English and French words of a dictionary: each headword with the first of its translations.

    Of a dictionary of French words, those are left out whose English word translates another one, too.

    >>> list(headwords("00-database\\n\\nexile /eksail/\\n1. banni, exiler\\n2. exil\\n", english=True))
    [('exile', 'banni')]
    """
    rows = re.findall(r"^(\S.*?) /.*/.*\n(?:1\. )?([^,;(\n]+)", text.replace("\u2010", "-"), re.MULTILINE)
    pairs = [(word, translation.strip()) for word, translation in rows]
    translations = Counter(translation for _, translation in pairs)
    for word, translation in pairs:
        if english:
            yield word, translation
        elif translations[translation] == 1:
            yield translation, word


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
