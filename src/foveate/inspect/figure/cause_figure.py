"""Draws the causes of an answer: a table of coloured cells for each output word, and its deletion curves."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from foveate.inspect.caption import fit, printable
from foveate.inspect.figure.element import FONTS, text_element
from foveate.inspect.figure.letter import width as text_width
from foveate.inspect.figure.svg_layout import CAPTION, GAP, LABEL, LONGEST, PAD, TITLE, Pixels

ROW, CELL = 22, 44
"""The height of a row, and the width of a column at least, in pixels."""
CHART = 190
"""The width of the chart of deletion curves."""
FIGURES = {"tau": "τ", "area": "deletion"}
INK, QUIET, FOR, AGAINST = "#1a1a1a", "#666666", "#1f5fa8", "#c25a00"
"""Colours of text, of notes, and of scores for and against the answer."""
LINES = ("#1f77b4", "#17becf", "#9467bd", "#2ca02c", "#d62728", "#1a1a1a")
"""Colours of the methods in the chart; random orders are grey and dashed."""


def cause_svg(reasons: Mapping[str, Any]) -> str:
    """The plain data of `Why` as an SVG document.

    A cell's colour is its score as a share of the largest in its row: blue for the answer, orange against it. Cells of
    words that the model cannot see are empty. The chart shows the drop of the log-probability as the words that a
    method ranks highest are removed.
    """
    methods = list(reasons["methods"])
    words = [fit(printable(word), LONGEST) for word in reasons["inputs"]]
    columns = [max(CELL, ceil(text_width(word) * LABEL) + 8) for word in words]
    label = ceil(max(text_width(method) for method in methods) * LABEL) + 2 * GAP
    right = PAD + label + sum(columns) + GAP
    high = TITLE + 2 * ROW + ROW * len(methods)
    charted = any(output["deletion"] and output["deletion"]["removed"] for output in reasons["outputs"])
    whole = right + len(FIGURES) * (CELL + 14) + (CHART + 2 * GAP if charted else 0) + PAD
    blocks: list[str] = []
    for number, output in enumerate(reasons["outputs"]):
        top = PAD + number * (high + 2 * PAD)
        blocks += _block(output, methods, (words, columns), (PAD, top, label, right))
        if output["deletion"] and output["deletion"]["removed"]:
            left = right + len(FIGURES) * (CELL + 14) + 2 * GAP
            blocks += _chart(output["deletion"], methods, (left, top + TITLE + ROW, CHART, ROW * len(methods)))
    tall = PAD + len(reasons["outputs"]) * (high + 2 * PAD)
    spoken = "; ".join(printable(output["word"]) for output in reasons["outputs"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{tall}" viewBox="0 0 {whole} {tall}" '
        f'font-family="{FONTS}" role="img"><title>What mattered for {_escaped(spoken)}</title>'
        f'<rect width="{whole}" height="{tall}" fill="#ffffff"/>{"".join(blocks)}</svg>\n'
    )


def _block(
    output: Mapping[str, Any],
    methods: Sequence[str],
    across: tuple[Sequence[str], Sequence[int]],
    place: tuple[int, int, int, int],
) -> Iterator[str]:
    """The title of a word, the words of the input above their columns, and a row for each method."""
    (words, columns), (left, top, label, right) = across, place
    title = f"{printable(output['word'])}   ln p = {output['log_probability']:.3f}"
    yield _text(left, top + TITLE, title, size=TITLE, bold=True)
    lefts = [left + label + sum(columns[:number]) for number in range(len(columns))]
    heading = top + TITLE + ROW - 6
    for word, x, wide in zip(words, lefts, columns, strict=True):
        yield _text(x + wide / 2, heading, word, "centre")
    for number, name in enumerate(FIGURES.values()):
        yield _text(right + (number + 1) * (CELL + 14), heading, name, "right", QUIET)
    for row, method in enumerate(methods):
        y, scores = top + TITLE + ROW * (row + 1), output["scores"][method]
        yield f'<rect x="{left}" y="{y + 6}" width="10" height="10" fill="{LINES[row % len(LINES)]}"/>'
        yield _text(left + 16, y + ROW - 7, method)
        largest = max((abs(score) for score in scores if score is not None), default=0.0) or 1.0
        for x, wide, score, possible in zip(lefts, columns, scores, output["possible"], strict=True):
            if possible and score is not None:
                yield _cell(x, y, wide, score / largest)
                ink, shown = "#ffffff" if abs(score) > 0.6 * largest else INK, f"{round(score, 2) + 0.0:.2f}"
                yield _text(x + wide / 2, y + ROW - 7, shown, "centre", ink)
        for number, name in enumerate(FIGURES):
            value = output["figures"][method][name]
            shown = "—" if value is None else f"{round(value, 2) + 0.0:.2f}"
            yield _text(right + (number + 1) * (CELL + 14), y + ROW - 7, shown, "right")


def _cell(x: int, y: int, wide: int, share: float) -> str:
    colour = FOR if share >= 0 else AGAINST
    return (
        f'<rect x="{x}" y="{y}" width="{wide - 1}" height="{ROW - 1}" fill="{colour}" fill-opacity="{abs(share):.3f}"/>'
    )


def _chart(curve: Mapping[str, Any], methods: Sequence[str], frame: tuple[int, int, int, int]) -> Iterator[str]:
    """The deletion curves, with the number of removed words to the right and the drop upwards."""
    left, top, wide, high = frame
    drops = [curve["random"], *(curve["drops"][method] for method in methods)]
    low, above = min(0.0, *map(min, drops)), max(map(max, drops))
    span, last = (above - low) or 1.0, max(curve["removed"])

    def points(values: Sequence[float]) -> str:
        pairs = zip([0, *curve["removed"]], [0.0, *values], strict=True)
        return " ".join(f"{left + wide * x / last:.1f},{top + high * (1 - (y - low) / span):.1f}" for x, y in pairs)

    yield f'<polyline points="{points(drops[0])}" fill="none" stroke="#999999" stroke-dasharray="4 3"/>'
    for row, values in enumerate(drops[1:]):
        yield f'<polyline points="{points(values)}" fill="none" stroke="{LINES[row % len(LINES)]}" stroke-width="1.5"/>'
    yield f'<path d="M{left} {top}V{top + high}H{left + wide}" fill="none" stroke="{QUIET}"/>'
    yield _text(left + 4, top + 4, f"drop of ln p, up to {above:.1f}", ink=QUIET)
    yield _text(left + wide, top + high + 14, f"up to {last} words removed", "right", QUIET)


def _text(
    x: Pixels, y: Pixels, text: str, side: str = "left", ink: str = INK, *, size: int = 0, bold: bool = False
) -> str:
    style = f'font-size="{size or CAPTION}"' + (' font-weight="bold"' if bold else "")
    return text_element(x, y, text, side, f'fill="{ink}"', style)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
