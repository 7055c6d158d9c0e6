"""Recognises five languages in short verses, from their characters.

    python examples/languages/run.py

The data are the verses of `examples/verses`: English (two versions), French, German, Russian and Persian, split by
book, not by verse. A small convolutional encoder reads characters, attention pools them, and the picture at the end
shows the characters with the largest weights. Whole verses are easy; the table shows the accuracy for their first
characters. For this purpose, the training data also contain a short piece of every verse.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from foveate.cli import main as foveate
from foveate.data.labelled import LabelledText, read_labelled
from foveate.data.text import read_lines
from foveate.inspect import terminal
from foveate.metrics import accuracy
from foveate.tasks.classify.use import TextClassifier

VERSES = Path(__file__).parent.parent / "data" / "verses.tsv.xz"
COLUMNS = {1: "English", 2: "English", 3: "French", 4: "German", 5: "Russian", 6: "Persian"}
VALID_BOOKS = {3, 44}  # Leviticus, Acts
TEST_BOOKS = {8, 27, 43, 45}  # Ruth, Daniel, John, Romans: as in examples/verses
SETTINGS = (
    *(
        "tokeniser=character",
        "model.encoder=cnn",
        "model.encoder.hidden_dim=64",
        "model.encoder.width=5",
        "model.embedding_dim=32",
    ),
    *("data.max_length=400", "data.max_tokens=2048", "train.steps=1500", "train.schedule=cosine"),
    *("train.schedule.warmup=50", "train.learning_rate=5e-3", "train.validate_every=500", "train.save_every=500"),
)
SMALL = ("train.steps=2", "model.encoder.hidden_dim=8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo/languages"), help="folder for data and run")
    parser.add_argument("--small", action="store_true", help="a few verses and steps, to test the code")
    arguments = parser.parse_args(argv)
    data, run = arguments.out / "data", arguments.out / ("run-small" if arguments.small else "run")
    split(data, most=100 if arguments.small else None)
    if not (run / "model.json").exists():
        settings = [f"--set={setting}" for setting in (*SETTINGS, *(SMALL if arguments.small else ()))]
        files = ["--data", str(data / "train.tsv"), "--valid-data", str(data / "valid.tsv"), "--out", str(run)]
        code = foveate(["train", "classify", *files, *settings])
        if code:
            return code
    code = foveate(["evaluate", str(run), "--data", str(data / "test.tsv"), "--per-class"])
    by_length(TextClassifier.load(run), list(read_labelled(data / "test.tsv")))
    return code


def split(folder: Path, *, most: int | None) -> None:
    """Write train.tsv, valid.tsv and test.tsv of different books: all versions of each verse with their languages."""
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for number, verse in enumerate(read_lines(VERSES)):
        cells = verse.split("\t")
        book = int(cells[0].split(".")[0])
        part = "valid" if book in VALID_BOOKS else "test" if book in TEST_BOOKS else "train"
        parts[part] += [f"{cells[column]}\t{language}\n" for column, language in COLUMNS.items()]
        if part == "train":
            parts[part] += [f"{piece(cells[column], number)}\t{name}\n" for column, name in COLUMNS.items()]
    folder.mkdir(parents=True, exist_ok=True)
    for part, lines in parts.items():
        (folder / f"{part}.tsv").write_text("".join(lines[:most]), encoding="utf-8")
        print(f"{part}: {len(lines[:most]):,} texts")


def piece(verse: str, number: int) -> str:
    """Three to forty characters from a reproducible place in a verse."""
    length = 3 + number * 7 % 38
    begin = number * 31 % max(len(verse) - length, 1)
    return verse[begin : begin + length].strip() or verse


def by_length(classifier: TextClassifier, test: Sequence[LabelledText]) -> None:
    """Print the accuracy by number of first characters of unseen verses, and the attention in one verse."""
    print("characters shown   accuracy, %")
    for shown in (3, 5, 10, 20, 40):
        said = [one.label for one in classifier.classify([example.text[:shown] for example in test])]
        print(f"{shown:16}   {accuracy(said, [example.label for example in test]).value:.2f}")
    if classifier.attends:
        print(terminal(classifier.align(test[3].text[:20]), width=100))


if __name__ == "__main__":
    raise SystemExit(main())
