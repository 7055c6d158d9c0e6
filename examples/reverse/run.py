"""Learns to reverse, copy or sort words, the smallest task with a known alignment.

    python examples/reverse/run.py
    python examples/reverse/run.py --rule sort

The model learns from pairs such as `hello` and `olleh`, and its attention finds the anti-diagonal by itself. This
example uses the Python interface: a task, `fit`, a `Translator`.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from foveate import BahdanauConfig, TrainConfig, TranslateConfig, TranslateTask, Translator, fit
from foveate.data.synthetic import synthetic
from foveate.decode import GreedyConfig
from foveate.inspect import terminal
from foveate.tasks.translate.task import DataConfig
from foveate.train import Cosine, watch

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def main(argv: Sequence[str] | None = None) -> float:
    """Train on a rule, print results, and return the share of correct words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", choices=["copy", "reverse", "sort"], default="reverse")
    parser.add_argument("--words", default="foveate,bahdanau", help="words to show, separated by commas")
    parser.add_argument("--small", action="store_true", help="a few steps, to test the code")
    arguments = parser.parse_args(argv)

    with tempfile.TemporaryDirectory() as folder:
        translator = train(arguments.rule, Path(folder), steps=5 if arguments.small else 600)

    test = list(synthetic(arguments.rule, 200, seed=3, symbols=ALPHABET, shortest=4))
    found = translator.translate([pair.source for pair in test])
    right = sum(pair.target == translation.text for pair, translation in zip(test, found, strict=True)) / len(test)
    print(f"{arguments.rule}: {right:.1%} of {len(test)} unseen words are right.")

    shown = translator.translate(arguments.words.split(","))
    for translation, alignment in zip(shown, translator.align(shown), strict=True):
        print(f"\n{translation.source} → {translation.text}\n{terminal(alignment)}")
        print(f"links (source-target): {alignment.without_specials().pharaoh()}")
    return right


def train(rule: str, folder: Path, *, steps: int) -> Translator:
    """Train a small Bahdanau model on the rule with 8,000 random words."""
    config = TranslateConfig(
        data=DataConfig(
            source=write(rule, folder / "train.tsv", 8000, seed=1),
            valid_source=write(rule, folder / "valid.tsv", 200, seed=2),
            max_tokens=1024,
        ),
        model=BahdanauConfig(embedding_dim=32, hidden_dim=64, maxout_dim=64, dropout=0.0),
        label_smoothing=0.0,
        decode=GreedyConfig(),
    )
    training = TrainConfig(
        steps=steps, learning_rate=1e-2, schedule=Cosine(warmup=50), validate_every=200, save_every=200
    )
    task, report = TranslateTask.prepare(config, folder)
    print(f"training data: {report['train']}")
    fit(task, training, folder, progress=watch())
    return Translator(task.model, task.source_tokeniser, task.target_tokeniser, config.decode)


def write(rule: str, path: Path, count: int, *, seed: int) -> str:
    """Write random pairs to a file, in the format of users' data."""
    pairs = synthetic(rule, count, seed=seed, symbols=ALPHABET)
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    return str(path)


if __name__ == "__main__":
    main()
