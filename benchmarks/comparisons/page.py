"""The results of comparisons as Markdown, and their figures, for docs/comparisons.md.

    python benchmarks/comparisons/page.py demo/length demo/score demo/head demo/position

Prints, for each folder of `foveate compare`, its tables; copies the figures to docs/comparisons.
"""

import argparse
import csv
import json
import shutil
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from foveate.comparison import Estimate

FIGURES = Path(__file__).parents[2] / "docs" / "comparisons"
KEPT = ("quality-{first}.svg", "{first}-by-length.svg", "validation-loss-by-step.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders of comparisons")
    for folder in parser.parse_args().folders:
        result = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        print(
            f"## {folder.name}\n",
            *summary(result),
            "",
            *lengths(folder, result),
            "",
            *figures(folder, result),
            sep="\n",
        )


def summary(result: Mapping[str, Any]) -> Iterator[str]:
    """A row for each variant: scores, the difference from the first, weights, memory and time."""
    variants, metrics = result["variants"], list(result["metrics"])
    first = next(iter(variants))
    titles = [named(metric) for metric in metrics]
    yield row("", titles[0], f"− {first}", *titles[1:], "weights", "MiB", "CPU s")
    yield row("---", *["---:"] * (len(metrics) + 4))
    for name, found in variants.items():
        cells = [cell for cell in result["cells"] if cell["variant"] == name]
        scores = [shown(found["scores"][metric]) for metric in metrics]
        away = found["difference_from_first"].get(metrics[0])
        clear = away and away["interval_95"] and not away["interval_95"][0] <= 0 <= away["interval_95"][1]
        difference = f"{shown(away, sign=True)}{' *' if clear else ''}" if away else ""
        known = [cell["cpu_seconds"] for cell in cells if cell["cpu_seconds"] is not None]
        seconds = f"{statistics.mean(known):.1f}" if known else "–"
        size = f"{cells[0]['memory_bytes'] / 2**20:.1f}"
        yield row(name, scores[0], difference, *scores[1:], f"{cells[0]['parameters']:,}", size, seconds)


def lengths(folder: Path, result: Mapping[str, Any]) -> Iterator[str]:
    """The first metric by length, with how many examples there are."""
    with (folder / "lengths.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        return
    unit = next(name for name in rows[0] if name.startswith("up_to_"))
    ends = sorted({int(line[unit]) for line in rows})
    counts = {int(line[unit]): line["examples"] for line in rows}
    yield row(f"{named(next(iter(result['metrics'])))}, {unit.removeprefix('up_to_')} up to", *map(str, ends))
    yield row("---", *["---:"] * len(ends))
    for name, found in result["variants"].items():
        yield row(name, *(shown(found["by_length"].get(str(end))) for end in ends))
    yield row("examples", *(counts[end] for end in ends))


def figures(folder: Path, result: Mapping[str, Any]) -> Iterator[str]:
    """Copies the figures that say most, and names them."""
    FIGURES.mkdir(exist_ok=True)
    for pattern in KEPT:
        file = folder / "figures" / pattern.format(first=next(iter(result["metrics"])).replace("_", "-"))
        if file.exists():
            name = f"{folder.name}-{file.name}"
            shutil.copyfile(file, FIGURES / name)
            yield f"![{named(file.stem.replace('-', '_'))}](comparisons/{name})"


def shown(estimate: Mapping[str, Any] | None, *, sign: bool = False) -> str:
    if estimate is None:
        return "–"
    return Estimate(estimate["mean"], estimate["standard_error"], estimate["count"]).shown(sign=sign)


def named(metric: str) -> str:
    return metric.replace("_", " ")


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
