"""Trains a ViT and a CNN on 1,000, 10,000 and 59,000 pictures, both for the same time: what the amount of data does.

    apt install dataset-fashion-mnist
    python examples/pictures/amount.py fashion/ --seeds 0,1,2

A ViT knows nothing about pictures: that neighbours belong together, and that a sleeve is a sleeve wherever it lies, it
has to learn from examples, and a convolution has it built in. With few pictures the CNN should therefore win, and lose
its lead as they become more (Dosovitskiy et al. 2021, section 4.3). Both models train in one thread, for the same
seconds of the processor where they have the same pictures (AMOUNTS), and are tested on the 10,000 test pictures. The
last 1,000 of the 60,000 training pictures are for validation only; a smaller amount is the first of the others.

The folder has an `.npz` file for each amount, and valid.npz and test.npz, for `foveate train classify` too.

Fashion-MNIST is licensed under the MIT licence (Zalando SE), and is not bundled.
"""

import argparse
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from foveate.data.image import ImageReader
from foveate.tasks.classify.use import RowClassifier

FOLDER = Path(__file__).parent
sys.path.append(str(FOLDER.parent))
from figures import keep, show  # noqa: E402
from measure import Recipe  # noqa: E402

FASHION = Path("/usr/share/datasets/fashion-mnist")
MODELS = {"ViT": FOLDER / "vit.toml", "CNN": FOLDER / "cnn.toml"}
AMOUNTS = {1_000: 30.0, 10_000: 30.0, 59_000: 150.0}
"""Training pictures, and the processor's seconds of the steps on so many."""
TABLE = "amount of pictures"
RESULTS = FOLDER / "amount.json"
HELD = 1_000
"""Training pictures for validation."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for pictures and runs")
    parser.add_argument("--pictures", type=Path, default=FASHION, help=f"folder of the IDX files ({FASHION})")
    parser.add_argument("--only-data", action="store_true", help="write the pictures and train nothing")
    parser.add_argument("--amount", type=int, action="append", help="training pictures; may be repeated (all three)")
    parser.add_argument("--model", choices=MODELS, action="append", help="train only this; may be repeated")
    parser.add_argument("--seeds", default="0", help="random starts, such as 0,1,2 (0)")
    parser.add_argument("--seconds", type=float, help="the processor's seconds of the steps (30, or 150 for 59,000)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file that keeps the figures (amount.json)")
    arguments = parser.parse_args(argv)
    amounts = arguments.amount or list(AMOUNTS)
    write(arguments.pictures, arguments.out, amounts)
    if arguments.only_data:
        return 0
    for amount in amounts:
        seconds = arguments.seconds or AMOUNTS.get(amount, max(AMOUNTS.values()))
        data = {"data": arguments.out / f"{amount}.npz", "valid_data": arguments.out / "valid.npz"}
        for model in arguments.model or MODELS:
            recipe = Recipe(task="classify", configuration=MODELS[model], data=data)
            for seed in map(int, arguments.seeds.split(",")):
                run = arguments.out / f"{model}-{amount}-{seed}-{seconds:g}"
                store = arguments.out / f"store-{amount}"
                spent = recipe.train((), seed, run, store=store, seconds=seconds)
                right = accuracy(RowClassifier.load(run), arguments.out / "test.npz")
                keep(
                    TABLE,
                    f"{model}, {amount:,}, {seconds:g} s",
                    seed,
                    {"accuracy": right, **spent},
                    path=arguments.results,
                )
                show(TABLE, path=arguments.results)
    return 0


def write(source: Path, folder: Path, amounts: Sequence[int]) -> None:
    """Write the pictures of each amount, and those for validation and for the test."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures, labels = read(source, "train")
    rest = len(pictures) - min(HELD, len(pictures) // 4)
    for amount in amounts:
        if amount > rest:
            raise SystemExit(f"{source} has {rest:,} pictures beside those for validation: choose a smaller --amount.")
        save(folder / f"{amount}.npz", pictures[:amount], labels[:amount])
    save(folder / "valid.npz", pictures[rest:], labels[rest:])
    save(folder / "test.npz", *read(source, "t10k"))


def read(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (number, rows, columns) and labels of IDX files."""
    pictures, labels = (
        gzip.decompress((folder / f"{part}-{name}-ubyte.gz").read_bytes()) for name in ("images-idx3", "labels-idx1")
    )
    shape = np.frombuffer(pictures, ">u4", count=4)[1:]
    return np.frombuffer(pictures, np.uint8, offset=16).reshape(shape), np.frombuffer(labels, np.uint8, offset=8)


def save(path: Path, pictures: np.ndarray, labels: np.ndarray) -> None:
    """Write pictures with their labels, unless they are there."""
    if not path.exists():
        np.savez(path, x=pictures, y=labels)


def accuracy(classifier: RowClassifier, path: Path) -> float:
    """The share of pictures with the right label, in percent."""
    examples = list(ImageReader(colour=False).read(str(path)))
    answers = classifier.classify([one.thing for one in examples])
    return 100 * sum(answer.label == one.label for answer, one in zip(answers, examples, strict=True)) / len(examples)


if __name__ == "__main__":
    raise SystemExit(main())
