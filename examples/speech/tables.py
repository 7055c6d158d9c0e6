"""Fills the tables of docs/speech.md with the figures of results.json, which the other scripts of this folder measure.

    python examples/speech/tables.py            # rewrites the page
    python examples/speech/tables.py --check    # says whether the page has these figures

A figure is the mean over the seeds of a row with its standard deviation, or the single value of one seed; steps and
times are means. The sentences around the tables are written by hand.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "speech.md"
Cells = Mapping[str, Mapping[str, float]]
"""The figures of a row, by seed."""


def spread(values: Sequence[float]) -> str:
    """
    >>> spread([4.0, 5.0]), spread([99.96]), spread([])
    ('4.5 ± 0.7', '100', '–')
    """
    if not values:
        return "–"
    deviation = f"{statistics.stdev(values):.1f}" if len(values) > 1 else "0.0"
    beside = "" if deviation == "0.0" else f" ± {deviation}"
    return f"{statistics.mean(values):.1f}".replace("100.0", "100") + beside


def count(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):,.0f}" if values else "–"


def seconds(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.1f} s" if values else "–"


@dataclass(frozen=True)
class Column:
    """A column of the page: the name of its figure in results.json, and how it is written."""

    name: str
    form: Callable[[Sequence[float]], str] = spread

    def cell(self, cells: Cells) -> str:
        if self.name == "seeds":  # a row without steps has not learnt anything
            return f"{len(cells)}" if any("steps" in figures for figures in cells.values()) else "–"
        return self.form([figures[self.name] for figures in cells.values() if self.name in figures])


STEPS, TIME, SEEDS = Column("steps", count), Column("CPU seconds", count), Column("seeds")


@dataclass(frozen=True)
class Table:
    """A table of the page: the beginning of its heading, the table of results.json, and its columns and rows."""

    heading: str
    key: str
    columns: Sequence[Column]
    rows: Mapping[str, str]
    """The names of the rows in results.json, by those on the page."""

    def lines(self, results: Mapping[str, Mapping[str, Cells]]) -> Iterator[str]:
        for title, row in self.rows.items():
            cells = results[self.key][row]
            yield f"| {' | '.join([title, *(column.cell(cells) for column in self.columns)])} |"


@dataclass(frozen=True)
class Turned(Table):
    """A table whose columns are places, and whose rows are figures: the figure "WER" at "en" is named "WER en"."""

    def lines(self, results: Mapping[str, Mapping[str, Cells]]) -> Iterator[str]:
        (cells,) = results[self.key].values()
        for title, name in self.rows.items():
            written = (Column(f"{name} {column.name}").cell(cells) for column in self.columns)
            yield f"| {' | '.join([title, *written])} |"


PLACES = (*(f"numbers/test-{language}" for language in ("en", "es", "fr", "it", "ru")), "digits/test")
SOURCES = ("prompts", "captions", "prompts and captions", "captions and voices", "prompts and voices")
DIGITS = "digits, 120 s, reader.augmentation=none"
TABLES = (
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


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; the exit status is 1 for other figures")
    parser.add_argument("--page", type=Path, default=PAGE, help="(docs/speech.md)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="(results.json)")
    arguments = parser.parse_args(argv)
    page = arguments.page.read_text(encoding="utf-8")
    filled = fill(page, json.loads(arguments.results.read_text(encoding="utf-8")))
    if arguments.check:
        print("The page has the figures of the results." if page == filled else "The page has other figures.")
        return int(page != filled)
    arguments.page.write_text(filled, encoding="utf-8")
    return 0


def fill(page: str, results: Mapping[str, Any]) -> str:
    """A page whose tables have the figures of the results. Stops with a message if it lacks a table."""
    lines = page.split("\n")
    for table in TABLES:
        begin = next((number for number, line in enumerate(lines) if line.startswith(table.heading)), None)
        if begin is None:
            raise SystemExit(f"The page has no table that begins with {table.heading!r}.")
        first = begin + 2
        last = next(number for number in range(first, len(lines)) if not lines[number].startswith("|"))
        lines[first:last] = table.lines(results)
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
