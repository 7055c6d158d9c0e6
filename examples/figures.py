"""The figures that scripts of these folders measure: kept in a JSON file by table, row and seed, and printed."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path


def keep(table: str, row: str, seed: int, figures: Mapping[str, float], *, path: Path) -> None:
    """Write the figures of a row with a seed, over earlier ones of the same row and seed."""
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    results.setdefault(table, {}).setdefault(row, {})[str(seed)] = {name: round(figures[name], 3) for name in figures}
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def show(table: str, *, path: Path) -> None:
    """Print a table of the results."""
    print(*lines(json.loads(path.read_text(encoding="utf-8"))[table]), sep="\n")


def lines(rows: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    """A table in Markdown: the mean of each figure over the seeds of a row, with the standard deviation.

    >>> print(*lines({"CTC": {"0": {"WER": 4.0}, "1": {"WER": 5.0}}, "LSTM": {"0": {"WER": 90.5}}}), sep="\\n")
    |  | WER | seeds |
    |---|---|---|
    | CTC | 4.5 ± 0.7 | 2 |
    | LSTM | 90.5 | 1 |
    """
    names = list(dict.fromkeys(name for cells in rows.values() for cell in cells.values() for name in cell))
    written = [f"|  | {' | '.join(names)} | seeds |", "|---" * (len(names) + 2) + "|"]
    for row, cells in rows.items():
        values = (_written([cell[name] for cell in cells.values() if name in cell]) for name in names)
        written.append(f"| {row} | {' | '.join(values)} | {len(cells)} |")
    return written


def _written(values: Sequence[float]) -> str:
    if not values:
        return "–"
    places = 0 if min(values) >= 100 else 1
    spread = f" ± {statistics.stdev(values):.{places}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{places}f}{spread}"
