"""Alignments are the weights between the pieces of two sequences, with their labels."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float32, Float64
from numpy.typing import ArrayLike

from foveate.errors import UsageError
from foveate.inspect.caption import UNSPACED, printable
from foveate.inspect.lift import equal

Span = tuple[int, int]
By = Literal["target", "source", "both", "either"]

SPECIAL = frozenset({"<pad>", "<s>", "</s>"})
# A piece with this beginning is the first of a word: SentencePiece, GPT-2, plain characters.
_WORD_BEGINS = ("▁", "Ġ", " ")
_TAG = re.compile(r"<2\w+>")
"""The tag of a language before a source, whose text may begin without a mark."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """The weight of each piece of the source (a column) for each piece of the target (a row).

    Weights are finite and not negative; rows of a softmax sum to 1, rows without visible pieces are 0. NaN is allowed,
    has its own mark in pictures, and is never linked. `visible` contains the pairs that a row may look at (None: all);
    hidden pairs have the weight 0, and pictures distinguish them from a visible 0. `share` is the weight of each pair
    if its row had equal weights for all visible pieces (None: 1 divided by their number). `grid` is the number of rows
    and columns of a picture whose patches are the last source labels; text drawings then show the picture. Arrays are
    copied and made read-only.

    >>> alignment = Alignment.of(["le", "chat"], ["the", "cat"], [[0.9, 0.1], [0.2, 0.8]])
    >>> alignment.pharaoh()
    '0-0 1-1'
    >>> alignment.entropy().round(2)
    array([0.33, 0.5 ])

    Raises `UsageError` if the shapes of labels and weights differ, or if a weight is negative, infinite, or hidden and
    not 0.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Float32[np.ndarray, "target source"]
    visible: Bool[np.ndarray, "target source"] | None = None
    share: Float32[np.ndarray, "target source"] | None = None
    grid: tuple[int, int] | None = None

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float32)
        expected = (len(self.target), len(self.source))
        if weights.shape != expected:
            raise UsageError(
                f"Alignment: weights have shape {weights.shape}, but {expected[0]} target and {expected[1]} source "
                f"labels need {expected}. Rows are target pieces, columns source pieces: transpose the weights or pass "
                "the other labels."
            )
        if (weights < 0).any() or np.isinf(weights).any():
            row, column = np.argwhere((weights < 0) | np.isinf(weights))[0]
            raise UsageError(
                f"Alignment: the weight of target {row} for source {column} is {weights[row, column]}. "
                "Pass attention weights (after the normaliser), which are finite and not negative."
            )
        visible = None if self.visible is None else _seen(self.visible, weights)
        weights.setflags(write=False)
        object.__setattr__(self, "source", tuple(self.source))
        object.__setattr__(self, "target", tuple(self.target))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "visible", visible)
        if self.share is not None:
            object.__setattr__(self, "share", _same_shape("share", np.array(self.share, dtype=np.float32), weights))

    @classmethod
    def of(
        cls,
        source: Iterable[str],
        target: Iterable[str],
        weights: ArrayLike,
        visible: ArrayLike | None = None,
        *,
        grid: tuple[int, int] | None = None,
    ) -> "Alignment":
        """An alignment from any array of numbers: nested lists, another precision, a tensor on the CPU."""
        source, target, array = tuple(source), tuple(target), np.asarray(weights, dtype=np.float32)
        empty = not array.size and not (source and target)  # `[]` has no second axis with a length
        shown = None if visible is None else np.asarray(visible, dtype=bool)
        return cls(source, target, array.reshape(len(target), len(source)) if empty else array, shown, grid=grid)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alignment):
            return NotImplemented
        same_labels = (self.source, self.target) == (other.source, other.target)
        same_weights = np.array_equal(self.weights, other.weights, equal_nan=True)
        return same_labels and same_weights and np.array_equal(self.hidden, other.hidden)

    def __repr__(self) -> str:
        return (
            f"<Alignment of {_counted(self.target, 'target')} with {_counted(self.source, 'source')}: {self._gist()}>"
        )

    def __str__(self) -> str:
        """The picture for a terminal, without colours."""
        from foveate.inspect.figure.text_block import terminal

        return terminal(self) if self.weights.size else repr(self)

    def _repr_html_(self) -> str | None:
        """The picture for a notebook, in the theme of the reader; None for an empty alignment."""
        from foveate.inspect.figure.vector import svg

        return f'<div style="overflow-x:auto">{svg(self, theme="auto")}</div>' if self.weights.size else None

    @property
    def hidden(self) -> Bool[np.ndarray, "target source"]:
        """The pairs that are not visible."""
        return np.zeros(self.weights.shape, dtype=bool) if self.visible is None else ~self.visible

    def hard(self, threshold: float | None = None, *, by: By = "target") -> set[tuple[int, int]]:
        """Links (source, target): each row's largest weight (the first of equals), or all from `threshold` on.

        A row without visible pieces has no link, and neither has a NaN. `by="source"` takes each column's largest
        weight instead, `"either"` the links of one of the two, `"both"` those of both, which are fewer and more
        reliable.

        >>> alignment = Alignment.of("ab", "xyz", [[0.6, 0.4], [0.9, 0.1], [0.3, 0.7]])
        >>> sorted(alignment.hard()), sorted(alignment.hard(by="both"))
        ([(0, 0), (0, 1), (1, 2)], [(0, 1), (1, 2)])
        """
        if threshold is not None:
            if not threshold > 0:
                raise UsageError(
                    f"Alignment.hard: threshold={threshold} would link everything. Choose one above 0, like 0.5."
                )
            return {(int(s), int(t)) for t, s in np.argwhere(self.weights >= threshold)}
        if not self.weights.size:
            return set()
        weights = np.nan_to_num(self.weights, nan=0.0)
        of_target = {(int(s), t) for t, s in enumerate(weights.argmax(axis=1)) if weights[t, s] > 0}
        of_source = {(s, int(t)) for s, t in enumerate(weights.argmax(axis=0)) if weights[t, s] > 0}
        joined = {"both": of_target & of_source, "either": of_target | of_source}
        return {"target": of_target, "source": of_source, **joined}[by]

    def pharaoh(self, threshold: float | None = None) -> str:
        """The hard links in the format of word aligners: `source-target` pairs, counted from 0, in order."""
        return " ".join(f"{s}-{t}" for s, t in sorted(self.hard(threshold)))

    def entropy(self) -> Float64[np.ndarray, " target"]:
        """−Σⱼ αᵢⱼ ln αᵢⱼ of each row, in nats: 0 for a single piece, ln(number of pieces) for equal weights."""
        weights = self.weights.astype(np.float64)
        logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)  # NaN makes its row NaN
        return np.abs((weights * logs).sum(axis=1))

    def lift(self) -> Float64[np.ndarray, "target source"]:
        """The ratio of each weight to an equal share: weight times number of visible pieces in its row.

        For merged pieces, it is the sum of their weights divided by the sum of their equal shares.

        >>> alignment = Alignment.of("abc", "xy", [[1, 0, 0], [0.5, 0.5, 0]], [[1, 0, 0], [1, 1, 0]])
        >>> alignment.lift().tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
        """
        shares = self._shares()
        return np.divide(self.weights, shares, out=np.zeros(shares.shape), where=shares > 0, dtype=np.float64)

    def _shares(self) -> Float32[np.ndarray, "target source"]:
        return equal(~self.hidden) if self.share is None else self.share

    def describe(self, most: int = 12) -> str:
        """The alignment in words, for readers who do not see its picture: the largest weight of each of the first rows.

        >>> Alignment.of(["le", "chat"], ["the"], [[0.9, 0.1]]).describe()
        '1 row (target) by 2 columns (source). the looks at le (0.90).'
        """
        source, target = ([printable(label) for label in readable(side)] for side in (self.source, self.target))
        links = sorted(self.hard(), key=lambda link: link[1])
        phrases = [f"{target[t]} looks at {source[s]} ({self.weights[t, s]:.2f})" for s, t in links[:most]]
        if len(links) > most:
            phrases.append(f"and so on for {len(links) - most} more")
        rows, columns = (
            f"{n} {word}{'s' * (n != 1)}" for n, word in zip(self.weights.shape, ("row", "column"), strict=True)
        )
        if np.isnan(self.weights).any():
            phrases.append(f"{int(np.isnan(self.weights).sum())} of the weights are not numbers")
        return f"{rows} (target) by {columns} (source). {'; '.join(phrases) or 'Nothing is looked at'}."

    def without_specials(self) -> "Alignment":
        """The same weights without the rows and columns of `<s>`, `</s>` and `<pad>`, without new normalisation.

        Call this before `pharaoh()`; otherwise links may point at the end symbol, which is not a word of the sentence.
        """
        rows = [i for i, label in enumerate(self.target) if label not in SPECIAL]
        columns = [j for j, label in enumerate(self.source) if label not in SPECIAL]
        return Alignment(
            tuple(self.source[j] for j in columns),
            tuple(self.target[i] for i in rows),
            self.weights[np.ix_(rows, columns)],
            None if self.visible is None else self.visible[np.ix_(rows, columns)],
            self._shares()[np.ix_(rows, columns)],
        )

    def readable(self) -> "Alignment":
        """The alignment with labels without the marks of pieces, as in pictures: see `readable`."""
        return replace(self, source=readable(self.source), target=readable(self.target))

    def words(self) -> "Alignment":
        """Merge subword pieces to words by their marks (`▁`, `Ġ`, a space; `@@` or `##` for continuations).

        Pieces of a side without marks are words already, and so are those of scripts without spaces. Weights are summed
        over the keys of a word and averaged over its queries, so that rows still sum to 1.

        >>> alignment = Alignment.of(["▁un", "seen"], ["▁in", "vis", "ible"], [[1, 0], [0.4, 0.6], [0.1, 0.9]])
        >>> alignment.words()
        <Alignment of 1 target piece with 1 source piece: invisible-unseen (1.00)>
        """
        return self.merge(word_spans(self.source), word_spans(self.target))

    def merge(self, source: Sequence[Span], target: Sequence[Span]) -> "Alignment":
        """Merge the pieces of each half-open span `(begin, end)`: sum over source pieces, mean over target pieces."""
        _check_spans("source", source, len(self.source))
        _check_spans("target", target, len(self.target))
        return Alignment(
            tuple(join_pieces(self.source[begin:end]) for begin, end in source),
            tuple(join_pieces(self.target[begin:end]) for begin, end in target),
            _merged(self.weights, source, target),
            None if self.visible is None else _any_of(self.visible, source, target),
            _merged(self._shares(), source, target),
            self.grid if len(source) == len(self.source) else None,
        )

    def _gist(self, most: int = 6) -> str:
        """The first links, abbreviated."""
        links = sorted(self.hard(), key=lambda link: link[1])
        names = [(printable(self.target[t]), printable(self.source[s]), self.weights[t, s]) for s, t in links]
        phrases = [f"{target}-{source} ({weight:.2f})" for target, source, weight in names]
        more = [f"and {len(phrases) - most} more"] if len(phrases) > most else []
        return ", ".join([*phrases[:most], *more]) or "nothing is looked at"


def _counted(labels: Sequence[str], side: str) -> str:
    return f"{len(labels)} {side} piece{'s' * (len(labels) != 1)}"


def _seen(visible: Bool[np.ndarray, "..."], weights: Float32[np.ndarray, "target source"]) -> np.ndarray:
    """A copy of `visible`, checked against the weights. Hidden cells of the weights become 0, also from NaN."""
    shown = _same_shape("visible", np.array(visible, dtype=bool), weights)
    if (weights[~shown] > 0).any():
        row, column = np.argwhere(~shown & (weights > 0))[0]
        raise UsageError(
            f"Alignment: target {row} may not look at source {column}, but has the weight {weights[row, column]}. "
            "Hidden pairs weigh 0."
        )
    weights[~shown] = 0
    return shown


def _same_shape(name: str, array: np.ndarray, weights: np.ndarray) -> np.ndarray:
    if array.shape != weights.shape:
        raise UsageError(f"Alignment: `{name}` has shape {array.shape}, but the weights have {weights.shape}.")
    array.setflags(write=False)
    return array


def _merged(weights: np.ndarray, source: Sequence[Span], target: Sequence[Span]) -> np.ndarray:
    """The sums over the columns of each span, averaged over its rows."""
    columns = [weights[:, begin:end].sum(axis=1, dtype=np.float64) for begin, end in source]
    summed = np.stack(columns, axis=1) if columns else np.zeros((weights.shape[0], 0))
    rows = [summed[begin:end].mean(axis=0) for begin, end in target]
    return (np.stack(rows) if rows else np.zeros((0, len(source)))).astype(np.float32)


def _any_of(visible: np.ndarray, source: Sequence[Span], target: Sequence[Span]) -> np.ndarray:
    """Whether merged pairs contain a visible pair."""
    if not source or not target:
        return np.zeros((len(target), len(source)), dtype=bool)
    across = np.logical_or.reduceat(visible, [begin for begin, _ in source], axis=1)
    return np.logical_or.reduceat(across, [begin for begin, _ in target], axis=0)


def readable(pieces: Sequence[str]) -> tuple[str, ...]:
    """Pieces for display, without the marks by which subword vocabularies separate words.

    A mark alone is shown as a space; pieces of bytes are converted to text.

    >>> readable(["▁read", "able", "▁", "</s>"]), readable(["play", "##ing"]), readable(["ĠcafÃ©", "s", "Ġ"])
    (('read', 'able', ' ', '</s>'), ('play', 'ing'), ('café', 's', ' '))
    """
    mark = _marks(pieces)
    return tuple(piece if piece in SPECIAL or not mark else _plain(piece, mark) for piece in pieces)


def _plain(piece: str, mark: str) -> str:
    if mark == "@@":
        return piece.removesuffix("@@") or piece
    if mark == "##":
        return piece.removeprefix("##") or piece
    if mark == "Ġ":
        piece, mark = _of_bytes(piece), " "
    bare = piece.removeprefix(mark)
    return bare.replace(mark, " ") if bare.strip(mark) else piece.replace(mark, " ")


def _of_bytes(piece: str) -> str:
    """The text of a piece in GPT-2's alphabet of bytes; the piece itself if it is a part of a letter."""
    try:
        return bytes(BYTES[letter] for letter in piece).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return piece.replace("Ġ", " ")


def _alphabet() -> dict[str, int]:
    """GPT-2's letter for each byte: its own if it is visible, otherwise a letter from 256 on."""
    latin = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unseen = [byte for byte in range(256) if byte not in latin]
    return {chr(byte): byte for byte in latin} | {chr(256 + place): byte for place, byte in enumerate(unseen)}


BYTES = _alphabet()


def word_spans(pieces: Sequence[str], *, by_spaces: bool = False) -> tuple[Span, ...]:
    """The spans of words among pieces; a special symbol is a separate word, and so is every piece of a script without
    spaces, such as Chinese, unless words are divided `by_spaces` alone.

    >>> word_spans(["▁a", "▁ba", "na", "na", "</s>"])
    ((0, 1), (1, 4), (4, 5))
    >>> word_spans(["a", "ba@@", "na@@", "na"])
    ((0, 1), (1, 4))
    >>> word_spans(["▁打开", "文件"]), word_spans(["▁打开", "文件"], by_spaces=True)
    (((0, 1), (1, 2)), ((0, 2),))
    """
    mark = _marks(pieces)
    starts = [
        i
        for i in range(len(pieces))
        if i == 0 or _begins_word(i, pieces, mark) or (not by_spaces and _stands_alone(i, pieces))
    ]
    return tuple(zip(starts, [*starts[1:], len(pieces)], strict=True)) if pieces else ()


def piece_bytes(pieces: Sequence[str]) -> list[bytes]:
    """The characters of each piece in UTF-8, without the marks and spaces that separate words.

    >>> piece_bytes(["▁caf", "<0xC3>", "<0xA9>"]), piece_bytes(["play", "##ing"])
    ([b'caf', b'\\xc3', b'\\xa9'], [b'play', b'ing'])
    """
    mark = _marks(pieces)
    return [_bytes(piece, mark) for piece in pieces]


def _bytes(piece: str, mark: str) -> bytes:
    if is_byte(piece):
        return bytes([int(piece[3:5], 16)])
    if mark == "Ġ" and piece not in SPECIAL and all(letter in BYTES for letter in piece):
        return bytes(BYTES[letter] for letter in piece).replace(b" ", b"")
    bare = piece if piece in SPECIAL or mark not in ("@@", "##") else _plain(piece, mark)
    return bare.replace("▁", "").replace(" ", "").encode("utf-8", "surrogatepass")


def join_pieces(pieces: Iterable[str]) -> str:
    """The word of several pieces, without their marks; pieces of bytes (`<0xE2>`) are decoded if they are UTF-8.

    >>> join_pieces(["▁caf", "<0xC3>", "<0xA9>"]), join_pieces(["ba@@", "na"]), join_pieces(["▁"])
    ('café', 'bana', '▁')
    """
    pieces = list(pieces)
    if len(pieces) == 1 and (pieces[0] in SPECIAL or len(pieces[0]) == 1):
        return pieces[0]
    text = bytearray()
    for i, piece in enumerate(pieces):
        if i == 0 and piece.startswith(_WORD_BEGINS):
            piece = piece[1:]
        elif i > 0 and len(piece) > 2:
            piece = piece.removeprefix("##")
        if i < len(pieces) - 1 and len(piece) > 2:
            piece = piece.removesuffix("@@")
        text += bytes([int(piece[3:5], 16)]) if is_byte(piece) else piece.encode("utf-8", "surrogatepass")
    return text.decode("utf-8", "backslashreplace")


def _marks(pieces: Sequence[str]) -> str:
    """The kind of marks in a sequence: the first kind that occurs in its pieces."""
    for mark in _WORD_BEGINS:
        if any(piece.startswith(mark) for piece in pieces):
            return mark
    if any(len(piece) > 2 and piece.endswith("@@") for piece in pieces):
        return "@@"
    return "##" if any(len(piece) > 2 and piece.startswith("##") for piece in pieces) else ""


def _begins_word(i: int, pieces: Sequence[str], mark: str) -> bool:
    piece, before = pieces[i], pieces[i - 1]
    if piece in SPECIAL or before in SPECIAL or _TAG.fullmatch(before) or not mark:
        return True
    if mark in _WORD_BEGINS:
        return piece.startswith(mark)
    return not before.endswith("@@") if mark == "@@" else not piece.startswith("##")


def _stands_alone(i: int, pieces: Sequence[str]) -> bool:
    """Whether a piece or the one before is of a script without spaces, and the one before is not only a mark."""
    before = pieces[i - 1]
    return bool(UNSPACED.search(before) or (UNSPACED.search(pieces[i]) and before.strip("▁Ġ ")))


def is_byte(piece: str) -> bool:
    """Whether a piece is a byte of a character, `<0xE2>`."""
    return re.fullmatch("<0x[0-9A-Fa-f]{2}>", piece) is not None


def _check_spans(side: str, spans: Sequence[Span], length: int) -> None:
    ends = [0, *(end for _, end in spans)]
    if any(begin != ends[i] or end <= begin for i, (begin, end) in enumerate(spans)) or ends[-1] != length:
        raise UsageError(
            f"Alignment.merge: the {side} spans {list(spans)} do not cover its {length} pieces one after another. "
            "Each span begins where the one before ends; the first begins at 0."
        )
