"""Translations by paragraph: files for translators, and what they still lack.

A changed paragraph is marked fuzzy by sphinx-intl, and the site shows it in English. A finished lesson may have no such
paragraph.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from staging import LANGUAGES, LOCALE, ROOT

TRANSLATED = [language for language in LANGUAGES if language != "en"]


def renew(templates: Path) -> None:
    """Bring docs/locale up to the lessons: new paragraphs are empty, changed ones fuzzy."""
    languages = [part for language in TRANSLATED for part in ("-l", language)]
    command = [
        sys.executable,
        "-m",
        "sphinx_intl",
        "update",
        "-p",
        str(templates),
        "-d",
        str(LOCALE),
        "-w",
        "120",
        "--no-obsolete",
    ]
    subprocess.run([*command, *languages], check=True)
    for path in LOCALE.rglob("*.mo"):
        path.unlink()


def behind(templates: Path) -> Iterator[str]:
    """A sentence for each paragraph of a finished page that a language does not have."""
    for template in sorted(templates.rglob("*.pot")):
        name = template.relative_to(templates).with_suffix(".po")
        for language in TRANSLATED:
            path = LOCALE / language / "LC_MESSAGES" / name
            if path.exists():
                yield from _behind(_catalogue(template), _catalogue(path), path)


def _catalogue(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file)


def _behind(template: Catalog, translation: Catalog, path: Path) -> Iterator[str]:
    for message in template:
        if message.id:
            here = translation.get(message.id)
            state = "is missing" if here is None else "is not translated" if not here.string else ""
            state = "has changed since it was translated" if here is not None and here.fuzzy else state
            if state:
                yield f"{path.relative_to(ROOT)}: {str(message.id)[:60]!r} {state}"
