"""The characters of pieces in their text, and the units that two tokenisations of one text have in common."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Int

from foveate.data.text import normalise
from foveate.errors import UsageError
from foveate.inspect.alignment import is_byte, piece_bytes
from foveate.inspect.caption import UNSPACED

if TYPE_CHECKING:
    from foveate.inspect.trace.track import Track

Unit = Literal["word", "piece"]
MARK = re.compile(r"<[^<>\x00-\x20]+>|\[[^\[\]\x00-\x20]+\]|___|_")
"""Begins, ends and gaps, which the viewer does not join with words."""
GAPS = ("___", "_")
"""Labels that are gaps in a text that is to be filled, and letters in any other."""
BROKEN = "�".encode()
"""The sign of an unknown character in a decoded text."""
OUTSIDE = -1
"""The unit of positions outside the text, such as its end."""


@dataclass(frozen=True, eq=False)
class Units:
    """The stretches of a text between characters where both tokenisations have a boundary."""

    texts: tuple[str, ...]
    one: Int[np.ndarray, " labels"]
    """For each label of the first track its unit, or `OUTSIDE`."""
    other: Int[np.ndarray, " others"]
    whole: bool
    """Whether the texts are the same; otherwise the units end where the texts begin to differ."""


def offsets_of(pieces: Sequence[str], text: str) -> tuple[tuple[int, int], ...] | None:
    """The start and end character of each piece in the normal form C of a text; equal ones for begin and end. Capitals
    and compatibility forms match their plain letters. None if the pieces do not spell this text.

    >>> offsets_of(["▁caf", "<0xC3>", "<0xA9>", "▁au", "@", "</s>"], "Café au@")
    ((0, 3), (3, 4), (3, 4), (5, 7), (7, 8), (8, 8))
    >>> offsets_of(["▁", "<0xC3>", "<0x89>", "mile"], "Émile")
    ((0, 0), (0, 1), (0, 1), (1, 5))
    """
    text = normalise(text)
    stream = bytearray()
    place: list[int] = []
    for at, letter in enumerate(text):
        folded = _folded(letter)
        stream += folded
        place += [at] * len(folded)
    spans: list[tuple[int, int]] = []
    passed, end = 0, 0
    for piece, spelled, count in _letters(pieces):
        folded = _folded(spelled.decode("utf-8")) if _whole(spelled) else spelled
        if not stream.startswith(folded, passed):
            if not MARK.fullmatch(piece):
                return None
            folded = BROKEN if piece == "<unk>" and stream.startswith(BROKEN, passed) else b""
        passed += len(folded)
        spans += [(place[passed - len(folded)], place[passed - 1] + 1) if folded else (end, end)] * count
        end = spans[-1][1]
    return tuple(spans) if passed == len(stream) else None


def _letters(pieces: Sequence[str]) -> Iterator[tuple[str, bytes, int]]:
    """Pieces with their bytes, and how many these are: those that spell a letter in bytes together, so that it can be
    compared as a letter.
    """
    spelled, at = piece_bytes(pieces), 0
    while at < len(pieces):
        whole, count = spelled[at], 1
        while is_byte(pieces[at]) and not _whole(whole) and at + count < len(pieces) and is_byte(pieces[at + count]):
            whole, count = whole + spelled[at + count], count + 1
        if not _whole(whole):  # bytes that are no letter, each for itself
            whole, count = spelled[at], 1
        yield pieces[at], whole, count
        at += count


def is_mark(label: str) -> bool:
    """Whether a label is a begin, an end or what may be a gap, and not a byte of the text.

    >>> is_mark("</s>"), is_mark("___"), is_mark("<0xC5>"), is_mark("a")
    (True, True, False, False)
    """
    return MARK.fullmatch(label) is not None and not is_byte(label)


def _whole(spelled: bytes) -> bool:
    try:
        spelled.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _folded(letters: str) -> bytes:
    """Letters without capitals, compatibility forms and space, so that a text and its pieces can be compared."""
    plain = (unicodedata.normalize("NFKC", letter).lower() for letter in letters)
    return "".join(letter for folded in plain for letter in folded if not _blank(letter)).encode()


def _blank(letter: str) -> bool:
    return letter == "▁" or (letter.isspace() and not "\x1c" <= letter <= "\x1f")  # as in Unicode's White_Space


def common_units(one: "Track", other: "Track", *, unit: Unit = "word", prefix: bool = False) -> Units:
    """The units of two tracks of one text, whatever their pieces: words, or with "piece" the shortest stretches.

    With `prefix` the texts may differ: the units end where they do. Raises UsageError for texts that differ and for
    tracks without text or offsets.

    >>> from foveate.inspect.trace.track import Track
    >>> one = Track.of_pieces(["▁the", "▁ca", "ts", "▁sleep", "</s>"], text="the cats sleep")
    >>> other = Track.of_pieces(["▁the", "▁cat", "s", "▁sl", "eep"], text="the cats sleep")
    >>> units = common_units(one, other)
    >>> units.texts, units.one.tolist(), units.other.tolist()
    (('the', 'cats', 'sleep'), [0, 1, 1, 2, -1], [0, 1, 1, 2, 2])
    """
    first, second = _Reading(one), _Reading(other)
    same = first.letters == second.letters
    if not same and not prefix:
        raise UsageError(
            f"The two traces read different texts: {_brief(first.text)} and {_brief(second.text)}. Let both models "
            "read the same one."
        )
    pairs = enumerate(zip(first.letters, second.letters, strict=False))
    length = min(len(first.letters), len(second.letters))
    shared = next((at for at, (letter, beside) in pairs if letter != beside), length)
    cuts = first.cuts & second.cuts
    cuts &= first.edges & second.edges if unit == "word" or not same else cuts
    spans, begin = [], 0
    for cut in sorted(cut for cut in cuts if begin < cut <= shared):
        if first.reaches(begin, cut) and second.reaches(begin, cut):
            spans.append((begin, cut))
            begin = cut
    if spans and same:
        spans[-1] = spans[-1][0], shared
    texts = tuple(first.written(*span) for span in spans)
    return Units(texts, first.units(spans), second.units(spans), same)


class _Reading:
    """A text without its spaces, and the stretch of each label in it."""

    def __init__(self, track: "Track") -> None:
        if track.kind != "tokens" or track.text is None or track.offsets is None:
            shown = ", ".join(track.labels[:4])
            raise UsageError(
                f"The track of {shown} … has no text with the characters of each label, so two traces cannot be "
                "aligned by it. Record the trace again with this version, or give the track its `text` and `offsets`."
            )
        own = track.text
        self.text = normalise(own)
        passed = [0, *accumulate(0 if _blank(letter) else 1 for letter in self.text)]
        at = (lambda end: int(end)) if own == self.text else (lambda end: len(normalise(own[: int(end)])))
        self.spans = [(passed[at(begin)], passed[at(end)]) for begin, end in track.offsets]
        self.places = [place for place, letter in enumerate(self.text) if not _blank(letter)]
        self.letters = "".join(self.text[place] for place in self.places)
        self.marks = [is_mark(label) for label in track.labels]

    @property
    def cuts(self) -> set[int]:
        """The places between two letters of no label."""
        inside = {place for begin, end in self.spans for place in range(begin + 1, end)}
        return set(range(len(self.letters) + 1)) - inside

    @property
    def edges(self) -> set[int]:
        """The places where a word begins or ends, and those around letters of scripts without spaces."""
        alone = [UNSPACED.match(letter) is not None for letter in self.letters]
        inner = range(1, len(self.letters))
        apart = {at for at in inner if self.places[at] > self.places[at - 1] + 1 or alone[at] or alone[at - 1]}
        return apart | {0, len(self.letters)}

    def reaches(self, begin: int, end: int) -> bool:
        """Whether a label lies in a stretch."""
        return any(begin <= first < last <= end for first, last in self.spans)

    def written(self, begin: int, end: int) -> str:
        return self.text[self.places[begin] : self.places[end - 1] + 1]

    def units(self, spans: Sequence[tuple[int, int]]) -> Int[np.ndarray, " labels"]:
        """The number of the stretch of each label. A label without letters, such as the first byte of a letter, belongs
        to the stretch of the next one, unless it is a begin or an end.
        """
        ends = [end for _, end in spans]
        numbers = np.full(len(self.spans), OUTSIDE)
        after = OUTSIDE
        for label in reversed(range(len(self.spans))):
            begin, end = self.spans[label]
            if begin < end:
                after = bisect_right(ends, begin) if ends and end <= ends[-1] else OUTSIDE
            if begin < end or not self.marks[label]:
                numbers[label] = after
        return numbers


def _brief(text: str, most: int = 60) -> str:
    return repr(text if len(text) <= most else f"{text[:most]} …")
