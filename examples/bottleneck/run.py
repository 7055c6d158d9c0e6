"""The bottleneck: one fixed vector forgets long words, and attention does not.

    python examples/bottleneck/run.py
    python examples/bottleneck/run.py --data demo/persian-english/data    # after examples/verses/run.py

Two recurrent models learn to reverse words of 1 to 40 letters. One encodes the whole word in a single vector; the other
has fewer weights and Bahdanau's attention. Both can reverse short words; for longer words the first fails and the
second does not, as in figure 2 of Bahdanau et al. 2015. The curve is written to `accuracy.svg`.

With --data, both models translate the train.tsv, valid.tsv and test.tsv of that folder instead, and are compared by
chrF for each number of words. This takes half an hour instead of two minutes. Runs and curve are then in the folder
`sentences`. A finished training is used again.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from foveate import Translator
from foveate.cli import main as foveate
from foveate.data.synthetic import synthetic
from foveate.data.text import Pair, read_pairs
from foveate.metrics import corpus_chrf
from foveate.storage.run import read_run

Curve = dict[int, float]
HERE = Path(__file__).parent
COLOURS = {"fixed context": "#c2410c", "Bahdanau": "#2563eb"}
LETTERS = {
    "fixed context": ["model=fixed_context", "model.embedding_dim=32", "model.hidden_dim=128"],
    "Bahdanau": ["model=bahdanau", "model.embedding_dim=32", "model.hidden_dim=64", "model.maxout_dim=64"],
}
SENTENCES = {"fixed context": ["model=fixed_context", "model.hidden_dim=512"], "Bahdanau": ["model=bahdanau"]}


def main(argv: Sequence[str] | None = None) -> dict[str, Curve]:
    """Train both models; print and draw their quality by length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo/bottleneck"), help="folder for data, runs and curve")
    parser.add_argument("--data", type=Path, help="translate train.tsv, valid.tsv and test.tsv of this folder instead")
    parser.add_argument("--small", action="store_true", help="a few steps, to test the code")
    arguments = parser.parse_args(argv)
    sentences = arguments.data is not None
    out = arguments.out / "sentences" if sentences else arguments.out
    data = arguments.data or write(out / "data")
    recipe = HERE.parent / "verses" / "run.toml" if sentences else HERE / "run.toml"
    curves = {}
    for name, settings in (SENTENCES if sentences else LETTERS).items():
        run = out / (name.replace(" ", "-") + "-small" * arguments.small)
        if (run / "model.json").exists():
            require_same(data, run)
        else:
            train(recipe, data, run, [*settings, *(["train.steps=3"] if arguments.small else [])])
        translator = Translator.load(run)
        print(f"{name}: {translator.model.parameter_count():,} weights", flush=True)
        test = list(read_pairs(data / "test.tsv"))
        curves[name] = by_words(translator, test) if sentences else by_letters(translator, test)
    quality, unit = ("chrF", "words") if sentences else ("% of letters right", "letters")
    print(table(curves, unit), f"({quality})")
    picture = out / "accuracy.svg"
    picture.write_text(drawing(curves, f"{quality} by {unit} of the source"), encoding="utf-8")
    print(f"The curve is in {picture}.")
    return curves


def write(folder: Path) -> Path:
    """Write random words of eight different letters, with their reversal."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (part, count) in enumerate({"train": 8000, "valid": 200, "test": 800}.items()):
        pairs = synthetic("reverse", count, seed=seed, symbols="abcdefgh", longest=40)
        (folder / f"{part}.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
    return folder


def train(recipe: Path, data: Path, run: Path, settings: Sequence[str]) -> None:
    """Train one model. Both have the same batches in the same order, and the same settings."""
    files = [
        "--source",
        str(data / "train.tsv"),
        "--valid-source",
        str(data / "valid.tsv"),
        "--out",
        str(run),
        "--threads",
        "1",
    ]
    if foveate(["train", "translate", str(recipe), *files, *(f"--set={setting}" for setting in settings)]):
        sys.exit(f"Training stopped. Remove {run} to start again.")


def require_same(data: Path, run: Path) -> None:
    """Stop if a model was trained on another folder."""
    source = read_run(run).config["data"]["source"]
    if Path(source).resolve() != (data / "train.tsv").resolve():
        sys.exit(f"{run} was trained on {source}. Give another --out, or remove it.")


def by_letters(translator: Translator, test: Sequence[Pair]) -> Curve:
    """The percentage of correct letters, for words of up to 5, 10, 15 … letters."""

    def right(found: list[str], wanted: list[str]) -> float:
        same = sum(a == b for one, other in zip(found, wanted, strict=True) for a, b in zip(one, other, strict=False))
        return 100 * same / sum(map(len, wanted))

    return _by_length(translator, test, lambda pair: -(-len(pair.source) // 5) * 5, right)


def by_words(translator: Translator, test: Sequence[Pair]) -> Curve:
    """chrF for sentences of up to 4, 8, 12 … words."""

    def chrf(found: list[str], wanted: list[str]) -> float:
        return corpus_chrf(found, wanted).value

    return _by_length(translator, test, lambda pair: -(-len(pair.source.split()) // 4) * 4, chrf)


def _by_length(
    translator: Translator,
    test: Sequence[Pair],
    bucket: Callable[[Pair], int],
    score: Callable[[list[str], list[str]], float],
) -> Curve:
    groups: dict[int, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for pair, translation in zip(test, translator.translate([pair.source for pair in test]), strict=True):
        found, wanted = groups[bucket(pair)]
        found.append(translation.text)
        wanted.append(pair.target)
    return {length: score(*groups[length]) for length in sorted(groups)}


def table(curves: dict[str, Curve], unit: str) -> str:
    lengths = sorted(set().union(*curves.values()))
    rows = [
        f"up to {length:3} {unit}" + "".join(f"{curve[length]:16.1f}" for curve in curves.values())
        for length in lengths
    ]
    return "\n".join([" " * (10 + len(unit)) + "".join(f"{name:>16}" for name in curves), *rows])


def drawing(curves: dict[str, Curve], title: str) -> str:
    """An SVG with a line for each model; 0 to 100 upwards, the length to the right."""
    longest = max(max(curve) for curve in curves.values())
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 280" font-family="sans-serif" font-size="12">']
    parts.append(f'<rect width="480" height="280" fill="white"/><text x="40" y="20">{title}</text>')
    for percent in range(0, 101, 25):
        y = 240 - 2 * percent
        parts.append(
            f'<path d="M40 {y}H460" stroke="#ddd"/><text x="32" y="{y + 4}" text-anchor="end">{percent}</text>'
        )
    for length in next(iter(curves.values())):
        parts.append(f'<text x="{40 + 420 * length / longest:.0f}" y="258" text-anchor="middle">{length}</text>')
    for row, (name, curve) in enumerate(curves.items()):
        points = " ".join(f"{40 + 420 * length / longest:.0f},{240 - 2 * y:.0f}" for length, y in curve.items())
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="2.5"/>')
        parts.append(f'<text x="50" y="{200 + 16 * row}" fill="{COLOURS[name]}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    main()
