"""Fonts of pictures: the font of each letter, the width of texts, and letters without a font.

DejaVu Sans comes with the package, for Latin, Greek, Cyrillic, Armenian, Georgian, Hebrew and Arabic scripts (including
Persian) and for signs. Other letters use the fonts of the machine.
"""

import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from foveate.errors import SetupError
from foveate.inspect.caption import Direction, cell_width

if TYPE_CHECKING:
    import uharfbuzz

FOLDER = Path(__file__).parent / "dejavu"
_KINDS = frozenset({".ttf", ".otf", ".ttc", ".otc"})
_OUTLINES = frozenset({"glyf", "CFF ", "CFF2"})
_FANCY = (
    "bold",
    "black",
    "light",
    "thin",
    "medium",
    "italic",
    "oblique",
    "mono",
    "condensed",
    "serif",
    "emoji",
    "symbol",
)


@dataclass(frozen=True)
class Face:
    """One font of a file; a collection contains several."""

    path: Path
    index: int = 0

    @cached_property
    def face(self) -> "uharfbuzz.Face":
        import uharfbuzz

        return uharfbuzz.Face(uharfbuzz.Blob.from_file_path(str(self.path)), self.index)

    @cached_property
    def font(self) -> "uharfbuzz.Font":
        import uharfbuzz

        return uharfbuzz.Font(self.face)

    @cached_property
    def family(self) -> str:
        return str(self.face.get_name(16) or self.face.get_name(1) or self.path.stem)

    @cached_property
    def outlined(self) -> bool:
        """Whether its letters are outlines, unlike those of fonts of coloured pictures."""
        return not _OUTLINES.isdisjoint(self.face.table_tags)

    def has(self, letters: Iterable[str]) -> bool:
        return all(self.font.get_nominal_glyph(ord(letter)) for letter in letters)

    def advance(self, letter: str) -> float | None:
        """The width of a single letter relative to the font size; None for a letter that the font lacks."""
        glyph = self.font.get_nominal_glyph(ord(letter))
        return self.font.get_glyph_h_advance(glyph) / self.face.upem if glyph else None


REGULAR, BOLD = Face(FOLDER / "DejaVuSans.ttf"), Face(FOLDER / "DejaVuSans-Bold.ttf")


def width(text: str, *, bold: bool = False) -> float:
    """The width of a text in DejaVu Sans, one of the widest fonts of its kind, relative to the font size.

    Letters that it lacks count as squares, or as digits if their width in a terminal is one column.

    >>> round(width("attention"), 2), round(width("attention", bold=True), 2), width("注意")
    (4.56, 5.24, 2.1)
    """
    return sum((_advance(letter, bold) for letter in text), start=0.0)


@cache
def _advance(letter: str, bold: bool) -> float:
    advance = (BOLD if bold else REGULAR).advance(letter)
    if advance is not None:
        return 0.0 if unicodedata.category(letter) == "Mn" else advance
    return {0: 0.0, 1: 0.64}.get(cell_width(letter), 1.05)


def faces(text: str, *, bold: bool = False, outlined: bool = True) -> dict[str, Face]:
    """The font of each letter of a text: the bundled one, or the plainest installed one.

    Raises `SetupError`, which names the letters, if no font has them.
    """
    own, letters = BOLD if bold else REGULAR, sorted({letter for letter in text if _drawn(letter)})
    missing = tuple(letter for letter in letters if not own.has(letter))
    faces_of = dict.fromkeys(letters, own) | _elsewhere(missing, outlined, bold)
    lost = [letter for letter in letters if letter not in faces_of or (faces_of[letter] is own and letter in missing)]
    if lost:
        scripts = sorted({unicodedata.name(letter, "UNNAMED").split()[0].title() for letter in lost})
        raise SetupError(
            f"no font on this machine can draw {'these letters' if len(lost) > 1 else 'the letter'} "
            f"{' '.join(lost)} ({', '.join(scripts)}) of {text!r}. Install a font that has them, such as one of the "
            "Noto fonts, or write an .svg: its text stays text, and a browser draws it with the fonts of its reader."
        )
    return faces_of


def _drawn(letter: str) -> bool:
    """Whether a letter needs a glyph: direction marks, joiners and variant selectors do not."""
    return unicodedata.category(letter) not in {"Cf", "Zs"} and not 0xFE00 <= ord(letter) <= 0xFE0F


@cache
def _elsewhere(letters: tuple[str, ...], outlined: bool, bold: bool) -> dict[str, Face]:
    """Installed fonts for these letters, as few as possible."""
    face_of: dict[str, Face] = {}
    if not letters:
        return face_of
    partly: list[tuple[Face, list[str]]] = []
    for face in _installed(letters, bold):
        if outlined and not face.outlined:
            continue
        here = [letter for letter in letters if face.has(letter)]
        if len(here) == len(letters):
            return dict.fromkeys(letters, face)
        if here:
            partly.append((face, here))
    while partly:
        face, here = max(partly, key=lambda entry: len(set(entry[1]) - face_of.keys()))
        new = set(here) - face_of.keys()
        if not new:
            break
        face_of |= dict.fromkeys(sorted(new), face)
    return face_of


def _installed(letters: Iterable[str], bold: bool) -> Iterator[Face]:
    """All readable fonts of the machine, plain or plainly bold ones first; in a collection, that of the language
    first.
    """
    for path in installed_files(bold):
        try:
            first = Face(path)
            count = int(first.face.count) or 1
        except Exception:  # skip damaged fonts
            continue
        yield from sorted(
            (Face(path, index) for index in range(count)), key=lambda face: (_foreign(face, letters), face.index)
        )


def _foreign(face: Face, letters: Iterable[str]) -> bool:
    """Whether a font of Chinese, Japanese or Korean signs is made for another of these languages."""
    names = {unicodedata.name(letter, "").split()[0] for letter in letters if unicodedata.name(letter, "")}
    region = "KR" if "HANGUL" in names else "JP" if names & {"HIRAGANA", "KATAKANA"} else "SC"
    return not face.family.endswith(region)


@cache
def installed_files(bold: bool = False) -> tuple[Path, ...]:
    """The font files of the machine, in a fixed order: plain ones first, or those that are bold and nothing else."""
    paths = [
        path
        for folder in _folders()
        if folder.is_dir()
        for path in folder.rglob("*")
        if path.suffix.lower() in _KINDS and path.is_file()
    ]
    return tuple(sorted(paths, key=lambda path: (*_plainness(path.stem.lower(), bold), str(path))))


def _plainness(name: str, bold: bool) -> tuple[int, bool]:
    fancy = sum(word in name for word in _FANCY if word != "bold")
    return fancy + (("bold" in name) != bold), "sans" not in name


def _folders() -> list[Path]:
    home = Path.home()
    if sys.platform == "darwin":
        return [home / "Library/Fonts", Path("/Library/Fonts"), Path("/System/Library/Fonts")]
    if sys.platform == "win32":
        windows, local = os.environ.get("WINDIR", "C:/Windows"), os.environ.get("LOCALAPPDATA", "")
        return [Path(windows, "Fonts"), *([Path(local, "Microsoft/Windows/Fonts")] if local else [])]
    shared = os.environ.get("XDG_DATA_DIRS", "/usr/local/share:/usr/share").split(":")
    own = os.environ.get("XDG_DATA_HOME", str(home / ".local/share"))
    return [*(Path(folder, "fonts") for folder in (own, *shared) if folder), home / ".fonts"]


@dataclass(frozen=True)
class Run:
    """Neighbouring letters that one font draws in one direction."""

    text: str
    face: Face
    direction: Direction

    def shaped(self) -> "uharfbuzz.Buffer":
        """The glyphs from left to right: joined, combined and kerned by HarfBuzz, in units of the font."""
        import uharfbuzz

        buffer = uharfbuzz.Buffer()
        buffer.add_str(self.text)
        buffer.guess_segment_properties()
        buffer.direction = self.direction
        uharfbuzz.shape(self.face.font, buffer)
        return buffer

    @property
    def width(self) -> float:
        """The width relative to the font size."""
        return sum((place.x_advance for place in self.shaped().glyph_positions), start=0.0) / self.face.face.upem


def runs(text: str, direction: Direction, *, bold: bool = False, outlined: bool = True) -> list[Run]:
    """The runs of a line of text, in visual order from left to right.

    >>> [run.text for run in runs("see سلام 12", "ltr")]
    ['see ', '12', 'سلام ']

    Reference: Unicode standard annex 9, without embeddings, which are escapes in labels.
    """
    known = faces(text, bold=bold, outlined=outlined)
    levels = _levels(text, direction)
    parts: list[tuple[str, Face, int]] = []
    for letter, level in zip(text, levels, strict=True):
        face = known.get(letter, parts[-1][1] if parts else BOLD if bold else REGULAR)
        if parts and parts[-1][2] == level and (parts[-1][1] == face or unicodedata.combining(letter)):
            parts[-1] = (parts[-1][0] + letter, parts[-1][1], level)
        else:
            parts.append((letter, face, level))
    for level in range(max(levels, default=0), 0, -1):
        at = 0
        while at < len(parts):
            end = at
            while end < len(parts) and parts[end][2] >= level:
                end += 1
            parts[at:end] = parts[at:end][::-1]
            at = max(end, at + 1)
    return [Run(part, face, "rtl" if level % 2 else "ltr") for part, face, level in parts]


def _levels(text: str, direction: Direction) -> list[int]:
    """The level of each letter; even levels run from left to right. Rules have the names of the annex."""
    base = "R" if direction == "rtl" else "L"
    kinds = _weak([unicodedata.bidirectional(letter) or "L" for letter in text], base)
    _bracketed(text, kinds, base)
    sides = [{"EN": "R", "AN": "R"}.get(kind, kind) for kind in kinds]
    for at, side in enumerate(sides):  # N1, N2: neutral characters
        if side not in "LR":
            left = sides[at - 1] if at else base
            right = next((other for other in sides[at:] if other in "LR"), base)
            sides[at] = kinds[at] = left if left == right else base
    even = 2 if direction == "rtl" else 0
    return [1 if kind == "R" else 2 if kind in ("EN", "AN") else even for kind in kinds]


def _weak(kinds: list[str], base: str) -> list[str]:
    """W1 to W7: marks, numbers and adjacent signs."""
    strong = base
    for at, kind in enumerate(kinds):
        if kind == "NSM":
            kinds[at] = kind = kinds[at - 1] if at else base
        if kind in ("L", "R", "AL"):
            strong = kind
        elif kind == "EN" and strong == "AL":
            kinds[at] = "AN"
    kinds = ["R" if kind == "AL" else kind for kind in kinds]
    for at in range(1, len(kinds) - 1):
        before, kind, after = kinds[at - 1 : at + 2]
        if before == after and ((kind == "CS" and before in ("EN", "AN")) or (kind == "ES" and before == "EN")):
            kinds[at] = before
    for order in (range(len(kinds)), range(len(kinds) - 1, -1, -1)):
        step = 1 if order.step > 0 else -1
        for at in order:
            if kinds[at] == "ET" and 0 <= at - step < len(kinds) and kinds[at - step] == "EN":
                kinds[at] = "EN"
    strong = base
    for at, kind in enumerate(kinds):
        strong = kind if kind in ("L", "R") else strong
        if kind == "EN" and strong == "L":
            kinds[at] = "L"
        elif kind not in ("L", "R", "EN", "AN"):
            kinds[at] = "N"
    return kinds


def _bracketed(text: str, kinds: list[str], base: str) -> None:
    """N0: a pair of brackets has the direction of its content, unless line and preceding text have the opposite one."""
    opened: list[int] = []
    pairs: list[tuple[int, int]] = []
    for at, letter in enumerate(text):
        if letter in _BRACKETS and kinds[at] == "N":
            opened.append(at)
        elif letter in _BRACKETS.values() and kinds[at] == "N":
            match = next((place for place in reversed(opened) if _BRACKETS[text[place]] == letter), None)
            if match is not None:
                del opened[opened.index(match) :]
                pairs.append((match, at))
    for begin, end in sorted(pairs):
        inside = {"L" if kind == "L" else "R" for kind in kinds[begin + 1 : end] if kind != "N"}
        if not inside:
            continue
        before = next(("L" if kind == "L" else "R" for kind in reversed(kinds[:begin]) if kind != "N"), base)
        kinds[begin] = kinds[end] = base if base in inside or before == base else before


_BRACKETS = {"(": ")", "[": "]", "{": "}", "⟨": "⟩"}
