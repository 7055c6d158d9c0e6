"""Translates between six versions of verses in five languages, in any direction, with pictures of alignments.

    python examples/verses/run.py --source persian --target english
    python examples/verses/run.py --source russian --target english

The data are 5,706 short verses in the public domain, each in six versions: english (World English Bible),
basic (Basic English, 1949), french, german, russian and persian. They are split by book, not by verse: verses of a book
quote one another, so that after a split by verse the test data would contain training data. The program writes
train.tsv, valid.tsv and test.tsv, trains with `run.toml`, scores the unseen books and draws alignments of some of their
verses as SVG.

From so little text a model learns frequent words and the order of sentences only: about 10 BLEU from Persian after a
quarter of an hour. The alignment is more interesting, as it maps right-to-left Persian to English.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from foveate import Translator
from foveate.cli import main as foveate
from foveate.data.text import Pair, read_lines, read_pairs
from foveate.inspect import terminal, write

HERE = Path(__file__).parent
VERSES = HERE.parent / "data" / "verses.tsv.xz"
COLUMNS = {"basic": 1, "english": 2, "french": 3, "german": 4, "russian": 5, "persian": 6}
VALID_BOOKS = {3, 44}  # Leviticus, Acts
TEST_BOOKS = {8, 27, 43, 45}  # Ruth, Daniel, John (the gospel with the fewest parallels), Romans
SMALL = ["train.steps=2", "model.hidden_dim=16", "model.embedding_dim=16", "model.maxout_dim=16"]
SMALL += [f"{side}_tokeniser.vocab_size=400" for side in ("source", "target")]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=COLUMNS, default="persian", help="language to translate from (persian)")
    parser.add_argument("--target", choices=COLUMNS, default="english", help="language to translate to (english)")
    parser.add_argument("--out", type=Path, help="folder for data, run and pictures (demo/SOURCE-TARGET)")
    parser.add_argument("--pictures", type=int, default=4, metavar="N", help="alignments to draw (4)")
    parser.add_argument("--small", action="store_true", help="a few verses and steps, to test the code")
    arguments = parser.parse_args(argv)
    out = arguments.out or Path("demo") / f"{arguments.source}-{arguments.target}"
    data, run = out / "data", out / ("run-small" if arguments.small else "run")
    split(data, arguments.source, arguments.target, most=200 if arguments.small else None)
    if not (run / "model.json").exists():
        code = train(data, run, SMALL if arguments.small else [])
        if code:
            return code
    code = foveate(["evaluate", str(run), "--source", str(data / "test.tsv"), "--report", str(out / "report.html")])
    draw(run, list(read_pairs(data / "test.tsv")), out, arguments.pictures)
    return code


def split(folder: Path, source: str, target: str, *, most: int | None) -> None:
    """Write train.tsv, valid.tsv and test.tsv of one direction, of different books."""
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for line in read_lines(VERSES):
        key, *_ = cells = line.split("\t")
        book = int(key.split(".")[0])
        part = "valid" if book in VALID_BOOKS else "test" if book in TEST_BOOKS else "train"
        parts[part].append(f"{cells[COLUMNS[source]]}\t{cells[COLUMNS[target]]}\n")
    folder.mkdir(parents=True, exist_ok=True)
    for part, lines in parts.items():
        (folder / f"{part}.tsv").write_text("".join(lines[:most]), encoding="utf-8")
        print(f"{part}: {len(lines[:most]):,} verses")


def train(data: Path, run: Path, settings: Sequence[str]) -> int:
    """Train, or continue an interrupted training."""
    if (run / "checkpoints").exists():
        return foveate(["resume", str(run)])
    files = ["--source", str(data / "train.tsv"), "--valid-source", str(data / "valid.tsv"), "--out", str(run)]
    settings = [f"--set={setting}" for setting in settings]
    return foveate(["train", "translate", str(HERE / "run.toml"), *files, *settings])


def draw(run: Path, test: Sequence[Pair], out: Path, count: int) -> None:
    """Draw the word alignments of some unseen verses with their human translations; print the first one."""
    translator = Translator.load(run)
    chosen = [pair for pair in test if 6 <= len(pair.target.split()) <= 10][:count]
    forced = [translator.forced(pair.source, pair.target) for pair in chosen]
    for number, alignment in enumerate(translator.align(forced), start=1):
        words = alignment.without_specials().words()
        if number == 1:
            print(terminal(words, width=100))
        print(f"picture: {write(words, out / f'alignment-{number}.svg')}")


if __name__ == "__main__":
    raise SystemExit(main())
