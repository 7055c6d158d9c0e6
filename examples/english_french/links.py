"""Links the words of training and validation pairs by an IBM model, so that attention can be guided.

    python examples/english_french/links.py data/
    foveate train translate examples/english_french/long.toml --source data/train.tsv --links data/train.links \\
        --valid-source data/valid.tsv --valid-links data/valid.links --out run/

It reads `train.tsv` and `valid.tsv` of a folder that `prepare.py` has written, and writes `train.links` and
`valid.links`. Words are compared without case, punctuation and elided articles. A head learns to align from a part of
the pairs, so only every fourth different one has links (`--every`), and the other lines are empty: for half a million
pairs, the IBM model would need ten gigabytes. `--known FOLDER` takes the links of pairs that another folder has; lines
that are added to a run's text have none.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from everyday import bare_forms

from foveate.data.text import read_lines, read_pairs
from foveate.inspect.aligner import align

PARTS = ("train", "valid")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with train.tsv and valid.tsv")
    parser.add_argument("--every", type=int, default=4, metavar="N", help="link one of N pairs (4)")
    parser.add_argument("--known", type=Path, metavar="FOLDER", help="copy the links of equal pairs of this folder")
    arguments = parser.parse_args(argv)
    folder = arguments.data
    pairs = {part: [(pair.source, pair.target) for pair in read_pairs(folder / f"{part}.tsv")] for part in PARTS}
    if arguments.known:
        links = known(arguments.known)
    else:
        different = list(dict.fromkeys(pair for part in PARTS for pair in pairs[part]))[:: arguments.every]
        words = [(compared(source), compared(target)) for source, target in different]
        found = (" ".join(f"{i}-{j}" for i, j in sorted(each)) for each in align(words, words))
        links = dict(zip(different, found, strict=True))
    for part in PARTS:
        lines = [links.get(pair, "") + "\n" for pair in pairs[part]]
        (folder / f"{part}.links").write_text("".join(lines), encoding="utf-8")
    return 0


def known(folder: Path) -> dict[tuple[str, str], str]:
    """The pairs of a folder with their links, as its files have them."""
    links: dict[tuple[str, str], str] = {}
    for part in PARTS:
        lines = read_lines(folder / f"{part}.links")
        links |= {
            (pair.source, pair.target): line
            for pair, line in zip(read_pairs(folder / f"{part}.tsv"), lines, strict=True)
            if line
        }
    return links


def compared(text: str) -> list[str]:
    """The words of a text, as the aligner compares them; punctuation on its own remains.

    >>> compared("L'Homme !")
    ['homme', '!']
    """
    words = text.split()
    return [bare or word for bare, word in zip(bare_forms(words), words, strict=True)]


if __name__ == "__main__":
    raise SystemExit(main())
