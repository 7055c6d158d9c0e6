"""The lines of text of a drawing: their runs, their places and their breaks, for SVG, PDF and PNG alike."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from foveate.inspect.caption import Direction, clusters
from foveate.inspect.figure.letter import Run, runs, width

SVG = "{http://www.w3.org/2000/svg}"
_PAIR = re.compile(r"translate\(([-\d.]+) ([-\d.]+)\)|rotate\(([-\d.]+)\)")


def own_text(element: ElementTree.Element) -> str:
    """The text of an element without its tooltip."""
    return (element.text or "") + "".join(child.tail or "" for child in element)


def size_of(element: ElementTree.Element) -> float:
    """The font size of a text in pixels."""
    return float(element.get("font-size", 12))


def placed_runs(element: ElementTree.Element, *, outlined: bool = True) -> list[tuple[Run, float]]:
    """The runs of a text from left to right, and how far each begins from the text's `x`, in pixels."""
    direction: Direction = "rtl" if element.get("direction") == "rtl" else "ltr"
    line = runs(own_text(element), direction, bold=element.get("font-weight") == "600", outlined=outlined)
    widths = [run.width * size_of(element) for run in line]
    share = {"start": 0.0, "middle": 0.5, "end": 1.0}[element.get("text-anchor", "start")]
    at = -sum(widths) * (1 - share if direction == "rtl" else share)
    placed = []
    for run, wide in zip(line, widths, strict=True):
        placed.append((run, at))
        at += wide
    return placed


def place_of(look: Mapping[str, str]) -> tuple[float, float, float]:
    """The position of a text, and its clockwise rotation in degrees."""
    x, y, turn = float(look.get("x", 0)), float(look.get("y", 0)), 0.0
    for across, down, degrees in _PAIR.findall(look.get("transform", "")):
        if degrees:
            turn = float(degrees)
        else:
            x, y = x + float(across), y + float(down)
    return x, y, turn


def wrapped(text: str, room: float, *, bold: bool = False) -> list[str]:
    """The text in lines no wider than `room`, which is relative to the font size; a longer word is broken.

    >>> wrapped("What mattered for the answer", 8.0), wrapped("注意力图", 2.5)
    (['What mattered', 'for the answer'], ['注意', '力图'])
    """
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if width(longer, bold=bold) <= room:
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        for cluster in clusters(word):
            if lines[-1] and width(lines[-1] + cluster, bold=bold) > room:
                lines.append("")
            lines[-1] += cluster
    return lines
