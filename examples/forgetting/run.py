"""Forgetting: measures how far back recurrent networks learn.

    python examples/forgetting/run.py

Three language models of equal width read English verses letter by letter: a vanilla RNN, a GRU and an LSTM. For each,
before and after training, the gradient of the last letter's loss with respect to the state 0, 1, 2 … letters before is
measured. At every step back the chain rule multiplies by another Jacobian: all untrained networks forget within about
ten letters. Training teaches networks with gates to keep their state, and the vanilla RNN much less. The curves are
written to `gradients.svg`, on a logarithmic scale.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from foveate.cli import main as foveate
from foveate.data.batch import Batch
from foveate.data.store import TokenStore
from foveate.data.text import read_lines
from foveate.models.recurrent_language_model import (
    RecurrentLanguageModel,
    RecurrentLanguageModelConfig,
    gradient_by_distance,
)
from foveate.nn.recurrent_layer import Cell
from foveate.tasks.language_model.use import Generator

Curve = list[float]
VERSES = Path(__file__).parents[1] / "data" / "verses.tsv.xz"
ENGLISH = 2
"""The column of the World English Bible."""
SIZES: dict[str, Any] = {"embedding_dim": 32, "hidden_dim": 128, "dropout": 0.0}
COLOURS: dict[Cell, str] = {"rnn": "#c2410c", "gru": "#15803d", "lstm": "#2563eb"}
DISTANCE, TEXTS = 60, 64
LOWEST = 1e-8
"""Smaller gradients are drawn at the bottom."""


def main(argv: Sequence[str] | None = None) -> dict[str, Curve]:
    """Train the three models; print and draw their gradients by distance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo/forgetting"), help="folder for text, runs and picture")
    parser.add_argument("--small", action="store_true", help="a few steps, to test the code")
    arguments = parser.parse_args(argv)
    text = write(arguments.out / "verses.txt")
    curves: dict[str, Curve] = {}
    for cell in COLOURS:
        run = arguments.out / (cell + "-small" * arguments.small)
        if not (run / "model.json").exists():
            train(text, run, cell, steps=3 if arguments.small else 600)
        trained = Generator.load(run)
        held_out = TokenStore.open(run / "data" / "valid").tokens.astype("i8")
        text_rows = Batch.of([held_out[first : first + DISTANCE + 2] for first in range(0, 40 * TEXTS, 40)])
        assert isinstance(trained.model, RecurrentLanguageModel)
        torch.manual_seed(0)
        fresh = RecurrentLanguageModelConfig(**SIZES, cell=cell).build(trained.tokeniser.vocab_size)
        for name, model in ((f"{cell}, fresh", fresh), (f"{cell}, trained", trained.model)):
            curves[name] = gradient_by_distance(model.eval(), text_rows).tolist()
    print(table(curves))
    picture = arguments.out / "gradients.svg"
    picture.write_text(drawing(curves), encoding="utf-8")
    print(f"The curves are in {picture}.")
    return curves


def write(path: Path) -> Path:
    """Write the English column of the verses, one verse per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = (line.split("\t") for line in read_lines(VERSES))
    path.write_text("".join(f"{row[ENGLISH]}\n" for row in rows), encoding="utf-8")
    return path


def train(text: Path, run: Path, cell: Cell, steps: int) -> None:
    """Train one model. All models have the same batches in the same order."""
    settings = [
        "model=recurrent",
        f"model.cell={cell}",
        *(f"model.{name}={value}" for name, value in SIZES.items()),
        *("data.block_length=64", "data.max_tokens=2048", "data.held_out=200", "train.learning_rate=0.003"),
        *(
            "train.schedule=constant",
            f"train.steps={steps}",
            f"train.validate_every={steps}",
            f"train.save_every={steps}",
        ),
    ]
    words = ["--text", str(text), "--out", str(run), "--threads", "1", *(f"--set={setting}" for setting in settings)]
    if foveate(["train", "language_model", *words]):
        sys.exit(f"Training stopped. Remove {run} to start again.")


def table(curves: dict[str, Curve]) -> str:
    """The norm at some distances, relative to that at the last letter."""
    rows = [
        f"{distance:3} letters before" + "".join(f"{curve[distance] / curve[0]:16.1e}" for curve in curves.values())
        for distance in (1, 2, 5, 10, 20, 40, DISTANCE)
    ]
    return "\n".join([" " * 18 + "".join(f"{name:>16}" for name in curves), *rows])


def drawing(curves: dict[str, Curve]) -> str:
    """An SVG with a line for each model, broken before training; powers of ten upwards, letters back to the right."""
    top, bottom = 0, round(math.log10(LOWEST))
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 300" font-family="sans-serif" font-size="12">']
    title = "gradient of the last loss by letters back"
    parts.append(f'<rect width="480" height="300" fill="white"/><text x="40" y="18">{title}</text>')
    for power in range(bottom, top + 1):
        y = 30 + 230 * (top - power) / (top - bottom)
        parts.append(f'<path d="M48 {y:.0f}H460" stroke="#ddd"/>')
        parts.append(f'<text x="42" y="{y + 4:.0f}" text-anchor="end">1e{power}</text>')
    for distance in range(0, DISTANCE + 1, 10):
        parts.append(f'<text x="{48 + 412 * distance / DISTANCE:.0f}" y="278" text-anchor="middle">{distance}</text>')
    for row, (name, curve) in enumerate(curves.items()):
        colour, dashes = (
            next(each for cell, each in COLOURS.items() if name.startswith(f"{cell},")),
            ' stroke-dasharray="4 4"' if "fresh" in name else "",
        )
        shares = [math.log10(max(norm / curve[0], LOWEST)) for norm in curve]
        points = " ".join(
            f"{48 + 412 * distance / DISTANCE:.1f},{30 - 230 * min(share, 0.0) / (top - bottom):.1f}"
            for distance, share in enumerate(shares)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(f'<text x="56" y="{172 + 15 * row}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    main()
