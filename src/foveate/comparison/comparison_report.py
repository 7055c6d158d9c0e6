"""A comparison as a table of text, and as a report: one HTML file with table, graphs and settings."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from foveate.comparison.error_bar import Point, Series, graph, ranges
from foveate.comparison.result import Estimate, Result
from foveate.inspect.chart import figure_text, title_of
from foveate.inspect.page import facts, isolated, page, sections, text, tiles
from foveate.storage.draft import write_file

FOOT = (
    "Written by Foveate. This file is complete and loads nothing from elsewhere. "
    "All numbers are in results.json, cells.csv, curves.csv and lengths.csv beside it."
)
MOST_CHANGES = 6
MARK = "*"
_WIDE = "grid-template-columns:repeat(auto-fill,minmax(min(100%,470px),1fr))"


def write_report(result: Result, folder: Path) -> None:
    """Write report.html, and its graphs as files of their own: figures/*.svg."""
    write_file(folder / "report.html", report(result).encode())
    (folder / "figures").mkdir(exist_ok=True)
    drawn = {f"quality {name}": picture for name, picture in quality(result).items()}
    for name, picture in {**drawn, **lengths(result), **curves(result)}.items():
        if picture:
            write_file(folder / "figures" / f"{'-'.join(name.lower().split())}.svg", picture.encode())


def report(result: Result) -> str:
    """The table, quality with error bars, quality by length, training curves, and the settings that differ or not."""
    title = ", ".join(result.variants) if len(result.variants) <= 4 else f"{len(result.variants)} variants"
    parts = [
        ("results", "Results", _table(result)),
        ("quality", "Every start", _figures(quality(result))),
        ("lengths", "By length", _figures(lengths(result))),
        ("curves", "Training", _figures(curves(result))),
        ("variants", "What differs", _changes(result)),
        ("same", "What is the same", _same(result)),
    ]
    minutes = sum(cell.seconds for cell in result.cells) / 60
    summary = [
        ("task", result.task.replace("_", " ")),
        ("variants", len(result.variants)),
        ("seeds", len(result.seeds)),
        ("budget of a cell", result.budget),
        ("minutes in all", f"{minutes:.1f}"),
    ]
    return page(title, "Foveate comparison", tiles(summary), sections(parts), FOOT)


def quality(result: Result) -> dict[str, str]:
    """For each metric a graph of all starts, their means and the 95 % intervals of the means, by its title."""
    graphs = {}
    for metric in result.metrics:
        lines = []
        for name in result.variants:
            estimate = result.score(name, metric)
            if estimate is not None:
                figures = [cell.scores[metric] for cell in result.of_variant(name)]
                lines.append((name, figures, estimate.mean, estimate.interval))
        better = "lower" if metric in result.lower else "higher"
        graphs[title_of(metric)] = ranges(lines, title=f"{title_of(metric)} ({better} is better)")
    return graphs


def lengths(result: Result) -> dict[str, str]:
    """The first metric by length, with a standard error to both sides; empty if there is only one length."""
    series = []
    for name in result.variants:
        estimates = sorted(result.by_length(name).items())
        points = (Point(float(longest), estimate.mean, *estimate.whisker) for longest, estimate in estimates)
        series.append(Series(name, tuple(points)))
    if max((len(one.points) for one in series), default=0) < 2:
        return {}
    metric = title_of(result.metrics[0])
    drawn = graph(series, x_title=f"{result.unit} of the input, up to", y_title=metric, at_points=True)
    return {f"{metric} by length": drawn}


def curves(result: Result) -> dict[str, str]:
    """Validation figures by step and by time: means over seeds, with a band of a standard error to both sides."""
    rows_of = {(cell.variant, cell.seed): result.curves(cell) for cell in result.cells}
    measured = {name for start in rows_of.values() for row in start for name, value in row.items() if _is_figure(value)}
    graphs = {}
    for metric in [name for name in ("loss", *result.metrics) if name in measured]:
        series = [Series(name, tuple(_curve(rows_of, name, metric, "step"))) for name in result.variants]
        by_time = [Series(name, tuple(_curve(rows_of, name, metric, "seconds"))) for name in result.variants]
        if max(len(one.points) for one in series) < 2:
            continue
        words = f"Validation {title_of(metric).lower()}"
        graphs[f"{words} by step"] = graph(series, x_title="step", y_title=words, band=True)
        if metric == "loss":
            graphs[f"{words} by time"] = graph(by_time, x_title="seconds of training", y_title=words, band=True)
    return {name: drawn for name, drawn in graphs.items() if drawn}


def _curve(rows_of: Mapping[tuple[str, int], list[dict[str, Any]]], name: str, metric: str, by: str) -> Iterator[Point]:
    """The mean over the seeds of a variant at each step, placed at the step or at the mean time it was reached."""
    at: dict[int, list[tuple[float, float]]] = {}
    starts = [start for (variant, _), start in rows_of.items() if variant == name]
    for row in (row for start in starts for row in start if _is_figure(row.get(metric))):
        at.setdefault(row["step"], []).append((row[metric], row[by]))
    for _, points in sorted(at.items()):
        if len(points) < len(starts):  # a mean of fewer starts would jump
            continue
        estimate = Estimate.of([value for value, _ in points])
        yield Point(statistics.fmean(place for _, place in points), estimate.mean, *estimate.whisker)


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _table(result: Result) -> str:
    head, *body = rows(result)
    first, *others = (text(title_of(name)) for name in head)
    cells = f'<th scope="col">{first}</th>' + "".join(f'<th scope="col" class="number">{name}</th>' for name in others)
    lines = "\n".join(
        f'<tr><th scope="row">{isolated(line[0])}</th>'
        + "".join(f'<td class="number">{text(cell)}</td>' for cell in line[1:])
        + "</tr>"
        for line in body
    )
    note = (
        '<p class="note">Means over seeds ± the standard error of the mean. The second column of figures is the '
        f"difference from {text(result.variants[0])}, paired by seed; * says that its 95 % interval (Student's t) "
        "leaves out 0. MiB is the most memory of tensors in a training step.</p>"
    )
    failed = "".join(f"<li>{isolated(cell)}: {text(why)}</li>" for cell, why in result.failures.items())
    table = f"<table>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"
    around = f'<div class="card scroll" role="region" aria-label="Results" tabindex="0">{table}</div>'
    return note + around + (f'<ul class="note">{failed}</ul>' if failed else "")


def _figures(drawn: Mapping[str, str]) -> str:
    figures = "\n".join(
        f'<figure class="card">\n<h3>{text(name)}</h3>\n{picture}\n</figure>'
        for name, picture in drawn.items()
        if picture
    )
    return f'<div class="charts" style="{_WIDE}">\n{figures}\n</div>' if figures else ""


def _changes(result: Result) -> str:
    return facts((name, _listed(result.changes.get(name, {}))) for name in result.variants)


def _listed(changes: Mapping[str, str]) -> list[str]:
    listing = [f"{path}: {change}" for path, change in changes.items()]
    more = [f"and {len(listing) - MOST_CHANGES} more"] if len(listing) > MOST_CHANGES else []
    return [*listing[:MOST_CHANGES], *more] or ["the base itself"]


def _same(result: Result) -> str:
    cells = result.cells
    threads = sorted({cell.threads for cell in cells})
    versions = sorted({cell.torch_version for cell in cells})
    spent = [cell.tokens for cell in cells]
    between = " to ".join(figure_text(float(count)) for count in sorted({min(spent), max(spent)}))
    same = {
        "budget": f"{result.budget} for each cell; tokens of the loss: {between}",
        "seeds": ", ".join(map(str, result.seeds)),
        "data": "; ".join(f"{name} {digest[:12]}…" for name, digest in result.data.items()),
        "machine": f"{', '.join(map(str, threads))} threads, torch {', '.join(versions)}",
        "dates": ", ".join(sorted({cell.finished for cell in cells})),
    }
    return facts((title_of(name), value) for name, value in same.items())


def table(result: Result) -> str:
    """A row for each variant, with scores, differences from the first variant, size, memory and time; then notes."""
    return "\n".join([*aligned(rows(result)), "", *_notes(result), *_lengths(result)])


def rows(result: Result) -> list[list[str]]:
    """The cells of the table as text, the head first."""
    first, metric = result.variants[0], result.metrics[0]
    head = ["variant", metric, f"− {first}", *result.metrics[1:], "weights", "MiB", "seconds", "CPU s"]
    return [head, *([name, *_row(result, name, metric)] for name in result.variants)]


def _row(result: Result, name: str, metric: str) -> Iterator[str]:
    yield _shown(result.score(name, metric))
    difference = result.difference(name, metric)
    yield f"{difference.shown(sign=True)}{MARK * difference.is_clear}" if difference else ""
    for other in result.metrics[1:]:
        yield _shown(result.score(name, other))
    cells = result.of_variant(name)
    yield f"{cells[0].parameters:,}" if cells else "–"
    yield _size(cells[0].memory_bytes / 2**20) if cells else "–"
    yield _whole(result.mean(name, "seconds"))
    yield _whole(result.mean(name, "cpu_seconds"))


def _notes(result: Result) -> Iterator[str]:
    counts = {len(result.of_variant(name)) for name in result.variants}
    seeds = f"{max(counts)} seeds" if max(counts) != 1 else "1 seed"
    yield f"{result.task}, {result.budget} for each cell, {seeds}."
    lower = [name for name in result.metrics if name in result.lower]
    yield "Lower is better: " + ", ".join(lower) + "." if lower else "Higher is better."
    if max(counts) > 1:
        yield "± is the standard error of the mean over seeds; differences are paired by seed."
    else:
        yield "One seed does not show how much results vary: give more seeds."
    differences = (result.difference(name, result.metrics[0]) for name in result.variants)
    if any(difference and difference.is_clear for difference in differences):
        yield f"{MARK} the 95 % interval of the difference (Student's t) leaves out 0."
    if len(counts) > 1:
        done = ", ".join(f"{name} {len(result.of_variant(name))}" for name in result.variants)
        yield f"Not all cells are finished: {done}."
    for cell, reason in result.failures.items():
        yield f"{cell} failed: {reason}"


def _lengths(result: Result) -> Iterator[str]:
    """Quality by the length of the input, where the task has it."""
    estimates = {name: result.by_length(name) for name in result.variants}
    ends = sorted({end for lengths in estimates.values() for end in lengths})
    if len(ends) < 2:
        return
    yield ""
    yield f"{result.metrics[0]} by {result.unit} of the input:"
    head = ["variant", *(f"≤ {end}" for end in ends)]
    body = [[name, *(_shown(estimates[name].get(end)) for end in ends)] for name in result.variants]
    yield from aligned([head, *body])


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns: the first to the left, the others to the right.

    >>> print(*aligned([["", "a"], ["row", "1.5"]]), sep="\\n")
             a
    row    1.5
    """
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "   ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        ).rstrip()
        for line in lines
    ]


def _shown(estimate: Estimate | None) -> str:
    return "–" if estimate is None else estimate.shown()


def _whole(estimate: Estimate | None) -> str:
    return "–" if estimate is None else _size(estimate.mean)


def _size(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 10 else f"{figure:.2g}"
