"""Turns the letters of a drawing into shapes, so that it looks the same in every program, without any font."""

from pathlib import Path
from xml.etree import ElementTree

from foveate.errors import SetupError
from foveate.inspect.figure.letter import Run
from foveate.inspect.figure.text_line import SVG, own_text, placed_runs, size_of

_OF_LETTERS = ("direction", "unicode-bidi", "text-anchor", "font-size", "font-weight", "x", "y")
"""Attributes of a text that its shapes do not need."""
_DIGITS = 2


def outlined(drawing: str) -> str:
    """An SVG of this package whose letters are shapes, joined and combined by HarfBuzz as in its PDF.

    The words remain as descriptions for screen readers, but cannot be searched or edited.

    >>> from foveate.inspect import Alignment, svg
    >>> drawing = outlined(svg(Alignment.of("ab", "c", [[1, 0]])))
    >>> "<text" in drawing, 'aria-label="c"' in drawing
    (False, True)

    Raises `SetupError` for letters that are in no font of this machine.
    """
    root = ElementTree.fromstring(drawing)
    for element in root.iter(f"{SVG}text"):
        _shape(element)
    ElementTree.register_namespace("", SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def outline_file(path: str | Path) -> None:
    """Turn the letters of an .svg file into shapes. Raises `SetupError` if it cannot be written."""
    path = Path(path)
    drawing = outlined(path.read_text("utf-8"))
    try:
        path.write_bytes(drawing.encode())
    except OSError as error:
        raise SetupError(f"{path}: cannot write the letters as shapes: {error.strerror}.") from error


def _shape(element: ElementTree.Element) -> None:
    """Replace a text by a group with one path."""
    x, y, size = float(element.get("x", 0)), float(element.get("y", 0)), size_of(element)
    path = "".join(_drawn(run, x + at, y, size) for run, at in placed_runs(element))
    hints = element.findall(f"{SVG}title")
    look = {name: value for name, value in element.attrib.items() if name not in _OF_LETTERS}
    label, tail = own_text(element), element.tail
    element.clear()
    element.tag, element.tail = f"{SVG}g", tail
    element.attrib = {**look, "role": "img", "aria-label": label}
    element.extend(hints)
    for hint in hints:
        hint.tail = None
    if path:
        ElementTree.SubElement(element, f"{SVG}path", {"d": path})


def _drawn(run: Run, x: float, y: float, size: float) -> str:
    """The path of a run whose baseline begins at a point."""
    buffer, scale = run.shaped(), size / run.face.face.upem
    parts, pen = [], x
    for glyph, place in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True):
        trace = _Pen(pen + place.x_offset * scale, y - place.y_offset * scale, scale)
        run.face.font.draw_glyph_with_pen(glyph.codepoint, trace)
        parts += trace.steps
        pen += place.x_advance * scale
    return "".join(parts)


class _Pen:
    """Writes the outline of a glyph as steps of a path, upside down as SVG has it."""

    def __init__(self, x: float, y: float, scale: float) -> None:
        self.x, self.y, self.scale = x, y, scale
        self.steps: list[str] = []

    def _step(self, letter: str, *points: tuple[float, float]) -> None:
        pairs = (f"{_n(self.x + x * self.scale)} {_n(self.y - y * self.scale)}" for x, y in points)
        self.steps.append(letter + " ".join(pairs))

    def moveTo(self, point: tuple[float, float]) -> None:  # noqa: N802 -- the names of a pen of fontTools
        self._step("M", point)

    def lineTo(self, point: tuple[float, float]) -> None:  # noqa: N802
        self._step("L", point)

    def qCurveTo(self, *points: tuple[float, float]) -> None:  # noqa: N802
        self._step("Q", *points)

    def curveTo(self, *points: tuple[float, float]) -> None:  # noqa: N802
        self._step("C", *points)

    def closePath(self) -> None:  # noqa: N802
        self.steps.append("Z")


def _n(value: float) -> str:
    return f"{round(value, _DIGITS) + 0.0:g}"
