"""Writes tables of spoken captions of pictures, in up to ten languages: real voices, other ones than in `prompts.py`.

    apt install tuxpaint-stamps-default
    python examples/speech/captions.py captions/ --languages es,fr,ru
    foveate train classify --data captions/train.tsv --valid-data captions/valid.tsv --out language/
    foveate evaluate language/ --data captions/test.tsv

The stamps of Tux Paint have recordings such as `frog_desc_es.ogg`, which name the picture in a language; most languages
have a thousand of them, read by one or a few volunteers. They stay where they are; the script writes train.tsv,
valid.tsv, test.tsv and all.tsv (`path<TAB>language`). The split is by a hash of the picture's name, so that no caption
is in two parts: a tenth is for testing, a tenth for validation.

With `prompts.py`, they answer a question that a split of one collection cannot: whether a classifier recognises a
language, or only its speaker. Train on one collection and test on the other: `python examples/speech/across.py`.

The recordings are licensed under GPL-2 (Tux Paint's contributors) and are not bundled.
"""

import argparse
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

STAMPS = Path("/usr/share/tuxpaint/stamps")
LANGUAGES = ("be", "bg", "ca", "da", "el", "es", "fr", "ro", "ru")
NAME = re.compile(r"(?P<picture>.+)_desc_(?P<language>[a-z]+)\.(?:ogg|wav)")
PARTS = {0: "test", 1: "valid"}
"""The tenths for testing and validation."""


class Caption(NamedTuple):
    """A recording, the name of the picture, and the language."""

    path: Path
    picture: str
    language: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the tables")
    parser.add_argument("--stamps", type=Path, default=STAMPS, help=f"folder of the stamps ({STAMPS})")
    parser.add_argument("--languages", default=",".join(LANGUAGES), help=f"({','.join(LANGUAGES)})")
    arguments = parser.parse_args(argv)
    captions = read(arguments.stamps, arguments.languages.split(","))
    if not captions:
        parser.error(f"there are no captions in {arguments.stamps}: apt install tuxpaint-stamps-default")
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for one in captions:
        parts[part_of(one.picture)].append(f"{one.path.absolute()}\t{one.language}\n")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for part, lines in {**parts, "all": [*parts["train"], *parts["valid"], *parts["test"]]}.items():
        (arguments.out / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
    counts = sorted(Counter(one.language for one in captions).items())
    print(", ".join(f"{language}: {count:,}" for language, count in counts))
    return 0


def read(stamps: Path, languages: Sequence[str]) -> list[Caption]:
    """The captions in these languages, in the order of their paths."""
    names = ((path, NAME.fullmatch(path.name)) for path in sorted(stamps.rglob("*_desc_*")))
    captions = [Caption(path, name["picture"], name["language"]) for path, name in names if name]
    return [one for one in captions if one.language in languages]


def part_of(picture: str) -> str:
    """The part of a picture, by a hash of its name."""
    return PARTS.get(int(hashlib.sha256(picture.encode()).hexdigest(), 16) % 10, "train")


if __name__ == "__main__":
    raise SystemExit(main())
