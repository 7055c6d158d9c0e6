"""Writes tables of telephone prompts in five languages with their texts: real voices, one speaker per language.

    apt install asterisk-core-sounds-{en,es,fr,it,ru} asterisk-core-sounds-{en,es,fr,it,ru}-wav
    python examples/speech/prompts.py prompts/
    foveate train transcribe --data prompts/es/train.tsv --valid-data prompts/es/valid.tsv --out asr/
    foveate train classify --data prompts/language/train.tsv --valid-data prompts/language/valid.tsv --out language/

The recordings stay where they are, about half an hour at 8 kHz per language; the tables contain their paths. For each
language, the script writes a folder with train.tsv, valid.tsv and test.tsv (`path<TAB>text`). The folder `language` has
the same three tables with `path<TAB>language`. Texts are in small letters without punctuation; prompts are left out if
their text contains digits or describes a sound, such as "[ascending tones]". The split is by a hash of the text, so
that no text is in two parts: a tenth is for testing, a tenth for validation.

A language classifier that learns from these tables learns to tell speakers from each other, because each language has
one speaker: test it on the recordings of `captions.py`, by other speakers.

The recordings and texts are licensed under CC-BY-SA-3.0 (Digium and others) and are not bundled.
"""

import argparse
import gzip
import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

LANGUAGES = ("en", "es", "fr", "it", "ru")
SOUNDS, TEXTS = Path("/usr/share/asterisk/sounds"), Path("/usr/share/doc")
PARTS = {0: "test", 1: "valid"}
"""The tenths for testing and validation."""
LINE = re.compile(r"(?P<name>[\w./-]+)\s*:\s*(?P<text>.*\S)")


class Prompt(NamedTuple):
    """A recording with its text."""

    path: Path
    text: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the tables")
    parser.add_argument("--sounds", type=Path, default=SOUNDS, help=f"folder with es_MX_f_Allison, … ({SOUNDS})")
    parser.add_argument("--texts", type=Path, default=TEXTS, help=f"folder of asterisk-core-sounds-es, … ({TEXTS})")
    parser.add_argument("--languages", default=",".join(LANGUAGES), help=f"({','.join(LANGUAGES)})")
    arguments = parser.parse_args(argv)
    labelled: list[tuple[Prompt, str]] = []
    for language in arguments.languages.split(","):
        prompts, silent = read(arguments.sounds, arguments.texts, language)
        write(((one, one.text) for one in prompts), arguments.out / language)
        labelled += [(one, language) for one in prompts]
        print(f"{language}: {len(prompts):,} prompts; {silent} have no text in words, or two texts, and are left out")
    write(iter(labelled), arguments.out / "language")
    return 0


def read(sounds: Path, texts: Path, language: str) -> tuple[list[Prompt], int]:
    """The recordings of a language with their texts, and the number of recordings without a text in words."""
    # Installed sounds have links such as `es` and `es_MX`, which lead to the same recordings.
    speakers = [folder for folder in sorted(sounds.glob(f"{language}_*")) if not folder.is_symlink()]
    listing = texts / f"asterisk-core-sounds-{language}" / f"core-sounds-{language}.txt.gz"
    package = f"asterisk-core-sounds-{language}"
    if not speakers or not listing.exists():
        missing = listing if speakers else sounds / f"{language}_…"
        raise SystemExit(f"There is no {missing}. Install its packages: apt install {package} {package}-wav")
    texts_of: dict[str, set[str]] = {}
    for name, text in spoken(gzip.decompress(listing.read_bytes()).decode("utf-8")):
        texts_of.setdefault(name, set()).add(text)
    # A name that is listed with two texts does not tell which of them was said.
    words = {name: next(iter(one)) for name, one in texts_of.items() if len(one) == 1}
    paths = [(path, str(path.relative_to(one).with_suffix(""))) for one in speakers for path in one.rglob("*.wav")]
    prompts = [Prompt(path, words[name]) for path, name in sorted(paths) if words.get(name)]
    return prompts, len(paths) - len(prompts)


def spoken(listing: str) -> Iterator[tuple[str, str]]:
    """The names of recordings and their texts; a text that is not in words is empty.

    >>> dict(spoken("; Core sounds\\nvm-dear: ¡Adiós!\\nbeep: [tono]\\nmenu: Marque 1."))
    {'vm-dear': 'adiós', 'beep': '', 'menu': ''}
    """
    for line in listing.splitlines():
        if match := LINE.fullmatch(line.strip()):
            yield match["name"], words_of(match["text"])


def words_of(text: str) -> str:
    """Small letters, with apostrophes inside words and single spaces; nothing if the text has digits or brackets.

    >>> words_of("C'est  l'été – n’est-ce pas ?")
    "c'est l'été n'est ce pas"
    """
    if re.search(r"[\d\[\](){}<>#*&@/%]", text):
        return ""
    plain = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    return " ".join(re.findall(r"[^\W_]+(?:'[^\W_]+)*", plain))


def part_of(text: str) -> str:
    """The part of a text, by its hash."""
    return PARTS.get(int(hashlib.sha256(text.encode()).hexdigest(), 16) % 10, "train")


def write(rows: Iterator[tuple[Prompt, str]], folder: Path) -> None:
    """Write train.tsv, valid.tsv and test.tsv."""
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for prompt, label in rows:
        parts[part_of(prompt.text)].append(f"{prompt.path.absolute()}\t{label}\n")
    folder.mkdir(parents=True, exist_ok=True)
    for part, lines in parts.items():
        (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
