"""The axes of maps: tokens of a text, patches of a picture, frames of speech, nodes of a graph."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from foveate.data.text import normalise
from foveate.errors import DataError, UsageError
from foveate.inspect.alignment import readable, word_spans
from foveate.inspect.graph_layout import arranged
from foveate.inspect.text_unit import offsets_of
from foveate.inspect.trace.media import Picture
from foveate.inspect.trace.sound import Sound

Span = tuple[int, int]
TrackKind = Literal["tokens", "patches", "frames", "nodes"]
BONDS = ("single", "double", "triple", "aromatic")
SCENES = frozenset({"picture", "sound", "places", "bonds", "notes", "focus"})
"""The fields of a track that version 2 of traces has added."""
SPANNING = ("words", "sentences", "grid", "edges", "bonds", "focus", "picture", "sound")
"""The fields of a track that a part of its positions does not have."""
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "؟", "۔")


@dataclass(frozen=True, kw_only=True)
class Track:
    """One axis of a map: a label for every position, and the places of positions in their source.

    >>> track = Track.of_pieces(["▁I", "▁am", "▁a", "▁ro", "bot", "."])
    >>> track.words
    ((0, 1), (1, 2), (2, 3), (3, 6))
    """

    labels: tuple[str, ...]
    kind: TrackKind = "tokens"
    text: str | None = None
    offsets: tuple[tuple[int | float, int | float], ...] | None = None
    """For each label: start and end character, seconds, or row and column."""
    words: tuple[Span, ...] | None = None
    """Half-open ranges of labels, in order and without gaps."""
    sentences: tuple[Span, ...] | None = None
    grid: tuple[int, int] | None = None
    """The numbers of rows and columns of patches; additional labels, such as a class token, come first."""
    hop: float | None = None
    """The time between two frames, in seconds."""
    edges: tuple[tuple[int, ...], ...] | None = None
    """The edges of a graph: a row of sources above a row of targets."""
    picture: Picture | None = None
    """The picture of patches, or the spectrogram whose columns are frames."""
    sound: Sound | None = None
    places: tuple[tuple[float, float], ...] | None = None
    """The places of nodes in a drawing: from the left and from above, 0 to 1, both in the same unit."""
    bonds: tuple[str, ...] | None = None
    """The kind of each edge of a molecule, one of `BONDS`."""
    notes: tuple[str, ...] | None = None
    """For each label, what else is known: the predicted and the true label of a node, the number of an atom."""
    focus: int | None = None
    """The position that the track was made for, such as a node among its neighbours. The viewer begins with it."""

    def __post_init__(self) -> None:
        for name in ("words", "sentences"):
            _require_cover(name, getattr(self, name), len(self.labels))
        if self.offsets is not None and len(self.offsets) != len(self.labels):
            raise UsageError(f"{len(self.labels)} labels have {len(self.offsets)} offsets: give one for each label.")
        if self.grid is not None and self.grid[0] * self.grid[1] > len(self.labels):
            raise UsageError(
                f"A grid of {self.grid[0]} × {self.grid[1]} has more patches than {len(self.labels)} labels."
            )
        _require_scene(self)

    @classmethod
    def of_pieces(cls, pieces: Sequence[str], *, text: str | None = None) -> "Track":
        """A track of subword pieces, with words and sentences according to their marks, and the characters of each
        piece in the normal form C of the text, if the pieces spell it.
        """
        words, offsets = word_spans(pieces), None if text is None else offsets_of(pieces, text)
        text = text if text is None or offsets is None else normalise(text)
        return cls(
            labels=tuple(pieces), text=text, offsets=offsets, words=words, sentences=sentence_spans(pieces, words)
        )

    def shifted(self, start: str) -> "Track":
        """The pieces that a decoder reads when it writes those of this track: `start`, and each but the last.

        >>> Track.of_pieces(["▁a", "▁b", "</s>"], text="a b").shifted("<s>").offsets
        ((0, 0), (0, 1), (2, 3))
        """
        read = Track.of_pieces([start, *self.labels][: len(self)])
        offsets = None if self.offsets is None else ((0, 0), *self.offsets)[: len(self)]
        return replace(read, text=None if offsets is None else self.text, offsets=offsets)

    @classmethod
    def numbered(cls, count: int, *, kind: TrackKind = "tokens") -> "Track":
        """A track with numbers as labels."""
        return cls(labels=tuple(str(index) for index in range(count)), kind=kind)

    @classmethod
    def of_patches(cls, grid: tuple[int, int], *, picture: Any = None, before: Sequence[str] = ()) -> "Track":
        """Patches row after row, with their picture; `before` are labels of class tokens.

        >>> Track.of_patches((2, 2), before=["[class]"]).labels
        ('[class]', '0,0', '0,1', '1,0', '1,1')
        """
        labels = (*before, *(f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])))
        return cls(labels=labels, kind="patches", grid=grid, picture=_pictured(picture))

    @classmethod
    def of_frames(cls, count: int, *, hop: float, sound: Sound | None = None, picture: Any = None) -> "Track":
        """Frames of speech every `hop` seconds, with the sound and a spectrogram of the same duration."""
        labels = tuple(f"{frame * hop:.2f} s" for frame in range(count))
        return cls(labels=labels, kind="frames", hop=hop, sound=sound, picture=_pictured(picture))

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> "Track":
        """A track of the settings that a row maker gives: the picture is an array, the sound a recording with `samples`
        and `rate`, whose outline remains if it is too long to be played.
        """
        recording = settings.get("sound")
        return cls(**{**settings, "picture": _pictured(settings.get("picture")), "sound": _heard(recording)})

    @classmethod
    def of_nodes(
        cls,
        labels: Sequence[str],
        edges: Any,
        *,
        places: Any = None,
        bonds: Sequence[str] | None = None,
        notes: Sequence[str] | None = None,
        focus: int | None = None,
    ) -> "Track":
        """Nodes of a graph, with its edges (sources above targets) and the places of nodes in a drawing. The viewer
        computes missing places, `placed` those of a graph around a node.

        >>> bonds = ["double", "single", "single"]
        >>> Track.of_nodes("COHH", [[0, 0, 0], [1, 2, 3]], bonds=bonds, focus=0).placed().places[:2]
        ((0.5, 0.5), (0.5, 0.0))
        """
        return cls(
            labels=tuple(labels),
            kind="nodes",
            edges=_frozen(_plain(edges)),
            places=_places(_plain(places)),
            bonds=None if bonds is None else tuple(bonds),
            notes=None if notes is None else tuple(notes),
            focus=focus,
        )

    def placed(self) -> "Track":
        """The track with places of nodes: its own, or computed ones, in rings about `focus` by the number of edges."""
        if self.places is not None or self.edges is None:
            return self
        return replace(self, places=arranged(len(self), self.edges, self.focus))

    def __len__(self) -> int:
        return len(self.labels)

    def readable(self) -> "Track":
        """The track with labels for display, without the marks by which a vocabulary separates words."""
        return replace(self, labels=readable(self.labels)) if self.kind == "tokens" else self

    def cut(self, rows: slice) -> "Track":
        """The track of some positions, without spans, pictures and edges, which may be incomplete."""
        offsets = None if self.offsets is None else self.offsets[rows]
        places = None if self.places is None else self.places[rows]
        notes = None if self.notes is None else self.notes[rows]
        torn: dict[str, Any] = dict.fromkeys(SPANNING)
        return replace(self, labels=self.labels[rows], offsets=offsets, places=places, notes=notes, **torn)

    def spans(self, level: Literal["word", "sentence"]) -> tuple[Span, ...]:
        """The units of a semantic level; without units, every label is one."""
        known = self.words if level == "word" else self.sentences
        return tuple((index, index + 1) for index in range(len(self))) if known is None else known

    def header(self) -> dict[str, Any]:
        """Plain data for JSON. Fields that version 1 does not have are left out if they are empty."""
        plain = {field.name: _listed(getattr(self, field.name)) for field in fields(self)}
        return {name: value for name, value in plain.items() if value is not None or name not in SCENES}

    @classmethod
    def read(cls, header: Mapping[str, Any], where: str) -> "Track":
        """Read a track from plain data. Raises DataError if it is not a track."""
        known = {field.name for field in fields(cls)}
        try:
            parts = {name: _frozen(value) for name, value in header.items() if name in known}
            for name, kind in (("picture", Picture), ("sound", Sound)):
                if parts.get(name) is not None:
                    parts[name] = kind.read(parts[name])
            return cls(**{**parts, "places": _places(parts.get("places"))})
        except (AttributeError, KeyError, TypeError, ValueError, UsageError) as error:
            raise DataError(f"{where} is not a sequence of labels: {error}") from error


def encodable(text: str) -> str:
    """The text with � in place of lone surrogates, which no encoding can write."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def sentence_spans(pieces: Sequence[str], words: Sequence[Span]) -> tuple[Span, ...]:
    """The spans of sentences by punctuation: an approximation for zooming out.

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


def _require_scene(track: Track) -> None:
    """Raise an error for a picture or drawing whose size differs from the map."""
    count = len(track.labels)
    if track.picture is not None and track.kind == "patches" and track.grid is None:
        raise UsageError("A picture of patches needs `grid`: how many rows and columns it was cut into.")
    if track.places is not None:
        whole = all(len(place) == 2 and all(0 <= at <= 1 for at in place) for place in track.places)
        if len(track.places) != count or not whole:
            raise UsageError(f"{count} nodes need {count} places, each (x, y) from 0 to 1: from the left, from above.")
    if track.edges is not None:
        ends = [end for side in track.edges for end in side]
        if (
            len(track.edges) != 2
            or len({len(side) for side in track.edges}) != 1
            or any(not 0 <= end < count for end in ends)
        ):
            raise UsageError(f"Edges are two rows of equal length, sources and targets, numbers of the {count} nodes.")
    edges = 0 if track.edges is None else len(track.edges[0])
    if track.bonds is not None and (len(track.bonds) != edges or not set(track.bonds) <= set(BONDS)):
        raise UsageError(f"{edges} edges need {edges} bonds, each one of {', '.join(BONDS)}.")
    if track.notes is not None and len(track.notes) != count:
        raise UsageError(f"{count} labels have {len(track.notes)} notes: give one for each label.")
    if track.focus is not None and not 0 <= track.focus < count:
        raise UsageError(f"The focus is position {track.focus}, but there are {count}, counted from 0.")


def _heard(recording: Any) -> Sound | None:
    if recording is None:
        return None
    try:
        return Sound.of(recording.samples, rate=recording.rate)
    except UsageError:
        return Sound.of(recording.samples, seconds=len(recording.samples) / recording.rate)


def _pictured(picture: Any) -> Picture | None:
    return picture if picture is None or isinstance(picture, Picture) else Picture.of(picture)


def _places(value: Any) -> tuple[tuple[float, float], ...] | None:
    return None if value is None else tuple((float(x), float(y)) for x, y in value)


def _plain(value: Any) -> Any:
    """An array, a tensor or any iterable as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _listed(value: Any) -> Any:
    if isinstance(value, Picture | Sound):
        return value.header()
    if isinstance(value, str):
        return encodable(value)
    return [_listed(part) for part in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value
