"""Links the words of combined pairs, by one IBM model for each language with English, so that attention can be guided.

    PYTHONPATH=examples/english_french python examples/five_languages/directed_links.py many/data/many

It reads `train.tsv` and `valid.tsv` of `combine.py` and writes `train.links` and `valid.links`, line by line, with the
same links in both directions. A head learns to align from a part of the pairs, so that at most `--most` different ones
of a language have links, and the other lines are empty. Chinese has none, because links connect words that are
separated by spaces.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from combine import evenly, write
from links import compared

from foveate.data.text import read_cells
from foveate.inspect.aligner import align

PARTS = ("train", "valid")
UNSPACED = {"zh"}
Row = tuple[str, str, str]
"""The code of a language, the English text, the text in that language."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with train.tsv and valid.tsv")
    parser.add_argument(
        "--most", type=int, default=40_000, metavar="N", help="pairs of a language with links, at most (40000)"
    )
    arguments = parser.parse_args(argv)
    rows = {part: rows_of(arguments.data / f"{part}.tsv") for part in PARTS}
    links: dict[Row, list[tuple[int, int]]] = {}
    for code in sorted({code for part in PARTS for (code, _, _), _ in rows[part]} - UNSPACED):
        different = list(dict.fromkeys(row for part in PARTS[::-1] for row, _ in rows[part] if row[0] == code))
        chosen = evenly(different, arguments.most)
        words = [(compared(english), compared(translation)) for _, english, translation in chosen]
        links |= {row: sorted(each) for row, each in zip(chosen, align(words, words), strict=True)}
        print(f"{code}: {len(chosen):,} of {len(different):,} pairs have links", flush=True)
    for part in PARTS[::-1]:  # training's last, for which `build.sh` looks
        lines = [written(links.get(row, ()), forth) for row, forth in rows[part]]
        write(arguments.data / f"{part}.links", lines)
    return 0


def rows_of(path: Path) -> list[tuple[Row, bool]]:
    """The pairs of a file, and whether they are translated from English."""
    rows: list[tuple[Row, bool]] = []
    for _, (direction, source, target) in read_cells(path, (0, 1, 2), otherwise="combine.py writes them"):
        forth = direction.startswith("en-")
        code = direction.removeprefix("en-").removesuffix("-en")
        rows.append(((code, source, target) if forth else (code, target, source), forth))
    return rows


def written(links: Sequence[tuple[int, int]], forth: bool) -> str:
    """Links from English, in the direction of a pair."""
    return " ".join(f"{english}-{other}" if forth else f"{other}-{english}" for english, other in links)


if __name__ == "__main__":
    raise SystemExit(main())
