"""The answer of a model to one input, word by word, and the model to ask again with the input changed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from foveate.data.batching import groups
from foveate.errors import UsageError
from foveate.inspect.alignment import SPECIAL, join_pieces, word_spans
from foveate.inspect.trace.trace import Trace

Way = Literal["remove", "unknown", "mask"]
"""The ways to switch a word off: its pieces are removed, or each becomes the unknown or the mask token."""
BUDGET = 2048
"""The number of tokens, inputs and outputs with padding, that one batch of changed inputs may have."""
BREAK = "</s>"
"""A special symbol, which words do not extend over."""
NOBODY = -1
"""The word of a position that belongs to no word, such as the begin, the end or a gap."""


@dataclass(frozen=True)
class Entrance:
    """The place where the vectors of the input's positions enter a model: the output of an embedding, or with
    `before`, the input of a module.

    Only the first call in a pass counts: a decoder may share the embedding of its encoder, which reads first.
    """

    module: nn.Module
    before: bool = False

    @contextmanager
    def replaced(self, vectors: Float[Tensor, "rows positions dim"]) -> Iterator[None]:
        """Passes of the model within this context read these vectors, those of rows of equal length."""
        with self._hooked(lambda old: vectors.reshape(old.shape).to(old.dtype)):
            yield

    @contextmanager
    def watched(self) -> Iterator[list[Float[Tensor, "..."]]]:
        """The list receives the vectors of the pass within this context."""
        vectors: list[Tensor] = []

        def watch(old: Tensor) -> Tensor:
            vectors.append(old.detach())
            return old

        with self._hooked(watch):
            yield vectors

    @contextmanager
    def _hooked(self, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
        passed: list[bool] = []

        def first(old: Tensor) -> Tensor:
            new = old if passed else change(old)
            passed.append(True)
            return new

        def enter(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return (first(inputs[0]), *inputs[1:])

        def leave(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
            return first(output)

        register = self.module.register_forward_pre_hook if self.before else self.module.register_forward_hook
        handle = register(enter if self.before else leave)  # type: ignore[arg-type]
        try:
            yield
        finally:
            handle.remove()


@dataclass(frozen=True, eq=False, kw_only=True)
class View:
    """The attention that `look` shows for an answer."""

    trace: Trace
    """With features of 32 bits, so that its weights are those of the pass."""
    site: int
    head: int | None
    """None for the mean of all heads."""
    rows: Int[np.ndarray, " pieces"]
    """The query of each piece of the answer; −1 for a piece without one."""
    origins: Int[np.ndarray, " pieces"]
    """The query at which each piece is predicted, where rollout begins."""

    def at(self, site: int, head: int | None) -> "View":
        """The view of another attention between the same tracks. Raises UsageError for one between others.

        Cross-attention whose queries are named by another track is seen from where the pieces are predicted.
        """
        here, there = self.trace.sites[self.site], self.trace.sites[site]
        same = here.query == there.query
        if here.key != there.key or not (same or here.kind == there.kind == "cross"):
            raise UsageError(
                f"{there.title} leads from {there.query} to {there.key}, and the answer comes from {here.query} to "
                f"{here.key}, such as {here.title}. Choose another layer."
            )
        if head is not None and not 0 <= head < there.heads:
            raise UsageError(f"{there.title} has no head {head}: it has {there.heads}, counted from 0.")
        return replace(self, site=site, head=head, rows=self.rows if same else self.origins)


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """The output of a model, such as a translation or a label, for the row of ids that it read.

    User classes make it, for example `Translator.answer`. Words are numbered in the order of `inputs` and `outputs`;
    a word may have several pieces.
    """

    model: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    row: tuple[int, ...]
    """The ids that the model read, with begin and end."""
    places: Int[np.ndarray, " positions"]
    """The input word of each position of the row; −1 for positions of no word, which are never switched off."""
    pieces: Int[np.ndarray, " pieces"]
    """The output word of each piece of the answer."""
    score: Callable[[Sequence[Sequence[int]], Sequence[np.ndarray]], Tensor]
    """The log-probabilities (rows, pieces) of the answer for changed rows; the second argument has the positions of
    the original row that are left in each. Differentiable, and independent of padding."""
    substitutes: Mapping[Way, int | None]
    """The id that takes the place of a piece, by the ways that suit the model; None: it is removed. The first way is
    the default."""
    entrance: Entrance
    look: Callable[[], View]
    """Raises UsageError for a model without attention."""
    visible: Bool[np.ndarray, "outputs inputs"] | None = None
    """The input words that may matter for each output word; None: all. A word's text is not a cause of itself, and a
    language model does not read ahead."""

    def __repr__(self) -> str:
        return f"<Answer {' '.join(self.outputs)!r:.60} to {' '.join(self.inputs)!r:.60}>"

    @cached_property
    def view(self) -> View:
        """The attention that `look` shows; the model passes once for it. Raises UsageError for a model without it."""
        return self.look()

    def seen_at(self, site: str | None, head: int | None) -> "Answer":
        """The answer with another attention to show, by the number or the name of a site, and its head."""

        def look() -> View:
            view = self.view
            number = view.site if site is None else view.trace.index(int(site) if site.isdecimal() else site)
            return view.at(number, head)

        return replace(self, look=look)

    @property
    def possible(self) -> Bool[np.ndarray, "outputs inputs"]:
        """`visible` for all pairs."""
        everything = np.ones((len(self.outputs), len(self.inputs)), dtype=bool)
        return everything if self.visible is None else everything & self.visible

    def way(self, way: Way | None = None) -> Way:
        """The way to switch words off; the first that suits the model. Raises UsageError for one that does not."""
        ways = list(self.substitutes)
        if way is None:
            return ways[0]
        if way not in ways:
            raise UsageError(f"{type(self.model).__name__} does not {way} words. Choose one of: {', '.join(ways)}.")
        return way

    @torch.inference_mode()
    def log_probabilities(
        self, off: Sequence[Collection[int]] = ((),), way: Way | None = None
    ) -> Float[np.ndarray, "variants outputs"]:
        """ln p of every output word as it was given, with the words of each set switched off.

        The variants are one batch, or several of `BUDGET` tokens.
        """
        substitute = self.substitutes[self.way(way)]
        changed = [self._changed(words, substitute) for words in off]
        result = np.zeros((len(off), len(self.outputs)))
        for group in groups([len(row) + len(self.pieces) for row, _ in changed], BUDGET):
            rows, remaining = zip(*(changed[index] for index in group), strict=True)
            result[group] = self._of_words(self.score(rows, remaining)).numpy()
        return result

    @torch.no_grad()
    def vectors(self) -> Float[Tensor, "positions dim"]:
        """The vectors of the row's positions at the entrance."""
        with self.entrance.watched() as vectors:
            self.score([self.row], [np.arange(len(self.row))])
        return vectors[0].reshape(len(self.row), -1)

    def scored(self, vectors: Float[Tensor, "rows positions dim"]) -> Float[Tensor, "rows outputs"]:
        """ln p of every output word if the model reads these vectors in place of the row's. Differentiable."""
        whole = np.arange(len(self.row))
        with self.entrance.replaced(vectors):
            return self._of_words(self.score([self.row] * len(vectors), [whole] * len(vectors)))

    def by_word(self, values: Float[Tensor, "outputs positions"]) -> Float[np.ndarray, "outputs inputs"]:
        """Sums over the positions of each input word; pairs that are not possible are 0."""
        of_words = np.zeros((len(self.inputs), len(self.outputs)))
        real = self.places != NOBODY
        np.add.at(of_words, self.places[real], values.double().cpu().numpy().T[real])
        return np.where(self.possible, of_words.T, 0.0)

    def _of_words(self, pieces: Float[Tensor, "rows pieces"]) -> Float[Tensor, "rows outputs"]:
        """Sums of the log-probabilities of each word's pieces."""
        word = torch.from_numpy(self.pieces)
        return pieces.new_zeros(len(pieces), len(self.outputs), dtype=torch.float64).index_add(1, word, pieces.double())

    def _changed(self, words: Collection[int], substitute: int | None) -> tuple[tuple[int, ...], np.ndarray]:
        """The row without some words, and the positions that are left."""
        off, whole = np.isin(self.places, list(words)), np.arange(len(self.row))
        if substitute is None:
            return tuple(np.array(self.row)[~off].tolist()), whole[~off]
        return tuple(np.where(off, substitute, self.row).tolist()), whole


def words_of(
    pieces: Sequence[str], outside: Collection[int] = ()
) -> tuple[tuple[str, ...], Int[np.ndarray, " pieces"]]:
    """The words of pieces, and the word of each piece; −1 for special symbols and for the pieces `outside`.

    >>> words, places = words_of(["<s>", "▁un", "seen", "___", "▁cat", "</s>"], outside=[3])
    >>> words, places.tolist()
    (('unseen', 'cat'), [-1, 0, 0, -1, 1, -1])
    """
    hidden = {*outside, *(place for place, piece in enumerate(pieces) if piece in SPECIAL)}
    marked = [BREAK if place in hidden else piece for place, piece in enumerate(pieces)]
    words, places = list[str](), np.full(len(pieces), NOBODY)
    for begin, end in word_spans(marked):
        if begin not in hidden:
            places[begin:end] = len(words)
            words.append(join_pieces(pieces[begin:end]))
    return tuple(words), places
