"""Converts a drawing to PDF, for papers: the same lines and letters as in the SVG, with embedded fonts, and
reproducible.

Only SVG of this package is supported. The PDF contains the letters that occur of each font, and a table of their text,
so that it can be searched and copied.
"""

import base64
import hashlib
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree import ElementTree

from foveate.errors import UsageError
from foveate.inspect.figure.letter import Face, Run
from foveate.inspect.figure.pixel import SIGNATURE
from foveate.inspect.figure.text_line import SVG, place_of, placed_runs, size_of

_HREF = "href"
_STEP = re.compile(r"([MLHVZ])(?:([-\d.]+)(?: ([-\d.]+))?)?")
_UNUSED = ("BASE", "GDEF", "GPOS", "GSUB", "MATH", "OS/2", "VORG", "cmap", "gasp", "name", "post", "vhea", "vmtx")
"""Tables of a font that are used for layout only; the page contains the positions of glyphs."""
_GLYPH = re.compile(r"<(F\d+:\d+)>")
"""A font and the number of a glyph in it. The number in the page is assigned after all letters are known."""
_RGB, _PALETTE = 2, 3
_COLOURS = {0: "/DeviceGray", _RGB: "/DeviceRGB", _PALETTE: ""}
"""PDF's names for the colour types of a PNG."""
_POINT = 72 / 96
"""Points of a page per pixel of a drawing."""


def pdf(drawing: bytes) -> bytes:
    """Convert a drawing by `svg` to a PDF of one page.

    >>> from foveate.inspect import Alignment, svg
    >>> drawing = svg(Alignment.of("cat", ["K", "AE", "T"], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])).encode()
    >>> pdf(drawing)[:8], pdf(drawing) == pdf(drawing)
    (b'%PDF-1.4', True)

    Raises `SetupError` for letters that are in no font of this machine.
    """
    root = ElementTree.fromstring(drawing)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    page = _Page(width, height, root.get("aria-label", ""))
    for element in root:
        page.add(element)
    return page.document()


@dataclass(frozen=True)
class _Glyph:
    number: int
    text: str
    """The text of the glyph: several letters for a ligature, empty if a letter consists of several glyphs."""
    x: float
    y: float
    advance: float


@dataclass(eq=False)
class _Font:
    """A font of the page, with its glyphs."""

    face: Face
    name: str
    used: dict[int, str] = field(default_factory=dict)

    def shaped(self, run: Run) -> list[_Glyph]:
        """The glyphs of a run from left to right, relative to the font size: joined, combined and kerned by
        HarfBuzz.
        """
        buffer = run.shaped()
        em = self.face.face.upem
        clusters = sorted({info.cluster for info in buffer.glyph_infos})
        ends = dict(zip(clusters, [*clusters[1:], len(run.text)], strict=True))
        glyphs, done = [], set()
        for info, place in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True):
            text = "" if info.cluster in done else run.text[info.cluster : ends[info.cluster]]
            done.add(info.cluster)
            glyphs.append(_Glyph(info.codepoint, text, place.x_offset / em, place.y_offset / em, place.x_advance / em))
            self.used[info.codepoint] = self.used.get(info.codepoint) or text
        return glyphs

    def width(self, glyph: int) -> int:
        """The width of a glyph in the PDF, in thousandths of the font size."""
        return round(1000 * self.face.font.get_glyph_h_advance(glyph) / self.face.face.upem)


class _Page:
    """The operators of one page, with their images, fonts and opacities."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.size = width, height
        self.title = title
        self.operators: list[str] = [f"{_n(_POINT)} 0 0 {_n(_POINT)} 0 0 cm"]
        self.images: list[bytes] = []
        self.fonts: dict[Face, _Font] = {}
        self.veils: dict[str, str] = {}

    def add(self, element: ElementTree.Element) -> None:
        name = element.tag.removeprefix(SVG)
        if name == "g":
            for child in element:
                child.attrib = {**element.attrib, **child.attrib}
                self.add(child)
            return
        drawn = {"rect": self._rect, "path": self._path, "text": self._text}
        drawn |= {"polygon": self._points, "polyline": self._points}
        if name == "image":
            self._image(element.attrib)
        elif name in drawn:
            self.operators += ["q", *self._inks(element.attrib), *drawn[name](element), "Q"]
        elif name != "title":
            raise UsageError(
                f"A PDF cannot draw <{name}> of an SVG. Give a drawing of this package with the theme light or dark."
            )

    def _inks(self, look: Mapping[str, str]) -> Iterator[str]:
        for name, operator in (("fill", "rg"), ("stroke", "RG")):
            colour = look.get(name, "none")
            if colour != "none":
                red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
                yield f"{_n(red)} {_n(green)} {_n(blue)} {operator}"
        if "stroke" in look:
            yield f"{look.get('stroke-width', '1')} w"
        if "stroke-dasharray" in look:
            yield f"[{look['stroke-dasharray']}] 0 d"
        for name, key in (("stroke-opacity", "CA"), ("fill-opacity", "ca")):
            if name in look:
                veil = f"/{key} {look[name]}"
                self.veils.setdefault(veil, f"V{len(self.veils) + 1}")
                yield f"/{self.veils[veil]} gs"

    def _rect(self, element: ElementTree.Element) -> Iterator[str]:
        look = element.attrib
        width, height = (
            self.size[axis] if look[name] == "100%" else float(look[name])
            for axis, name in enumerate(("width", "height"))
        )
        x, y = float(look.get("x", 0)), float(look.get("y", 0))
        yield f"{_n(x)} {_n(self.size[1] - y - height)} {_n(width)} {_n(height)} re {_paint(look)}"

    def _path(self, element: ElementTree.Element) -> Iterator[str]:
        """Straight lines: M x y, L x y, H x, V y, Z."""
        x = y = 0.0
        for letter, first, second in _STEP.findall(element.attrib["d"]):
            if letter == "Z":
                yield "h"
                continue
            x = float(first) if letter in "MLH" else x
            y = float(second) if letter in "ML" else float(first) if letter == "V" else y
            yield f"{_n(x)} {_n(self.size[1] - y)} {'m' if letter == 'M' else 'l'}"
        yield _paint(element.attrib)

    def _points(self, element: ElementTree.Element) -> Iterator[str]:
        """The line through points, which is closed for a polygon."""
        points = [[float(part) for part in point.split(",")] for point in element.attrib["points"].split()]
        for at, (x, y) in enumerate(points):
            yield f"{_n(x)} {_n(self.size[1] - y)} {'l' if at else 'm'}"
        yield f"{'h ' if element.tag == f'{SVG}polygon' else ''}{_paint(element.attrib)}"

    def _text(self, element: ElementTree.Element) -> Iterator[str]:
        size, (x, y, turn) = size_of(element), place_of(element.attrib)
        cos, sin = math.cos(math.radians(turn)), -math.sin(math.radians(turn))
        yield f"{_n(cos)} {_n(sin)} {_n(-sin)} {_n(cos)} {_n(x)} {_n(self.size[1] - y)} cm"
        for run, at in placed_runs(element):
            font = self.fonts.setdefault(run.face, _Font(run.face, f"F{len(self.fonts) + 1}"))
            yield f"BT /{font.name} {_n(size)} Tf {_n(at)} 0 Td {_shown(font, font.shaped(run), size)} ET"

    def _image(self, look: Mapping[str, str]) -> None:
        """Embed a PNG; PDF uses the same compressed rows."""
        x, y, width, height = (float(look[name]) for name in ("x", "y", "width", "height"))
        self.images.append(_embedded_picture(base64.b64decode(look[_HREF].split(",", 1)[1])))
        place = f"{_n(width)} 0 0 {_n(height)} {_n(x)} {_n(self.size[1] - y - height)} cm"
        self.operators += ["q", place, f"/I{len(self.images)} Do", "Q"]

    def document(self) -> bytes:
        first = 6  # catalogue, pages, page, content, information
        embedded: list[bytes] = []
        names, numbers = "", dict[str, str]()
        for font in self.fonts.values():
            names += f"/{font.name} {first + len(embedded)} 0 R "
            data, glyphs_of = _subset(font)
            numbers |= {f"{font.name}:{old}": f"{new:04x}" for old, new in glyphs_of.items()}
            embedded += _embedded(font, data, glyphs_of, first + len(embedded))
        veils = "".join(f"/{name} << {veil} >> " for veil, name in self.veils.items())
        drawing = _GLYPH.sub(lambda match: f"<{numbers[match[1]]}>", "\n".join(self.operators))
        drawn = "".join(f"/I{at + 1} {first + len(embedded) + at} 0 R " for at in range(len(self.images)))
        width, height = (_n(side * _POINT) for side in self.size)
        page = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents 4 0 R "
            f"/Resources << /Font << {names}>> /XObject << {drawn}>> /ExtGState << {veils}>> >> >>"
        )
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            page.encode(),
            _stream(b"", drawing.encode("ascii")),
            f"<< /Title <feff{self.title.encode('utf-16-be').hex()}> >>".encode(),
            *embedded,
            *self.images,
        ]
        return _assembled(objects)


def _shown(font: _Font, glyphs: list[_Glyph], size: float) -> str:
    """Operators for glyphs one after the other, with a shift wherever a position differs from the sum of widths."""
    parts, rise, moved = ["["], 0.0, 0.0
    for glyph in glyphs:
        if glyph.y != rise:
            parts.append(f"] TJ {_n(glyph.y * size)} Ts [")
            rise = glyph.y
        shift = moved + 1000 * glyph.x
        named = f"<{font.name}:{glyph.number}>"
        parts.append(f"{_n(-shift)} {named}" if abs(shift) > 0.5 else named)
        moved = 1000 * (glyph.advance - glyph.x) - font.width(glyph.number)
        if abs(shift) <= 0.5:
            moved += shift
    return "".join(parts) + "] TJ"


def _embedded(font: _Font, data: bytes, glyphs_of: Mapping[int, int], first: int) -> list[bytes]:
    """The font as five objects from number `first` on: font, glyph widths, description, file, text of glyphs."""
    tag = "".join(chr(65 + byte % 26) for byte in hashlib.sha256(data).digest()[:6])
    name = f"{tag}+{re.sub('[^A-Za-z0-9-]', '', str(font.face.face.get_name(6) or font.face.family))}"
    outlines = "glyf" in font.face.face.table_tags
    em, extents = font.face.face.upem, font.face.font.get_font_extents("ltr")
    up, down = (round(1000 * part / em) for part in (extents.ascender, extents.descender))
    widths = " ".join(f"{new} [{font.width(old)}]" for old, new in sorted(glyphs_of.items(), key=lambda pair: pair[1]))
    whole = (
        f"<< /Type /Font /Subtype /Type0 /BaseFont /{name} /Encoding /Identity-H /DescendantFonts [{first + 1} 0 R] "
        f"/ToUnicode {first + 4} 0 R >>"
    )
    glyphs = (
        f"<< /Type /Font /Subtype /CIDFontType{'2' if outlines else '0'} /BaseFont /{name} /CIDSystemInfo "
        f"<< /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /FontDescriptor {first + 2} 0 R "
        f"/DW 1000 /W [{widths}]{' /CIDToGIDMap /Identity' if outlines else ''} >>"
    )
    look = (
        f"<< /Type /FontDescriptor /FontName /{name} /Flags 4 /FontBBox [-1000 {down} 2000 {up}] /ItalicAngle 0 "
        f"/Ascent {up} /Descent {down} /CapHeight {round(0.73 * 1000)} /StemV 80 "
        f"/FontFile{'2' if outlines else '3'} {first + 3} 0 R >>"
    )
    kind = b"/Length1 %d" % len(data) if outlines else b"/Subtype /CIDFontType0C"
    meaning = _meaning({glyphs_of[old]: text for old, text in font.used.items() if text})
    return [whole.encode(), glyphs.encode(), look.encode(), _stream(kind, data), _stream(b"", meaning.encode())]


def _subset(font: _Font) -> tuple[bytes, dict[int, int]]:
    """The font file with only the glyphs that occur, and a mapping from old to new numbers."""
    import uharfbuzz

    settings = uharfbuzz.SubsetInput()
    flags = uharfbuzz.SubsetFlags
    settings.flags = flags.NO_HINTING | flags.NO_LAYOUT_CLOSURE | flags.CFF_IDENTITY_CHARSET
    for glyph in sorted(font.used):
        settings.glyph_set.add(glyph)
    for table in _UNUSED:
        settings.drop_table_tag_set.add(int.from_bytes(table.encode(), "big"))
    plan = uharfbuzz.SubsetPlan(font.face.face, settings)
    cut = plan.execute()
    numbers = {old: plan.old_to_new_glyph_mapping[old] for old in sorted(font.used)}
    outlines = "glyf" in font.face.face.table_tags
    return bytes(cut.blob.data if outlines else cut.reference_table("CFF ").data), numbers


def _meaning(texts: Mapping[int, str]) -> str:
    """The table of the text of glyphs, for searching and copying."""
    lines = [f"<{glyph:04x}> <{text.encode('utf-16-be').hex()}>" for glyph, text in sorted(texts.items())]
    blocks = [lines[at : at + 100] for at in range(0, len(lines), 100)]
    mapped = "\n".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar" for block in blocks)
    return (
        "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CIDSystemInfo << /Registry (Adobe) "
        "/Ordering (UCS) /Supplement 0 >> def\n/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n"
        f"1 begincodespacerange\n<0000> <ffff>\nendcodespacerange\n{mapped}\nendcmap\n"
        "CMapName currentdict /CMap defineresource pop\nend\nend\n"
    )


def _stream(head: bytes, content: bytes) -> bytes:
    packed = zlib.compress(content, 9)
    head = head + b" " if head else b""
    return b"<< %b/Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (head, len(packed), packed)


def _assembled(objects: list[bytes]) -> bytes:
    """The file: objects and the table of their offsets, without date and program."""
    whole, places = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    count = len(objects) + 1
    tail = b"trailer\n<< /Size %d /Root 1 0 R /Info 5 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, len(whole))
    return whole + head + table + tail


def _embedded_picture(png: bytes) -> bytes:
    """The object of a PNG with 8 bits for each number. Raises UsageError for another picture."""
    chunks, rows, at = dict[bytes, bytes](), b"", 8
    while png.startswith(SIGNATURE) and at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        chunks[kind], rows, at = content, rows + (content if kind == b"IDAT" else b""), at + 12 + length
    width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks.get(b"IHDR", bytes(13)))
    if bits != 8 or colour not in _COLOURS or interlaced:
        raise UsageError("A PDF takes the picture of a PNG with 8 bits a colour. Write an .svg or a .png instead.")
    space, mask = _COLOURS[colour], ""
    if colour == _PALETTE:
        palette = chunks[b"PLTE"]
        space = f"[/Indexed /DeviceRGB {len(palette) // 3 - 1} <{palette.hex()}>]"
        mask = f"/Mask [{len(chunks[b'tRNS']) - 1} {len(chunks[b'tRNS']) - 1}] " if b"tRNS" in chunks else ""
    numbers = 3 if colour == _RGB else 1
    head = (
        f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent 8 /ColorSpace "
        f"{space} /Filter /FlateDecode "
        f"/DecodeParms << /Predictor 15 /Colors {numbers} /BitsPerComponent 8 /Columns {width} >> "
        f"{mask}/Length {len(rows)} >>\nstream\n"
    )
    return head.encode() + rows + b"\nendstream"


def _paint(look: Mapping[str, str]) -> str:
    filled, stroked = look.get("fill", "none") != "none", look.get("stroke", "none") != "none"
    return "B" if filled and stroked else "f" if filled else "S"


def _n(value: float) -> str:
    """A number with four decimals, without trailing zeros and negative zero."""
    return f"{round(value, 4) + 0.0:.4f}".rstrip("0").rstrip(".")
