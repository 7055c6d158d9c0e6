"""Makes pictures of one to three articles of clothing, with captions that name and place them, and their boxes.

    apt install dataset-fashion-mnist
    python examples/pictures/scenes.py scenes/
    foveate train caption --data scenes/train.tsv --valid-data scenes/valid.tsv --out captioner/

Each scene is a grey picture of 64 x 64 pixels with one to three photographs of Fashion-MNIST (28 x 28 pixels), of
different kinds, in different quarters, each moved by up to 4 pixels. Its caption walks from one to the next neighbour:
"a sandal", "a sandal left of a bag", "a coat above a sandal left of a bag". It begins with the article that comes first
in reading order; of three, with the one of both ends that does. With --both, a second caption walks the other way.

The folder has `train.tsv`, `valid.tsv` and `test.tsv` (`path<TAB>caption`), and `boxes.tsv`: path, the word that names
the article, and its box in pixels (left, top, right, bottom; right and bottom are beyond the last pixel). Training and
validation scenes use the 60,000 training photographs, the last 5,000 of them for validation only; test scenes use the
10,000 test photographs. The same seed gives the same scenes.

The photographs are licensed under the MIT licence (Zalando SE) and are not bundled.
"""

import argparse
import gzip
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from foveate.inspect.figure.pixel import photograph

PHOTOGRAPHS = Path("/usr/share/datasets/fashion-mnist")
KINDS = ("t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
"""The words for the ten classes, in the order of the labels."""
SIDE, QUARTER = 64, 32
HELD = 5_000
"""Training photographs that only validation uses."""
QUARTERS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Row and column, in reading order."""
BETWEEN = {(0, 1): "left of", (0, -1): "right of", (1, 0): "above", (-1, 0): "below"}
"""The words between an article and the next, by the step from one to the other."""


class Article(NamedTuple):
    """A photograph in a scene: the word for it, and its box."""

    word: str
    left: int
    top: int
    right: int
    bottom: int


class Scene(NamedTuple):
    """A picture with its captions, and the boxes of what they name."""

    pixels: np.ndarray
    captions: tuple[str, ...]
    articles: tuple[Article, ...]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the pictures and tables")
    parser.add_argument("--photographs", type=Path, default=PHOTOGRAPHS, help=f"folder of IDX files ({PHOTOGRAPHS})")
    parser.add_argument("--train", type=int, default=20_000, help="training scenes (20,000)")
    parser.add_argument("--valid", type=int, default=500, help="validation scenes (500)")
    parser.add_argument("--test", type=int, default=1_000, help="test scenes (1,000)")
    parser.add_argument("--both", action="store_true", help="a second caption, from the last article to the first")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scenes (0)")
    arguments = parser.parse_args(argv)
    training, testing = (read(arguments.photographs, part) for part in ("train", "t10k"))
    held = len(training[0]) - min(HELD, len(training[0]) // 2)
    sources = {
        "train": tuple(part[:held] for part in training),
        "valid": tuple(part[held:] for part in training),
        "test": testing,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    with (arguments.out / "boxes.tsv").open("w", encoding="utf-8") as boxes:
        boxes.write("path\tword\tleft\ttop\tright\tbottom\n")
        for number, (part, source) in enumerate(sources.items()):
            count = getattr(arguments, part)
            (arguments.out / part).mkdir(exist_ok=True)
            with (arguments.out / f"{part}.tsv").open("w", encoding="utf-8") as table:
                for index, one in enumerate(scenes(*source, count, seed=(arguments.seed, number), both=arguments.both)):
                    path = f"{part}/{index:05}.png"
                    (arguments.out / path).write_bytes(photograph(np.repeat(one.pixels[..., None], 3, axis=2)))
                    table.writelines(f"{path}\t{caption}\n" for caption in one.captions)
                    boxes.writelines("\t".join(map(str, (path, *article))) + "\n" for article in one.articles)
            print(f"{part}: {count:,} scenes")
    return 0


def read(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """The photographs of a part, and their labels."""
    contents = []
    for what in ("images-idx3", "labels-idx1"):
        path = folder / f"{part}-{what}-ubyte.gz"
        if not path.exists():
            raise SystemExit(f"There is no {path}. Install its package: apt install dataset-fashion-mnist")
        data = gzip.decompress(path.read_bytes())
        axes = data[3]
        sizes = struct.unpack(f">{axes}I", data[4 : 4 + 4 * axes])
        contents.append(np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(sizes))
    return contents[0], contents[1]


def scenes(
    photographs: np.ndarray, labels: np.ndarray, count: int, *, seed: tuple[int, ...], both: bool = False
) -> Iterator[Scene]:
    """So many scenes, each a function of the seed and its number."""
    by_kind = [np.flatnonzero(labels == kind) for kind in range(len(KINDS))]
    for number in range(count):
        draw = np.random.default_rng((*seed, number))
        places = walk(draw)
        kinds = draw.choice(len(KINDS), size=len(places), replace=False)
        pixels = np.zeros((SIDE, SIDE), np.uint8)
        articles = []
        for kind, (row, column) in zip(kinds, places, strict=True):
            photo = photographs[draw.choice(by_kind[kind])]
            height, width = photo.shape
            top, left = (
                QUARTER * at + int(draw.integers(QUARTER - size + 1)) for at, size in ((row, height), (column, width))
            )
            pixels[top : top + height, left : left + width] = photo
            articles.append(Article(KINDS[kind], left, top, left + width, top + height))
        words = [one.word for one in articles]
        captions = [caption(words, places)]
        if both and len(words) > 1:
            captions.append(caption(words[::-1], places[::-1]))
        yield Scene(pixels, tuple(captions), tuple(articles))


def walk(draw: np.random.Generator) -> list[tuple[int, int]]:
    """One to three quarters, each a neighbour of the one before, from the end that comes first in reading order."""
    count = int(draw.integers(1, 4))
    free = sorted(tuple(QUARTERS[index]) for index in draw.choice(4, size=count, replace=False))
    if count == 2 and abs(free[0][0] - free[1][0]) + abs(free[0][1] - free[1][1]) > 1:
        free[1] = (free[0][0], 1 - free[0][1])  # two on a diagonal become neighbours in a row
        free.sort()
    if count < 3:
        return free
    corner = next(one for one in free if all(one[0] == other[0] or one[1] == other[1] for other in free))
    first, last = (one for one in free if one != corner)
    return [first, corner, last]


def caption(words: Sequence[str], places: Sequence[tuple[int, int]]) -> str:
    """The caption of articles in the order of a walk.

    >>> caption(["coat", "trousers"], [(0, 0), (1, 0)])
    'a coat above trousers'
    """
    parts = [named(words[0])]
    for word, here, there in zip(words[1:], places, places[1:], strict=False):
        parts += [BETWEEN[there[0] - here[0], there[1] - here[1]], named(word)]
    return " ".join(parts)


def named(word: str) -> str:
    return word if word == "trousers" else f"a {word}"


if __name__ == "__main__":
    raise SystemExit(main())
