"""What was attended from or to: tokens of a text, patches of a picture, frames of speech, nodes of a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from foveate.errors import DataError, UsageError
from foveate.inspect.alignment import word_spans

Span = tuple[int, int]
TrackKind = Literal["tokens", "patches", "frames", "nodes"]
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "؟", "۔")


@dataclass(frozen=True, kw_only=True)
class Track:
    """One axis of a map: a label for every position, and where the positions stand in what they were made from.

    >>> track = Track.of_pieces(["▁I", "▁am", "▁a", "▁ro", "bot", "."])
    >>> track.words
    ((0, 1), (1, 2), (2, 3), (3, 6))
    """

    labels: tuple[str, ...]
    kind: TrackKind = "tokens"
    text: str | None = None
    offsets: tuple[tuple[float, float], ...] | None = None
    """Of each label: first and last character, seconds, or row and column."""
    words: tuple[Span, ...] | None = None
    """Half-open ranges of labels; in order, without gaps."""
    sentences: tuple[Span, ...] | None = None
    grid: tuple[int, int] | None = None
    """Rows and columns of a picture's patches."""
    hop: float | None = None
    """Seconds from one frame to the next."""
    edges: tuple[tuple[int, ...], ...] | None = None
    """Of a graph: sources above targets."""

    def __post_init__(self) -> None:
        for name in ("words", "sentences"):
            _require_cover(name, getattr(self, name), len(self.labels))
        if self.offsets is not None and len(self.offsets) != len(self.labels):
            raise UsageError(f"{len(self.labels)} labels have {len(self.offsets)} offsets: give one for each label.")
        if self.grid is not None and self.grid[0] * self.grid[1] > len(self.labels):
            raise UsageError(
                f"A grid of {self.grid[0]} × {self.grid[1]} has more patches than {len(self.labels)} labels."
            )

    @classmethod
    def of_pieces(cls, pieces: Sequence[str], *, text: str | None = None) -> "Track":
        """A track of subword pieces, with the words and sentences that their marks tell."""
        words = word_spans(pieces)
        return cls(labels=tuple(pieces), text=text, words=words, sentences=sentence_spans(pieces, words))

    @classmethod
    def numbered(cls, count: int, *, kind: TrackKind = "tokens") -> "Track":
        """A track whose labels are nothing but numbers."""
        return cls(labels=tuple(str(index) for index in range(count)), kind=kind)

    def __len__(self) -> int:
        return len(self.labels)

    def cut(self, rows: slice) -> "Track":
        """Some of the positions; without spans and edges, which the cut may have torn."""
        offsets = None if self.offsets is None else self.offsets[rows]
        torn: dict[str, Any] = dict.fromkeys(("words", "sentences", "grid", "edges"))
        return replace(self, labels=self.labels[rows], offsets=offsets, **torn)

    def spans(self, level: Literal["word", "sentence"]) -> tuple[Span, ...]:
        """The units of a semantic level; where there are none, every label is one."""
        known = self.words if level == "word" else self.sentences
        return tuple((index, index + 1) for index in range(len(self))) if known is None else known

    def header(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {field.name: _listed(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def read(cls, header: Mapping[str, Any], where: str) -> "Track":
        """A track from plain data; raises DataError when it is not one."""
        known = {field.name for field in fields(cls)}
        try:
            parts = {name: _frozen(value) for name, value in header.items() if name in known}
            return cls(**parts)
        except (TypeError, ValueError) as error:
            raise DataError(f"{where} is no sequence of labels: {error}") from error


def sentence_spans(pieces: Sequence[str], words: Sequence[Span]) -> tuple[Span, ...]:
    """Words up to one that ends a sentence. A rough rule, for zooming out and not for linguistics.

    >>> pieces = ["▁So", ".", "▁Why", "?"]
    >>> sentence_spans(pieces, word_spans(pieces))
    ((0, 2), (2, 4))
    """
    ends = [end for _, end in words if pieces[end - 1].endswith(_SENTENCE_ENDS)]
    ends = [*ends, len(pieces)] if not ends or ends[-1] != len(pieces) else ends
    return tuple(zip([0, *ends[:-1]], ends, strict=True)) if pieces else ()


def _require_cover(name: str, spans: tuple[Span, ...] | None, length: int) -> None:
    if spans is None:
        return
    ends = [0, *(end for _, end in spans)]
    if ends[-1] != length or any(begin != ends[i] or end <= begin for i, (begin, end) in enumerate(spans)):
        raise UsageError(
            f"The {name} do not cover the {length} labels one after another: each span begins where the one before "
            "ends, the first at 0."
        )


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value
