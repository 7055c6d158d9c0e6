"""Labels in pictures: safe display of text, its reading direction, and its width."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

Direction = Literal["ltr", "rtl"]
Reading = Literal["auto", "ltr", "rtl"]

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Persian needs the non-joiner and emoji need the joiner; every other format character only hides or reorders text.
_JOINERS = "\u200c\u200d"
_EMOJI_STYLE = "\ufe0f"
UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u31f0-\u31ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U000323af]"
)
"""Thai, Lao, Myanmar, Khmer, Han and kana: scripts without spaces, in which every piece is a word. The viewer has
the same ranges (viewer/src/story/word.ts), and tests/golden/words.json has the cases of both."""


def printable(text: str) -> str:
    """The text with escapes for characters that are invisible, or would reorder or break the picture.

    Controls, bidirectional controls, line separators, unusual spaces, lone surrogates and non-characters become
    `\\u202e` and the like; spaces at either end become `␣`; a mark without a letter sits on `◌`; nothing at all is `∅`.

    >>> printable("a\\u202eb"), printable(" the"), printable("\\n"), printable("")
    ('a\\\\u202eb', '␣the', '\\\\n', '∅')
    """
    if not text:
        return "∅"
    if text.strip(_JOINERS) == "":
        return "".join(_escape(character) for character in text)
    core = text.strip(" ")
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" ")) if core else 0
    shown = "".join(character if _visible(character) else _escape(character) for character in core)
    if shown and unicodedata.category(shown[0]).startswith("M"):
        shown = "◌" + shown
    return "␣" * before + shown + "␣" * after


def _visible(character: str) -> bool:
    if character in _JOINERS or character == " ":
        return True
    category = unicodedata.category(character)
    if category == "Cn":  # an unassigned code may become a letter; a non-character cannot, and XML does not allow it
        return ord(character) & 0xFFFE != 0xFFFE and not 0xFDD0 <= ord(character) <= 0xFDEF
    return category not in {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"}


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return _NAMED.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def first_strong(text: str, default: Direction = "ltr") -> Direction:
    """The direction of the first strong character, like `dir="auto"`; `default` without one (".", "12").

    >>> first_strong("سلام"), first_strong("¿qué"), first_strong("...", default="rtl")
    ('rtl', 'ltr', 'rtl')
    """
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in {"L", "R", "AL"}:
            return "ltr" if kind == "L" else "rtl"
    return default


def reading_direction(labels: Iterable[str], reading: Reading = "auto") -> Direction:
    """The reading direction of a sequence of labels: that of most of its strong characters, or `reading`.

    >>> reading_direction(["سلام", "دنیا", "OK"]), reading_direction(["你好", "。"]), reading_direction([])
    ('rtl', 'ltr', 'ltr')
    """
    if reading != "auto":
        return reading
    kinds = [unicodedata.bidirectional(character) for label in labels if not _symbol(label) for character in label]
    right_to_left = sum(kind in {"R", "AL"} for kind in kinds)
    return "rtl" if right_to_left > kinds.count("L") else "ltr"


def _symbol(label: str) -> bool:
    """Whether the label is a symbol of the vocabulary, `</s>` or `<unk>`, whose Latin letters do not belong to the
    text.
    """
    return len(label) > 2 and label.startswith("<") and label.endswith(">")


def joins(text: str) -> bool:
    """Whether the text contains a script with joined letters (Arabic, Persian, Syriac …), which cannot be stacked."""
    return len(text) > 1 and any(unicodedata.bidirectional(character) == "AL" for character in text)


def clusters(text: str) -> list[str]:
    """Split a text into characters as readers count them: a base with its combining marks, or a joined emoji.

    >>> len(clusters("e\\u0301a")), len(clusters("\\U0001f469\\u200d\\U0001f4bb"))
    (2, 1)
    """
    texts: list[str] = []
    for character in text:
        if texts and (unicodedata.category(character)[0] == "M" or character in _JOINERS or texts[-1][-1] == "\u200d"):
            texts[-1] += character
        else:
            texts.append(character)
    return texts


def cell_width(text: str) -> int:
    """The width of a text in terminal columns: two for wide East Asian characters, none for combining marks.

    >>> cell_width("abc"), cell_width("注意"), cell_width("e\\u0301")
    (3, 4, 1)
    """
    return sum(_cluster_width(cluster) for cluster in clusters(text))


def _cluster_width(cluster: str) -> int:
    if _EMOJI_STYLE in cluster or "\u200d" in cluster[:-1]:
        return 2
    return sum(_character_width(character) for character in cluster)


def _character_width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"} or 0x1160 <= ord(character) <= 0x11FF:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """The text shortened to `width` terminal columns, with an ellipsis, but never within a character.

    >>> fit("attention", 6), fit("注意力", 4)
    ('atten…', '注…')
    """
    if cell_width(text) <= width:
        return text
    line, used = "", 1
    for cluster in clusters(text):
        used += _cluster_width(cluster)
        if used > width:
            break
        line += cluster
    return line + ellipsis
