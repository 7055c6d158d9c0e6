"""Combines the parallel text of several languages with English, for one model that translates to English and back.

    export PYTHONPATH=examples/english_french
    python examples/five_languages/combine.py data/de data/fa data/ru data/zh --out data/many

Each folder is named after a language, and `english_french/prepare.py` has filled it. `train.tsv` and `valid.tsv` have
the columns direction, source and target; every pair stands there twice, as `en-fa` and as `fa-en`. The files
`test.DIRECTION.DOMAIN.tsv` have source and target.

`everyday_lines.py` adds sentences of everyday life to the training text of each language.

A training line of one language is removed if its English is that of a held-out line of another, or if both share eight
consecutive words, because the model reads them all.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from everyday_lines import everyday
from prepare import bare, consecutive

from foveate.data.text import Pair, read_pairs
from foveate.storage.draft import write_file

TESTED = 300
"""The largest number of test lines of a domain and direction, evenly distributed."""
VALIDATED = 150
"""The largest number of validation lines of a language and of each direction."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of languages, such as data/fa")
    parser.add_argument("--out", type=Path, required=True, help="folder for the files")
    parser.add_argument(
        "--most",
        type=int,
        default=200_000,
        metavar="N",
        help="training pairs of a language, evenly distributed (200000)",
    )
    parser.add_argument(
        "--everyday", type=int, default=8000, metavar="N", help="everyday sentences to draw for a language (8000)"
    )
    parser.add_argument("--copies", type=int, default=4, metavar="N", help="how often these are written (4)")
    arguments = parser.parse_args(argv)
    if arguments.out.resolve() in {folder.resolve() for folder in arguments.folders}:
        parser.error(f"--out: {arguments.out} is a folder that is read. Name another one.")
    arguments.out.mkdir(parents=True, exist_ok=True)
    held_out = [pair.source for folder in arguments.folders for pair in held_out_pairs(folder)]
    equal = {bare(text) for text in held_out}
    grams = {gram for text in held_out for gram in consecutive(text)}
    train: list[str] = []
    for folder in arguments.folders:
        pairs = list(read_pairs(folder / "train.tsv"))
        kept = [pair for pair in pairs if bare(pair.source) not in equal and grams.isdisjoint(consecutive(pair.source))]
        daily = unseen(
            everyday(folder.name, arguments.everyday), [*held_out, *(pair.target for pair in held_out_pairs(folder))]
        )
        print(f"{folder.name}: {len(pairs):,} training pairs, {len(kept):,} without other languages' held-out English")
        train += directed([*evenly(kept, arguments.most), *daily * arguments.copies], folder.name)
    valid = [
        line
        for folder in arguments.folders
        for line in directed(evenly(list(read_pairs(folder / "valid.tsv")), VALIDATED), folder.name)
    ]
    write(arguments.out / "valid.tsv", valid)
    for folder in arguments.folders:
        for path in sorted(folder.glob("test.*.tsv")):
            pairs = evenly(list(read_pairs(path)), TESTED)
            name = path.name.removeprefix("test.")
            forth = [f"{pair.source}\t{pair.target}" for pair in pairs]
            back = [f"{pair.target}\t{pair.source}" for pair in pairs]
            write(arguments.out / f"test.en-{folder.name}.{name}", forth)
            write(arguments.out / f"test.{folder.name}-en.{name}", back)
    write(arguments.out / "train.tsv", train)  # last, for which `build.sh` looks
    return 0


def held_out_pairs(folder: Path) -> list[Pair]:
    """The validation and test pairs of a language."""
    return [pair for path in (folder / "valid.tsv", *sorted(folder.glob("test.*.tsv"))) for pair in read_pairs(path)]


def unseen(sentences: list[tuple[str, str]], held_out: Sequence[str]) -> list[Pair]:
    """The pairs whose sides differ from every held-out text and share no eight consecutive words with one."""
    equal, grams = {bare(text) for text in held_out}, {gram for text in held_out for gram in consecutive(text)}
    return [
        Pair(0, *each)
        for each in sentences
        if all(bare(side) not in equal and grams.isdisjoint(consecutive(side)) for side in each)
    ]


def directed(pairs: Sequence[Pair], code: str) -> Iterator[str]:
    """The lines of pairs in both directions."""
    for pair in pairs:
        yield f"en-{code}\t{pair.source}\t{pair.target}"
        yield f"{code}-en\t{pair.target}\t{pair.source}"


def evenly(pairs: list[Pair], most: int) -> list[Pair]:
    """At most so many pairs, evenly distributed over all."""
    return [pairs[place * len(pairs) // most] for place in range(most)] if len(pairs) > most else pairs


def write(path: Path, lines: Sequence[str]) -> None:
    write_file(path, "".join(f"{line}\n" for line in lines).encode())
    print(f"{path}: {len(lines):,} lines")


if __name__ == "__main__":
    raise SystemExit(main())
