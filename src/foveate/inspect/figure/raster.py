"""Converts a drawing to PNG, with letters of all scripts that a font of this machine has."""

import struct
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

from foveate.errors import SetupError, UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.caption import Reading
from foveate.inspect.figure.letter import BOLD, REGULAR, Face
from foveate.inspect.figure.pixel import SIGNATURE, chunk, international
from foveate.inspect.figure.scale import Hue, Scale, Theme
from foveate.inspect.figure.text_line import SVG, placed_runs
from foveate.inspect.figure.vector import svg

INCH = 96
"""Pixels of a drawing per inch, as in CSS."""
DPI = 192
LARGEST = 4096  # the maximum number of rows or columns of a single PNG
PIXELS = 100_000_000
_RIGHT_TO_LEFT = "\u200f"


def png(
    alignment: Alignment,
    *,
    title: str | None = None,
    names: tuple[str, str] = ("source", "target"),
    theme: Theme = "light",
    hue: Hue = "blue",
    top: float | None = 1.0,
    reading: Reading = "auto",
    links: bool = False,
    scale: Scale = "linear",
    dpi: int | float = DPI,
) -> bytes:
    """The alignment as a PNG file: the picture of `svg`, in `dpi` pixels per inch (96 shows it in the size of the SVG).

    The same arguments and fonts give the same bytes. The title and a description in words are stored as `iTXt`.

    Raises `UsageError` for an empty or too large alignment, and `SetupError` for letters that are in no font.
    """
    rows, columns = alignment.weights.shape
    if not 0 < min(rows, columns) <= max(rows, columns) <= LARGEST:
        raise UsageError(
            f"a picture needs 1 to {LARGEST} source and target pieces, but there are {columns} and {rows}. "
            "Give an input and an output that are not empty, or draw a part of them."
        )
    drawing = svg(
        alignment, title=title, names=names, theme=theme, hue=hue, top=top, reading=reading, links=links, scale=scale
    )
    return rasterised(drawing, dpi=dpi, details={"Title": title or "Alignment", "Description": alignment.describe()})


def rasterised(drawing: str, *, dpi: int | float = DPI, details: Mapping[str, str] | None = None) -> bytes:
    """A drawing of this package as a PNG. `details` are kept as `iTXt` chunks.

    Raises `UsageError` for an unsuitable resolution, and `SetupError` for letters that are in no font.
    """
    root = ElementTree.fromstring(drawing)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    if not 0 < dpi < float("inf") or not 1 <= width * height * (dpi / INCH) ** 2 <= PIXELS:
        raise UsageError(
            f"dpi={dpi:g} would make a picture of {width * dpi / INCH:,.0f} × {height * dpi / INCH:,.0f} pixels. "
            "Choose pixels per inch between, for example, 96 for a screen and 600 for print, or write an .svg or .pdf."
        )
    physical, used = _physical(root)
    return _detailed(_rendered(physical, used, dpi / INCH), dpi, details or {})


def _physical(root: ElementTree.Element) -> tuple[str, list[Face]]:
    """The drawing with an explicit font for each text, and anchors that do not depend on the reading direction."""
    used = {REGULAR, BOLD}
    root.set("font-family", REGULAR.family)
    for element in root.iter(f"{SVG}image"):
        element.set("image-rendering", "optimizeSpeed")  # keep the edges of cells sharp
    for element in root.iter(f"{SVG}text"):
        used.update(_set(element))
    ElementTree.register_namespace("", SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode"), sorted(used, key=lambda face: (str(face.path), face.index))


def _set(element: ElementTree.Element) -> set[Face]:
    """Replace a text by runs of one font and one direction, each with its own position; return the fonts."""
    line = placed_runs(element, outlined=False)
    for child in list(element):
        element.remove(child)
    element.text = None
    for name in ("direction", "unicode-bidi"):
        element.attrib.pop(name, None)
    element.set("text-anchor", "start")
    element.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
    x = float(element.get("x", 0))
    for run, at in line:
        span = ElementTree.SubElement(element, f"{SVG}tspan", {"x": f"{x + at:.3f}", "font-family": run.face.family})
        # The renderer assumes lines from left to right; marks reverse the signs beside right-to-left letters.
        span.text = f"{_RIGHT_TO_LEFT}{run.text}{_RIGHT_TO_LEFT}" if run.direction == "rtl" else run.text
    return {run.face for run, _ in line}


def _rendered(drawing: str, used: Iterable[Face], zoom: float) -> bytes:
    try:
        import resvg_py
    except ImportError as error:
        raise SetupError(
            "A PNG needs the package resvg_py: `pip install resvg_py`. An .svg does not need it."
        ) from error
    files = list(dict.fromkeys(str(face.path) for face in used))
    return bytes(resvg_py.svg_to_bytes(svg_string=drawing, skip_system_fonts=True, font_files=files, zoom=zoom))


def _detailed(picture: bytes, dpi: int | float, details: Mapping[str, str]) -> bytes:
    """Add the resolution and the details after the header of a PNG."""
    header = len(SIGNATURE) + 25
    per_metre = round(dpi / 0.0254)
    more = [chunk(b"pHYs", struct.pack(">IIB", per_metre, per_metre, 1))]
    more += [chunk(b"iTXt", international(key, value)) for key, value in details.items()]
    return picture[:header] + b"".join(more) + picture[header:]
