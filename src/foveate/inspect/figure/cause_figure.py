"""Draws the causes of an answer: a table of coloured cells for each output word, and its deletion curves."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from foveate.inspect.caption import fit, printable
from foveate.inspect.figure.element import document, font, frame, hatching, painted, text_element
from foveate.inspect.figure.letter import width as text_width
from foveate.inspect.figure.paint import Paint
from foveate.inspect.figure.svg_layout import CAPTION, GAP, LABEL, LONGEST, PAD, TITLE, Pixels
from foveate.inspect.figure.text_line import wrapped

ROW, CELL = 22, 44
"""The height of a row, and the width of a column at least, in pixels."""
CHART, TICKS, FOOT = 190, 34, 34
"""The width of the chart of deletion curves, the room of the numbers beside it, and of the words below it."""
FIGURES = {"tau": "τ", "area": "deletion"}
FOR, AGAINST = "#1f5fa8", "#c25a00"
"""Colours of scores for and against the answer."""
LINES = ("#1f77b4", "#17becf", "#9467bd", "#2ca02c", "#d62728", "#1a1a1a")
"""Colours of the methods in the chart; random orders are grey and dashed."""
LEGEND = (
    "Blue: for the answer, orange: against it; the strongest colour is the largest score of its row. "
    "Hatched: the model cannot see the word. τ: Kendall's rank correlation with leave-one-out. "
    "Deletion: the mean drop of ln p, in nats, as the words that a method ranks highest are removed."
)
RANDOM = "Dashed: the mean of random orders."


def cause_svg(reasons: Mapping[str, Any]) -> str:
    """The plain data of `Why` as an SVG document.

    A cell's colour is its score as a share of the largest in its row: blue for the answer, orange against it. Cells of
    words that the model cannot see are hatched. The chart shows the drop of the log-probability as the words that a
    method ranks highest are removed.
    """
    paint, style = painted("light")
    methods = list(reasons["methods"])
    words = [fit(printable(word), LONGEST) for word in reasons["inputs"]]
    columns = [max(CELL, ceil(text_width(word) * LABEL) + 8) for word in words]
    label = 16 + ceil(max(text_width(method) for method in methods) * LABEL) + GAP
    right = PAD + label + sum(columns) + GAP
    high = TITLE + ROW + ROW * len(methods) + FOOT
    charted = any(output["deletion"] and output["deletion"]["removed"] for output in reasons["outputs"])
    chart = right + len(FIGURES) * (CELL + 14) + 2 * GAP + TICKS
    whole = (chart + CHART if charted else right + len(FIGURES) * (CELL + 14)) + PAD
    parts: list[str] = []
    for number, output in enumerate(reasons["outputs"]):
        top = PAD + number * (high + PAD)
        parts += _block(output, methods, (words, columns), (PAD, top, label, right), paint)
        if output["deletion"] and output["deletion"]["removed"]:
            place = (chart, top + TITLE + ROW, CHART, ROW * len(methods))
            parts += _chart(output["deletion"], methods, place, paint)
    foot = PAD + len(reasons["outputs"]) * (high + PAD)
    says = wrapped(f"{LEGEND} {RANDOM}" if charted else LEGEND, (whole - 2 * PAD) / CAPTION)
    for number, line in enumerate(says):
        parts.append(_text(PAD, foot + number * 16, line, paint, quiet=True))
    spoken = "; ".join(printable(output["word"]) for output in reasons["outputs"])
    size = whole, foot + 16 * (len(says) - 1) + PAD
    return document(parts, size, f"What mattered for {spoken}", paint, style)


def _block(
    output: Mapping[str, Any],
    methods: Sequence[str],
    across: tuple[Sequence[str], Sequence[int]],
    place: tuple[int, int, int, int],
    paint: Paint,
) -> Iterator[str]:
    """The title of a word, the words of the input above their columns, and a row for each method."""
    (words, columns), (left, top, label, right) = across, place
    word = printable(output["word"])
    yield text_element(left, top + TITLE, word, "left", paint.ink("text"), font(TITLE, bold=True))
    beside = left + text_width(word, bold=True) * TITLE + 2 * GAP
    yield _text(beside, top + TITLE, f"ln p = {_number(output['log_probability'], 3)}", paint, quiet=True)
    lefts = [left + label + sum(columns[:number]) for number in range(len(columns))]
    heading = top + TITLE + ROW - 6
    for word, x, wide in zip(words, lefts, columns, strict=True):
        yield _text(x + wide / 2, heading, word, paint, "centre")
    for number, name in enumerate(FIGURES.values()):
        yield _text(right + (number + 1) * (CELL + 14), heading, name, paint, "right", quiet=True)
    for row, method in enumerate(methods):
        y, scores = top + TITLE + ROW * (row + 1), output["scores"][method]
        yield f'<rect {frame(left, y + 6, 10, 10)} fill="{LINES[row % len(LINES)]}"/>'
        yield _text(left + 16, y + ROW - 7, method, paint)
        largest = max((abs(score) for score in scores if score is not None), default=0.0) or 1.0
        for x, wide, score, possible in zip(lefts, columns, scores, output["possible"], strict=True):
            if not possible:
                yield from hatching(paint, x, y, wide - 1, ROW - 1)
            elif score is not None:
                colour, share = FOR if score >= 0 else AGAINST, abs(score) / largest
                yield f'<rect {frame(x, y, wide - 1, ROW - 1)} fill="{colour}" fill-opacity="{share:.3f}"/>'
                ink = paint.ink("paper" if share > 0.6 else "text")
                yield text_element(x + wide / 2, y + ROW - 7, _number(score), "centre", ink, font(CAPTION))
        for number, name in enumerate(FIGURES):
            value = output["figures"][method][name]
            shown = "—" if value is None else _number(value)
            yield _text(right + (number + 1) * (CELL + 14), y + ROW - 7, shown, paint, "right")


def _chart(
    curve: Mapping[str, Any], methods: Sequence[str], place: tuple[int, int, int, int], paint: Paint
) -> Iterator[str]:
    """The deletion curves, with the number of removed words to the right and the drop upwards."""
    left, top, wide, high = place
    drops = [curve["random"], *(curve["drops"][method] for method in methods)]
    low, above = min(0.0, *map(min, drops)), max(map(max, drops))
    span, last = (above - low) or 1.0, max(curve["removed"])

    def level(value: int | float) -> float:
        return top + high * (1 - (value - low) / span)

    def points(values: Sequence[float]) -> str:
        pairs = zip([0, *curve["removed"]], [0.0, *values], strict=True)
        return " ".join(f"{left + wide * x / last:.1f},{level(y):.1f}" for x, y in pairs)

    yield f'<path d="M{left} {top}V{top + high}H{left + wide}" fill="none" stroke-width="1" {paint.ink("hatch")}/>'
    for row, values in enumerate(drops):
        colour = "#999999" if row == 0 else LINES[(row - 1) % len(LINES)]
        dashes = ' stroke-dasharray="4 3"' if row == 0 else ""
        yield f'<polyline points="{points(values)}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>'
    yield _text(left, top - 6, "drop of ln p (nats)", paint, quiet=True)
    marks = [above, 0.0] if low == 0 or abs(level(0) - level(low)) < CAPTION else [above, 0.0, low]
    for value in marks:
        yield _text(left - 5, level(value) + 4, f"{value + 0.0:.1f}".replace("-", "−"), paint, "right", quiet=True)
    yield _text(left, top + high + 14, "0", paint, "centre", quiet=True)
    yield _text(left + wide / 2, top + high + 14, "words removed", paint, "centre", quiet=True)
    yield _text(left + wide, top + high + 14, str(last), paint, "right", quiet=True)


def _number(value: float, digits: int = 2) -> str:
    """A number with a minus sign, not a hyphen, and without negative zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def _text(x: Pixels, y: Pixels, text: str, paint: Paint, side: str = "left", *, quiet: bool = False) -> str:
    return text_element(x, y, text, side, paint.ink("quiet" if quiet else "text"), font(CAPTION))
