"""Classifies long English documents by the language of one verse in a foreign language.

    python examples/documents/run.py
    python examples/documents/run.py --model ran --model bigru_start

Documents consist of the verses of `examples/verses`: two English versions in any order, and one verse in French,
German, Russian or Persian at a random place. Models that read only the first 128 words see this verse in short
documents; in long ones it is mostly later, so that they can only guess. The recurrent attention network reads the whole
document, window by window, at a cost that is linear in the length. Test documents are of other books, and up to four
times as long as those for training.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foveate.cli import main as foveate
from foveate.data.labelled import LabelledText, read_labelled
from foveate.data.text import read_lines
from foveate.metrics import accuracy
from foveate.tasks.classify.use import TextClassifier

VERSES = Path(__file__).parent.parent / "data" / "verses.tsv.xz"
ENGLISH, LANGUAGES = (1, 2), {3: "French", 4: "German", 5: "Russian", 6: "Persian"}
"""The columns of the file."""
TEST_BOOKS = {8, 27, 43, 45, 3, 44}  # the test and validation books of examples/verses
START = 128
"""The number of words that a model without windows reads."""
TRAINED, TESTED = (64, 128, 256, 512), (128, 256, 512, 1024, 2048)
"""The numbers of words in documents."""


@dataclass(frozen=True)
class Reader:
    """An encoder, with whether it reads whole documents."""

    encoder: tuple[str, ...]
    whole: bool


SMALL_BLOCK = ("block.model_dim=64", "block.num_heads=2", "block.feedforward_dim=128", "num_layers=1")
GRU, RAN = ("hidden_dim=32",), ("model_dim=64", "num_heads=2", "head_dim=32", "window=64", "num_layers=1")
READERS = {
    "transformer_start": Reader(("=transformer", *(f".{setting}" for setting in SMALL_BLOCK)), whole=False),
    "bigru_start": Reader(("=rnn", *(f".{setting}" for setting in GRU)), whole=False),
    "bigru": Reader(("=rnn", *(f".{setting}" for setting in GRU)), whole=True),
    "ran": Reader(("=ran", *(f".{setting}" for setting in RAN)), whole=True),
}
SETTINGS = (
    *("tokeniser=word", "tokeniser.lowercase=true", "tokeniser.vocab_size=8000", "model.embedding_dim=64"),
    *("data.max_length=700", "data.max_tokens=2100", "train.steps=400", "train.learning_rate=3e-3"),
    *("train.schedule=cosine", "train.schedule.warmup=40", "train.validate_every=100", "train.save_every=100"),
)
TINY = ("train.steps=2",)


def main(argv: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Accuracy in per cent of each model, by length of the documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=READERS, action="append", help="train only this model; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("demo/documents"), help="folder for data and runs")
    parser.add_argument("--seed", type=int, default=0, help="seed of initial weights and of the order of batches")
    parser.add_argument("--small", action="store_true", help="few documents and steps, to test the code")
    arguments = parser.parse_args(argv)
    documents(arguments.out / "data", count=24 if arguments.small else 1200, tested=8 if arguments.small else 200)
    results = {}
    print(f"{'words':20}" + "".join(f"{length:>8}" for length in TESTED))
    for name in arguments.model or READERS:
        run = arguments.out / f"{name}-{arguments.seed}{'-small' * arguments.small}"
        settings = [*SETTINGS, f"seed={arguments.seed}", *(TINY if arguments.small else ())]
        options = [*(f"--set={setting}" for setting in settings), *(["--no-tune"] if arguments.small else [])]
        classifier = trained(READERS[name], arguments.out / "data", run, options)
        results[name] = [right(classifier, READERS[name], arguments.out / "data", length) for length in TESTED]
        print(f"{name:20}" + "".join(f"{share:8.1f}" for share in results[name]))
    return results


def trained(reader: Reader, data: Path, run: Path, options: Sequence[str]) -> TextClassifier:
    """A classifier in its own run folder; a finished one is loaded."""
    if not (run / "model.json").exists():
        encoder = (f"--set=model.encoder{setting}" for setting in reader.encoder)
        file = data / ("train.tsv" if reader.whole else "train-start.tsv")
        code = foveate(["train", "classify", "--data", str(file), "--out", str(run), "--quiet", *encoder, *options])
        if code:
            raise SystemExit(code)
    return TextClassifier.load(run)


def right(classifier: TextClassifier, reader: Reader, data: Path, length: int) -> float:
    """The percentage of correctly classified documents of one length."""
    test = list(read_labelled(data / f"test-{length}.tsv"))
    said = [one.label for one in classifier.classify([one.text if reader.whole else start(one.text) for one in test])]
    return accuracy(said, [one.label for one in test]).value


def documents(folder: Path, *, count: int, tested: int) -> None:
    """Write train.tsv, the same with beginnings only, and a test file for each length."""
    folder.mkdir(parents=True, exist_ok=True)
    verses = {part: [v for v in read() if (int(v[0].split(".")[0]) in TEST_BOOKS) == part] for part in (False, True)}
    train = list(written(verses[False], TRAINED, count, seed=0))
    save(folder / "train.tsv", train)
    save(folder / "train-start.tsv", [one._replace(text=start(one.text)) for one in train])
    for length in TESTED:
        save(folder / f"test-{length}.tsv", list(written(verses[True], (length,), tested, seed=length)))


def read() -> Iterator[list[str]]:
    return (line.split("\t") for line in read_lines(VERSES))


def written(
    verses: Sequence[Sequence[str]], lengths: Sequence[int], count: int, *, seed: int
) -> Iterator[LabelledText]:
    """Documents of about these lengths, with alternating lengths and languages and the foreign verse at a random
    place.
    """
    generator = random.Random(seed)
    for number in range(count):
        length, column = lengths[number % len(lengths)], 3 + number // len(lengths) % len(LANGUAGES)
        parts, words = list[str](), 0
        while words < length - 16:
            parts.append(generator.choice(verses)[generator.choice(ENGLISH)])
            words += len(parts[-1].split())
        parts.insert(generator.randint(0, len(parts)), generator.choice(verses)[column])
        yield LabelledText(number + 1, " ".join(parts), LANGUAGES[column])


def start(text: str) -> str:
    """The beginning of a document, for models that do not read all of it."""
    return " ".join(text.split()[:START])


def save(path: Path, examples: Sequence[LabelledText]) -> None:
    path.write_text("".join(f"{one.text}\t{one.label}\n" for one in examples), encoding="utf-8")


if __name__ == "__main__":
    main()
