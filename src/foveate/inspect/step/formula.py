"""Converts formulas from MathML to plain text, to LaTeX, and to letters and lines of a drawing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from xml.etree import ElementTree

from foveate.inspect.figure.letter import width
from foveate.inspect.figure.svg_layout import Pixels

_LOW = str.maketrans("0123456789+−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")
_COMMANDS = {
    "α": r"\alpha", "ω": r"\omega", "σ": r"\sigma", "τ": r"\tau", "∑": r"\sum", "·": r"\cdot", "−": "-", "∈": r"\in",
    "∞": r"\infty", "√": r"\surd", "×": r"\times", "…": r"\dots", "≤": r"\le", "≥": r"\ge", "′": "'",
}  # fmt: skip
_LARGE = 1.35
"""The size of a sum sign relative to a letter."""


@cache
def _tree(mathml: str) -> ElementTree.Element:
    return ElementTree.fromstring(mathml)


def plain(mathml: str) -> str:
    """A formula in one line of text.

    >>> from foveate.inspect.step.mathml import fraction, math, name, number, root, sub
    >>> plain(math(sub(name("e"), name("i"), name("j")))), plain(math(fraction(number(1), root(name("d")))))
    ('eᵢⱼ', '1/√d')
    """
    return _plain(_tree(mathml)).strip()


def _plain(element: ElementTree.Element) -> str:
    parts = [_plain(child) for child in element]
    match element.tag:
        case "mo":
            sign = element.text or ""
            return sign if sign in "()[]|·" else f"{sign} " if sign == "," else f" {sign} "
        case "mi" | "mn":
            return element.text or ""
        case "msub":
            return parts[0] + _lowered(parts[1].replace(" ", ""))
        case "msup":
            return f"{parts[0]}^{_grouped(parts[1])}"
        case "mfrac":
            return f"{_grouped(parts[0])}/{_grouped(parts[1])}"
        case "msqrt":
            return f"√{_grouped(''.join(parts))}"
        case "munder":
            return parts[0].strip() + _lowered(parts[1].replace(" ", "")) + " "
    apart = zip(element, parts, strict=True)  # adjacent factors are a product
    return "".join(
        f" {part}" if i and _word(element[i - 1]) and _word(child) else part for i, (child, part) in enumerate(apart)
    )


def _word(element: ElementTree.Element) -> bool:
    """Whether a space is needed before following letters."""
    if element.tag == "mrow" and len(element):
        return _word(element[0])
    return element.tag in ("mi", "mn", "msub", "msup")


def _lowered(index: str) -> str:
    low = index.translate(_LOW)
    return low if all(a != b for a, b in zip(low, index, strict=True)) else f"_{_grouped(index)}"


def _grouped(part: str) -> str:
    part = part.strip()
    return part if " " not in part else f"({part})"


def latex(mathml: str) -> str:
    """A formula for LaTeX with amsmath, without delimiters.

    >>> from foveate.inspect.step.mathml import fraction, math, name, number, root, sub
    >>> print(latex(math(sub(name("k", bold=True), name("j")), fraction(number(1), root(name("d"))))))
    \\mathbf{k}_{j}\\frac{1}{\\sqrt{d}}
    """
    return _latex(_tree(mathml))


def _latex(element: ElementTree.Element) -> str:
    parts = [_latex(child) for child in element]
    text = (element.text or "").strip()
    match element.tag:
        case "mi" if len(text) > 1:
            return rf"\operatorname{{{escaped(text)}}}"
        case "mi":
            letter = _command(text)
            return rf"\mathbf{{{letter}}}" if element.get("mathvariant") == "bold" else letter
        case "mo" | "mn":
            return "".join(_command(letter) for letter in text)
        case "msub":
            return f"{parts[0]}_{{{parts[1]}}}"
        case "msup":
            return f"{parts[0]}^{{{parts[1]}}}"
        case "mfrac":
            return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"
        case "msqrt":
            return rf"\sqrt{{{''.join(parts)}}}"
        case "munder":
            return f"{parts[0]}_{{{parts[1]}}}"
    return "".join(parts)


def _command(letter: str) -> str:
    symbol = _COMMANDS.get(letter)
    return escaped(letter) if symbol is None else f"{symbol} " if symbol[0] == "\\" else symbol


def escaped(text: str) -> str:
    """Plain text for LaTeX, with escapes."""
    named = {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "−": "$-$",
        "√": r"$\surd$",
    }
    signs = {letter: rf"\{letter}" for letter in "#$%&_{}"}
    greek = {letter: f"${command}$" for letter, command in _COMMANDS.items() if command[0] == "\\"}
    return "".join({**greek, **signs, **named}.get(letter, letter) for letter in text)


@dataclass(frozen=True)
class Letters:
    """A run of letters in a drawing, with the position of its left end."""

    x: Pixels
    y: Pixels
    text: str
    size: Pixels
    bold: bool = False


@dataclass(frozen=True)
class Stroke:
    """A line of a fraction or a root: a thin rectangle with its upper left corner and its size."""

    x: Pixels
    y: Pixels
    width: Pixels
    height: Pixels


@dataclass(frozen=True)
class Box:
    """A part of a formula: its size above and below the baseline, and its letters and lines relative to (0, 0)."""

    width: Pixels
    above: Pixels
    below: Pixels
    drawn: tuple[Letters | Stroke, ...]

    def moved(self, x: Pixels, y: Pixels) -> tuple[Letters | Stroke, ...]:
        return tuple(type(part)(part.x + x, part.y + y, *tuple(vars(part).values())[2:]) for part in self.drawn)


def boxed(mathml: str, size: Pixels) -> Box:
    """The layout of a formula with letters of this size."""
    return _box(_tree(mathml), size)


def _box(element: ElementTree.Element, size: Pixels) -> Box:
    match element.tag:
        case "mi" | "mn":
            return _letters(element.text or "", size, bold=element.get("mathvariant") == "bold")
        case "mo":
            sign = element.text or ""
            room = 0.0 if sign in "()[]|" else 0.12 if sign in ",·" else 0.28
            return _spaced(_letters(sign, size), room * size, left=sign != ",")
        case "msub":
            return _indexed(_box(element[0], size), _box(element[1], 0.7 * size), -0.22 * size)
        case "msup":
            base = _box(element[0], size)
            return _indexed(base, _box(element[1], 0.7 * size), max(0.38 * size, base.above - 0.3 * size))
        case "mfrac":
            return _over(_box(element[0], 0.85 * size), _box(element[1], 0.85 * size), size)
        case "msqrt":
            return _rooted(_row([_box(child, size) for child in element]), size)
        case "munder":
            return _under(_letters(element[0].text or "", _LARGE * size), _box(element[1], 0.65 * size), size)
    return _row([_box(child, size) for child in element])


def _letters(text: str, size: Pixels, *, bold: bool = False) -> Box:
    return Box(width(text, bold=bold) * size, 0.76 * size, 0.22 * size, (Letters(0.0, 0.0, text, size, bold),))


def _spaced(box: Box, room: Pixels, *, left: bool) -> Box:
    before = room if left else 0.0
    return Box(box.width + before + room, box.above, box.below, box.moved(before, 0.0))


def _row(boxes: Sequence[Box]) -> Box:
    at, drawn = 0.0, list[Letters | Stroke]()
    for box in boxes:
        drawn += box.moved(at, 0.0)
        at += box.width
    return Box(at, _most(boxes, lambda box: box.above), _most(boxes, lambda box: box.below), tuple(drawn))


def _most(boxes: Sequence[Box], what: Callable[[Box], Pixels]) -> Pixels:
    return max((what(box) for box in boxes), default=0.0)


def _indexed(base: Box, index: Box, rise: Pixels) -> Box:
    drawn = (*base.drawn, *index.moved(base.width + 0.5, -rise))
    return Box(
        base.width + index.width + 1.0, max(base.above, index.above + rise), max(base.below, index.below - rise), drawn
    )


def _over(above: Box, below: Box, size: Pixels) -> Box:
    wide, middle, gap = max(above.width, below.width) + 0.4 * size, 0.3 * size, 0.12 * size
    up, down = middle + gap + above.below, middle - gap - below.above
    line = Stroke(0.1 * size, -middle - 0.5, wide - 0.2 * size, 1.0)
    drawn = (*above.moved((wide - above.width) / 2, -up), line, *below.moved((wide - below.width) / 2, -down))
    return Box(wide, up + above.above, below.below - down, drawn)


def _rooted(inside: Box, size: Pixels) -> Box:
    sign = _letters("√", size)
    top = inside.above + 0.06 * size
    line = Stroke(sign.width - 0.05 * size, -top, inside.width + 0.1 * size, 1.0)
    return Box(
        sign.width + inside.width + 0.1 * size,
        top + 2,
        inside.below,
        (*sign.drawn, line, *inside.moved(sign.width, 0.0)),
    )


def _under(sign: Box, index: Box, size: Pixels) -> Box:
    wide = max(sign.width, index.width)
    low = 0.35 * size + index.above
    drawn = (*sign.moved((wide - sign.width) / 2, 0.15 * size), *index.moved((wide - index.width) / 2, low))
    return Box(wide + 0.2 * size, sign.above, low + index.below, drawn)
