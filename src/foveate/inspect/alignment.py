"""Alignments: the weights between the pieces of two sequences, with the pieces' names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float32, Float64
from numpy.typing import ArrayLike

from foveate.errors import UsageError
from foveate.inspect.label import printable

Span = tuple[int, int]
By = Literal["target", "source", "both", "either"]

SPECIAL = frozenset({"<pad>", "<s>", "</s>"})
# A piece that begins so begins a word: SentencePiece, GPT-2, plain characters.
_WORD_BEGINS = ("▁", "Ġ", " ")


@dataclass(frozen=True, eq=False)
class Alignment:
    """How much each piece of the target (a row) looked at each piece of the source (a column).

    Weights are finite and not negative; rows of a softmax sum to 1, rows that saw nothing are 0. The array is copied
    and made read-only.

    >>> seen = Alignment.of(["le", "chat"], ["the", "cat"], [[0.9, 0.1], [0.2, 0.8]])
    >>> seen.pharaoh()
    '0-0 1-1'
    >>> seen.entropy().round(2)
    array([0.33, 0.5 ])

    Raises `UsageError` when labels and weights disagree or a weight is negative or not finite.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Float32[np.ndarray, "target source"]

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
        if not np.isfinite(weights).all() or (weights < 0).any():
            row, column = np.argwhere(~(np.isfinite(weights) & (weights >= 0)))[0]
            raise UsageError(
                f"Alignment: the weight of target {row} for source {column} is {weights[row, column]}. "
                "Pass attention weights (after the normaliser), which are finite and not negative."
            )
        weights.setflags(write=False)
        object.__setattr__(self, "source", tuple(self.source))
        object.__setattr__(self, "target", tuple(self.target))
        object.__setattr__(self, "weights", weights)

    @classmethod
    def of(cls, source: Iterable[str], target: Iterable[str], weights: ArrayLike) -> "Alignment":
        """An alignment of any array of numbers: nested lists, another precision, a tensor on the CPU."""
        source, target, array = tuple(source), tuple(target), np.asarray(weights, dtype=np.float32)
        empty = not array.size and not (source and target)  # `[]` has no second axis to tell its length
        return cls(source, target, array.reshape(len(target), len(source)) if empty else array)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alignment):
            return NotImplemented
        same_labels = (self.source, self.target) == (other.source, other.target)
        return same_labels and np.array_equal(self.weights, other.weights)

    def hard(self, threshold: float | None = None, *, by: By = "target") -> set[tuple[int, int]]:
        """Links (source, target): each row's largest weight (the first of equals), or all from `threshold` on.

        A row that saw nothing has no link. `by="source"` takes each column's largest weight instead, `"either"` links
        that one of the two has, `"both"` those that both have: fewer, and surer.

        >>> seen = Alignment.of("ab", "xyz", [[0.6, 0.4], [0.9, 0.1], [0.3, 0.7]])
        >>> sorted(seen.hard()), sorted(seen.hard(by="both"))
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
        of_target = {(int(s), t) for t, s in enumerate(self.weights.argmax(axis=1)) if self.weights[t, s] > 0}
        of_source = {(s, int(t)) for s, t in enumerate(self.weights.argmax(axis=0)) if self.weights[t, s] > 0}
        joined = {"both": of_target & of_source, "either": of_target | of_source}
        return {"target": of_target, "source": of_source, **joined}[by]

    def pharaoh(self, threshold: float | None = None) -> str:
        """The hard links as the text that word aligners exchange: `source-target` pairs, counted from 0, in order."""
        return " ".join(f"{s}-{t}" for s, t in sorted(self.hard(threshold)))

    def entropy(self) -> Float64[np.ndarray, " target"]:
        """−Σⱼ αᵢⱼ ln αᵢⱼ of each row, in nats: 0 looks at one piece, ln(number of pieces) looks everywhere alike."""
        weights = self.weights.astype(np.float64)
        logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
        return np.abs((weights * logs).sum(axis=1))

    def describe(self, most: int = 12) -> str:
        """The alignment in words, for those who do not see its picture: what each of the first rows looks at most.

        >>> Alignment.of(["le", "chat"], ["the"], [[0.9, 0.1]]).describe()
        '1 row (target) by 2 columns (source). the looks at le (0.90).'
        """
        source, target = [printable(label) for label in self.source], [printable(label) for label in self.target]
        links = sorted(self.hard(), key=lambda link: link[1])
        said = [f"{target[t]} looks at {source[s]} ({self.weights[t, s]:.2f})" for s, t in links[:most]]
        if len(links) > most:
            said.append(f"and so on for {len(links) - most} more")
        rows, columns = (
            f"{n} {word}{'s' * (n != 1)}" for n, word in zip(self.weights.shape, ("row", "column"), strict=True)
        )
        return f"{rows} (target) by {columns} (source). {'; '.join(said) or 'Nothing is looked at'}."

    def without_specials(self) -> "Alignment":
        """The same weights without the rows and columns of `<s>`, `</s>` and `<pad>`; nothing is normalised anew.

        Do this before `pharaoh()`: otherwise links may point at the end symbol, which is no word of the sentence.
        """
        rows = [i for i, label in enumerate(self.target) if label not in SPECIAL]
        columns = [j for j, label in enumerate(self.source) if label not in SPECIAL]
        return Alignment(
            tuple(self.source[j] for j in columns),
            tuple(self.target[i] for i in rows),
            self.weights[np.ix_(rows, columns)],
        )

    def words(self) -> "Alignment":
        """Subword pieces merged to words by their marks (`▁`, `Ġ`, a space; `@@` or `##` for continuations).

        Pieces of a side without any mark are words already and stay. Weights are summed over the keys of a word and
        averaged over its queries, the one rule that keeps rows summing to 1.

        >>> seen = Alignment.of(["▁un", "seen"], ["▁in", "vis", "ible"], [[1, 0], [0.4, 0.6], [0.1, 0.9]])
        >>> seen.words()
        Alignment(source=('unseen',), target=('invisible',), weights=array([[1.]], dtype=float32))
        """
        return self.merge(word_spans(self.source), word_spans(self.target))

    def merge(self, source: Sequence[Span], target: Sequence[Span]) -> "Alignment":
        """Merge the pieces of each half-open span `(begin, end)`: sum over source pieces, mean over target pieces."""
        _check_spans("source", source, len(self.source))
        _check_spans("target", target, len(self.target))
        weights = self.weights.astype(np.float64)
        columns = [weights[:, begin:end].sum(axis=1) for begin, end in source]
        summed = np.stack(columns, axis=1) if columns else np.zeros((len(self.target), 0))
        rows = [summed[begin:end].mean(axis=0) for begin, end in target]
        merged = np.stack(rows) if rows else np.zeros((0, len(source)))
        return Alignment(
            tuple(join_pieces(self.source[begin:end]) for begin, end in source),
            tuple(join_pieces(self.target[begin:end]) for begin, end in target),
            merged.astype(np.float32),
        )


def word_spans(pieces: Sequence[str]) -> tuple[Span, ...]:
    """Where each word begins and ends among its pieces; special symbols are words of their own.

    >>> word_spans(["▁a", "▁ba", "na", "na", "</s>"])
    ((0, 1), (1, 4), (4, 5))
    >>> word_spans(["a", "ba@@", "na@@", "na"])
    ((0, 1), (1, 4))
    """
    starts = [i for i in range(len(pieces)) if i == 0 or _begins_word(i, pieces, _marks(pieces))]
    return tuple(zip(starts, [*starts[1:], len(pieces)], strict=True)) if pieces else ()


def join_pieces(pieces: Iterable[str]) -> str:
    """The word that pieces spell, without their marks; pieces of bytes (`<0xE2>`) are decoded where they are UTF-8.

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
        text += bytes([int(piece[3:5], 16)]) if _is_byte(piece) else piece.encode("utf-8", "surrogatepass")
    return text.decode("utf-8", "backslashreplace")


def _marks(pieces: Sequence[str]) -> str:
    """Which family of marks a sequence uses: the first that any of its pieces carries."""
    for mark in _WORD_BEGINS:
        if any(piece.startswith(mark) for piece in pieces):
            return mark
    if any(len(piece) > 2 and piece.endswith("@@") for piece in pieces):
        return "@@"
    return "##" if any(len(piece) > 2 and piece.startswith("##") for piece in pieces) else ""


def _begins_word(i: int, pieces: Sequence[str], mark: str) -> bool:
    piece, before = pieces[i], pieces[i - 1]
    if piece in SPECIAL or before in SPECIAL or not mark:
        return True
    if mark in _WORD_BEGINS:
        return piece.startswith(mark)
    return not before.endswith("@@") if mark == "@@" else not piece.startswith("##")


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">") and piece[3:5].isalnum()


def _check_spans(side: str, spans: Sequence[Span], length: int) -> None:
    ends = [0, *(end for _, end in spans)]
    if any(begin != ends[i] or end <= begin for i, (begin, end) in enumerate(spans)) or ends[-1] != length:
        raise UsageError(
            f"Alignment.merge: the {side} spans {list(spans)} do not cover its {length} pieces one after another. "
            "Each span begins where the one before ends; the first begins at 0."
        )
