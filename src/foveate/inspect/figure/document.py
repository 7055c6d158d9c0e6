"""A drawing as PDF, for papers: the same lines and letters as the SVG, and the same bytes every time.

It writes what `svg` draws and no other SVG. Letters are Helvetica, which every reader of PDF has and which knows the
letters of western Europe; a label in another script needs a program that brings fonts.
"""

import base64
import math
import re
import struct
import unicodedata
import zlib
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from foveate.errors import UsageError

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "href"
# Widths of Helvetica, in thousandths of its size, from the space to the tilde (Adobe's font metrics).
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
)  # fmt: skip
_MARKS = {"▁": (0.06, -0.08, 0.44, 0.07), "␣": (0.06, -0.08, 0.44, 0.07)}
"""What vocabularies write for a space, as a line below: left, bottom, width, height in sizes of the letters."""
_MARK_WIDTH = 556
_PAIR = re.compile(r"translate\(([-\d.]+) ([-\d.]+)\)|rotate\(([-\d.]+)\)")
_STEP = re.compile(r"([MHV])([-\d.]+)(?: ([-\d.]+))?")


def pdf(drawing: bytes) -> bytes:
    """A drawing of `svg` as a PDF of one page.

    >>> from foveate.inspect import Alignment, svg
    >>> drawing = svg(Alignment.of("cat", ["K", "AE", "T"], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])).encode()
    >>> pdf(drawing)[:8], pdf(drawing) == pdf(drawing)
    (b'%PDF-1.4', True)

    Raises UsageError for letters that Helvetica does not have.
    """
    root = ElementTree.fromstring(drawing)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    page = _Page(width, height)
    for element in root:
        page.add(element)
    return page.document()


class _Page:
    """Operators of one page, and the images that it shows."""

    def __init__(self, width: float, height: float) -> None:
        self.size = width, height
        self.operators: list[str] = []
        self.images: list[bytes] = []

    def add(self, element: ElementTree.Element) -> None:
        name = element.tag.removeprefix(_SVG)
        if name == "g":
            for child in element:
                self.add(child)
            return
        drawn = {"rect": self._rect, "path": self._path, "polygon": self._polygon, "text": self._text}
        if name == "image":
            self._image(element.attrib)
        elif name in drawn:
            self.operators += ["q", *drawn[name](element), "Q"]

    def _rect(self, element: ElementTree.Element) -> Iterator[str]:
        look = element.attrib
        width, height = (
            self.size[axis] if look[name] == "100%" else float(look[name])
            for axis, name in enumerate(("width", "height"))
        )
        x, y = float(look.get("x", 0)), float(look.get("y", 0))
        yield from _inks(look)
        yield f"{_n(x)} {_n(self.size[1] - y - height)} {_n(width)} {_n(height)} re {_paint(look)}"

    def _path(self, element: ElementTree.Element) -> Iterator[str]:
        """Lines across and down: M x y, H x, V y."""
        yield from _inks(element.attrib)
        x = y = 0.0
        for letter, first, second in _STEP.findall(element.attrib["d"]):
            x = float(first) if letter in "MH" else x
            y = float(second) if letter == "M" else float(first) if letter == "V" else y
            yield f"{_n(x)} {_n(self.size[1] - y)} {'m' if letter == 'M' else 'l'}"
        yield "S"

    def _polygon(self, element: ElementTree.Element) -> Iterator[str]:
        points = [[float(part) for part in point.split(",")] for point in element.attrib["points"].split()]
        yield from _inks(element.attrib)
        for at, (x, y) in enumerate(points):
            yield f"{_n(x)} {_n(self.size[1] - y)} {'l' if at else 'm'}"
        yield f"h {_paint(element.attrib)}"

    def _text(self, element: ElementTree.Element) -> Iterator[str]:
        look, text = element.attrib, _words(element)
        size = float(look.get("font-size", 12))
        x, y, turn = _placed(look)
        length = sum(map(_width, text)) * size / 1000
        back = {"start": 0.0, "middle": length / 2, "end": length}[look.get("text-anchor", "start")]
        cos, sin = math.cos(math.radians(turn)), -math.sin(math.radians(turn))
        yield from _inks(look)
        yield f"{_n(cos)} {_n(sin)} {_n(-sin)} {_n(cos)} {_n(x)} {_n(self.size[1] - y)} cm"
        font, at = ("F2" if look.get("font-weight") == "600" else "F1"), -back
        for run in re.findall(f"[{''.join(_MARKS)}]|[^{''.join(_MARKS)}]+", text):
            if run in _MARKS:
                left, bottom, width, height = (part * size for part in _MARKS[run])
                yield f"{_n(at + left)} {_n(bottom)} {_n(width)} {_n(height)} re f"
            else:
                yield f"BT /{font} {_n(size)} Tf {_n(at)} 0 Td <{_encoded(run).hex()}> Tj ET"
            at += sum(map(_width, run)) * size / 1000

    def _image(self, look: Mapping[str, str]) -> None:
        """A PNG of a palette: its compressed rows are what PDF holds, too."""
        x, y, width, height = (float(look[name]) for name in ("x", "y", "width", "height"))
        self.images.append(_indexed(base64.b64decode(look[_HREF].split(",", 1)[1])))
        place = f"{_n(width)} 0 0 {_n(height)} {_n(x)} {_n(self.size[1] - y - height)} cm"
        self.operators += ["q", place, f"/I{len(self.images)} Do", "Q"]

    def document(self) -> bytes:
        content = zlib.compress("\n".join(self.operators).encode("ascii"), 9)
        named = "".join(f"/I{at + 1} {at + 7} 0 R " for at in range(len(self.images)))
        fonts = [
            f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>"
            for name in ("Helvetica", "Helvetica-Bold")
        ]
        page = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_n(self.size[0])} {_n(self.size[1])}] /Contents 4 0 R "
            f"/Resources << /Font << /F1 5 0 R /F2 6 0 R >> /XObject << {named}>> >> >>"
        )
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            page.encode(),
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(content), content),
            *(font.encode() for font in fonts),
            *self.images,
        ]
        return _assembled(objects)


def _assembled(objects: list[bytes]) -> bytes:
    """Objects, a table of where each begins, and nothing of the day or the program."""
    whole, places = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    tail = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(whole))
    return whole + head + table + tail


def _indexed(png: bytes) -> bytes:
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        chunks[png[at + 4 : at + 8]] = png[at + 8 : at + 8 + length]
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    palette = chunks[b"PLTE"]
    head = (
        f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent 8 /ColorSpace "
        f"[/Indexed /DeviceRGB {len(palette) // 3 - 1} <{palette.hex()}>] /Filter /FlateDecode "
        f"/DecodeParms << /Predictor 15 /Colors 1 /BitsPerComponent 8 /Columns {width} >> "
        f"/Length {len(chunks[b'IDAT'])} >>\nstream\n"
    )
    return head.encode() + chunks[b"IDAT"] + b"\nendstream"


def _words(element: ElementTree.Element) -> str:
    """The text itself, without its tooltip."""
    return (element.text or "") + "".join(child.tail or "" for child in element)


def _placed(look: Mapping[str, str]) -> tuple[float, float, float]:
    x, y, turn = float(look.get("x", 0)), float(look.get("y", 0)), 0.0
    for across, down, angle in _PAIR.findall(look.get("transform", "")):
        if angle:
            turn += float(angle)
        else:
            x, y = x + float(across), y + float(down)
    return x, y, turn


def _inks(look: Mapping[str, str]) -> Iterator[str]:
    for name, operator in (("fill", "rg"), ("stroke", "RG")):
        colour = look.get(name, "none")
        if colour != "none":
            # The one thing that is drawn half transparent, lines between cells, lies on light ground.
            covers = float(look.get("stroke-opacity", 1)) if name == "stroke" else 1.0
            red, green, blue = (1 - covers * (1 - int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
            yield f"{_n(red)} {_n(green)} {_n(blue)} {operator}"
    if "stroke" in look:
        yield f"{look.get('stroke-width', '1')} w"


def _paint(look: Mapping[str, str]) -> str:
    filled, stroked = look.get("fill", "none") != "none", look.get("stroke", "none") != "none"
    return "B" if filled and stroked else "f" if filled else "S"


def _width(character: str) -> int:
    if character in _MARKS:
        return _MARK_WIDTH
    base = unicodedata.normalize("NFD", character)[0]
    place = ord(base) - 32
    return _WIDTHS[place] if 0 <= place < len(_WIDTHS) else 1000 if character in "…—" else 556


def _encoded(text: str) -> bytes:
    try:
        return text.encode("cp1252")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"a PDF's built-in letters are those of western Europe and cannot write {text[error.start]!r} of {text!r}. "
            "Write an .svg instead: its text stays text, in any script, and browsers print it as PDF."
        ) from None


def _n(value: float) -> str:
    """Four digits behind the point, without needless zeros and without a negative zero."""
    return f"{round(value, 4) + 0.0:.4f}".rstrip("0").rstrip(".")
