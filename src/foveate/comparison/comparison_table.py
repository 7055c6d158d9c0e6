"""A comparison as a table of text."""

from collections.abc import Iterator, Sequence

from foveate.comparison.result import Result
from foveate.comparison.statistic import Estimate

MARK = "*"


def table(result: Result) -> str:
    """A row for each variant: scores, differences from the first variant, size, memory and time; and what they mean."""
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
        yield "One start says nothing of how much starts scatter: give more seeds."
    differences = (result.difference(name, result.metrics[0]) for name in result.variants)
    if any(difference and difference.is_clear for difference in differences):
        yield f"{MARK} the 95 % interval of the difference (Student's t) leaves out 0."
    if len(counts) > 1:
        done = ", ".join(f"{name} {len(result.of_variant(name))}" for name in result.variants)
        yield f"Not all cells are finished: {done}."
    for cell, reason in result.failures.items():
        yield f"{cell} came to nothing: {reason}"


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
    """Columns under each other: the first to the left, the others to the right.

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
