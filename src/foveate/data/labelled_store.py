"""Stores labelled examples (sentences and all other rows), and reports on those that were left out."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Int64, UInt32
from torch import Tensor

from foveate.data.batch import Batch
from foveate.data.label import Labels
from foveate.data.labelled import LabelledText, Tagged
from foveate.data.labelled_encoding import LabelledEncoder
from foveate.data.labelled_report import LabelledReport as LabelledReport
from foveate.data.labelled_report import LabelTally
from foveate.data.level import Levels
from foveate.data.preparation import resumable
from foveate.data.reader import RowMaker, stored_levels, stored_type
from foveate.data.row import Row
from foveate.data.row_journal import write_rows
from foveate.data.sentence_encoding import SentenceEncoder, numbered
from foveate.data.store import FeatureStore, TokenStore, TokenWriter, VectorType, open_rows
from foveate.data.variant import Draw, drawn, longest, varies
from foveate.data.word import WordBatch
from foveate.errors import DataError
from foveate.nn.embed import Input
from foveate.storage.draft import draft_folder
from foveate.voice import watched


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows with one label each, or with one for each vector, row after row."""

    rows: Batch
    labels: Int[Tensor, " labelled"]
    examples: tuple[int, ...]


@dataclass(frozen=True)
class LabelledData:
    """Rows with their labels: one per text; for sentences, one per word, and the forms of the words; one per frame."""

    inputs: TokenStore | FeatureStore
    labels: TokenStore
    lines: UInt32[np.ndarray, " rows"]
    forms: TokenStore | None = None
    places: TokenStore | None = None
    """The places of the vectors of each row, or of one row if all have the same; None if the order of the row is the
    place, and for rows without places.
    """
    edges: TokenStore | None = None
    """The edges of rows of nodes: all sources, then all targets."""
    variants: FeatureStore | None = None
    """Other rows of the examples, which training reads in turn with `inputs`; as many for each example."""

    @classmethod
    def open(cls, folder: Path | str) -> "LabelledData":
        """Map prepared data into memory. Raises DataError if they are missing or damaged."""
        folder = Path(folder)
        inputs = open_rows(folder / "inputs")
        labels, lines = (TokenStore.open(folder / name) for name in ("labels", "lines"))
        if not len(inputs) == len(labels) == len(lines) == lines.num_tokens:
            raise DataError(f"{folder} is damaged: rows, labels and lines differ in number. Prepare the data again.")
        more = {
            name: TokenStore.open(folder / name) for name in ("forms", "places", "edges") if (folder / name).exists()
        }
        variants = FeatureStore.open(folder / "variants") if (folder / "variants").exists() else None
        if variants is not None and (len(variants) % len(inputs) if len(inputs) else len(variants)):
            raise DataError(f"{folder} is damaged: rows and their variants differ in number. Prepare the data again.")
        return cls(inputs, labels, lines.tokens, **more, variants=variants)

    def require_sentences(self, labels: Labels, *, words: int, pieces: int) -> "LabelledData":
        """Return these data. Raises DataError if an id of a label, word or piece of a word is too large."""
        forms = self.forms
        if forms is None or not isinstance(self.inputs, TokenStore):
            raise DataError(f"{self.labels.folder.parent} has no words. Prepare the data again.")
        self.labels.require(below=len(labels), shortest=1)
        self.inputs.require(below=len(forms), shortest=1)
        self._require_labels(self.inputs.lengths)
        first = forms.require(below=max(words, pieces), shortest=3).starts
        if len(first) and int(first.max()) >= words:
            raise DataError(f"{forms.folder} has words that the vocabulary does not contain. Prepare the data again.")
        return self

    def require_rows(self, labels: Labels, source: Input, *, each: bool = False) -> "LabelledData":
        """Return these data, whose rows have one label, or one for `each` vector. Raises DataError if an id of a label
        is too large, or if rows do not fit the input.
        """
        self.labels.require(below=len(labels), shortest=1)
        if isinstance(self.inputs, TokenStore) != (source.width is None):
            raise DataError(f"{self.inputs.folder} has rows of another kind than {source}. Prepare the data again.")
        if isinstance(self.inputs, TokenStore):
            self.inputs.require(below=getattr(source, "vocab", None), shortest=1)
        elif source.width is not None:
            self.inputs.require(width=source.width, shortest=1)
            if self.variants is not None:
                self.variants.require(width=source.width, shortest=1)
        self._require_labels(self.inputs.lengths if each else 1)
        self._require_places(source.axes)
        return self

    def _require_places(self, axes: int | None) -> None:
        lengths, folder = self.inputs.lengths, self.inputs.folder
        if (self.places is not None) != bool(axes) or (self.edges is not None) != (axes == 0):
            raise DataError(f"{folder} does not match its places or edges. Prepare the data again.")
        if self.places is not None and len(self.places) not in (1, len(lengths)):
            raise DataError(f"{folder} and the places of its rows differ in number. Prepare the data again.")
        if self.places is not None and (self.places.lengths != lengths * (axes or 0)).any():
            raise DataError(f"{folder} has vectors without places. Prepare the data again.")
        if self.edges is not None:
            nodes = np.repeat(lengths, self.edges.lengths)
            if (self.edges.lengths % 2).any() or (self.edges.tokens >= nodes).any():
                raise DataError(f"{self.edges.folder} joins nodes that its rows do not have. Prepare the data again.")

    def _require_labels(self, counts: int | np.ndarray) -> None:
        if (self.labels.lengths != counts).any():
            raise DataError(f"{self.labels.folder} does not have a label for each input. Prepare the data again.")

    def __len__(self) -> int:
        return len(self.inputs)

    def sentences(self, examples: Sequence[int] | np.ndarray) -> WordBatch:
        """The tagged sentences with these numbers."""
        assert self.forms is not None
        chosen = tuple(int(example) for example in examples)
        rows, labels = ([store[example] for example in chosen] for store in (self.inputs, self.labels))
        return WordBatch.of(rows, self.forms, labels, chosen)

    @property
    def lengths(self) -> Int64[np.ndarray, " rows"]:
        """The length of each row, or that of its longest variant."""
        return longest(self.inputs.lengths, self.variants)

    def lengths_between(self, start: int, stop: int) -> Int64[np.ndarray, " rows"]:
        """`lengths` of a stretch of rows, without reading those of others where there are no variants."""
        if self.variants is not None:
            return self.lengths[start:stop]
        return self.inputs.lengths_between(start, stop)

    def rows(self, examples: Sequence[int] | np.ndarray, *, draw: Draw | None = None) -> RowBatch:
        """The labelled rows with these numbers; with a `draw` those of training, which may be variants."""
        chosen = tuple(int(example) for example in examples)
        labels = torch.from_numpy(np.concatenate([self.labels[example] for example in chosen]).astype(np.int64))
        rows: list[Any] = drawn(self.inputs, self.variants, chosen, draw)
        if self.places is not None or self.edges is not None:
            rows = [self._placed(row, example) for row, example in zip(rows, chosen, strict=True)]
        return RowBatch(Batch.of(rows), labels, chosen)

    def _placed(self, row: np.ndarray, example: int) -> Row:
        if self.places is not None:
            shared = len(self.places) < len(self.inputs)
            return Row(row, places=self.places[0 if shared else example].reshape(len(row), -1))
        assert self.edges is not None
        return Row(row, places=np.empty((len(row), 0), np.int64), edges=self.edges[example].reshape(2, -1))


def prepare_sentences(
    folder: Path,
    sentences: Iterable[Tagged],
    encoder: SentenceEncoder,
    *,
    rare: str = "",
    processes: int = 1,
    origin: str = "",
) -> tuple[LabelledData, LabelledReport]:
    """Store tagged sentences: the numbers of their forms, and the row of every form once, also of sentences that are
    left out. `processes` and `origin` are those of `write_rows`.

    Raises DataError for a tag that the encoder's `labels` lack. If it is lenient, as for a file of validation examples,
    such a sentence is left out and reported, unless most sentences are like this.
    """
    stream = numbered(watched(sentences, encoder.what))
    report = write_rows(folder, stream, encoder, processes=processes, origin=origin)
    return LabelledData.open(folder), replace(report, rare=rare).checked()


def prepare_rows(
    folder: Path | str,
    examples: Iterable[Any],
    rows: RowMaker,
    labels: Labels,
    *,
    what: str,
    max_length: int,
    names: Callable[[Any, Row], Sequence[str]] = lambda example, row: (example.label,),
    path: str = "",
    lenient: bool = False,
    rare: str = "",
    varied: bool = False,
) -> tuple[LabelledData, LabelledReport]:
    """Store examples as rows; the report calls them `what`. `names` are the labels of an example and its row. With
    `varied`, as for training, also their variants. An interrupted preparation of the same folder goes on where it
    stopped.

    Raises DataError for a label that `labels` lacks. With `lenient`, as for a file of validation examples, such a row
    is left out and reported, unless most rows are like this.
    """
    tally, source = LabelTally(what, max_length, labels, path, lenient), rows.input
    more = () if source.axes is None else ("places",) if source.axes else ("edges",)
    varied = varied and varies(rows)
    with (
        resumable(Path(folder), rows) as keeper,
        _writing(
            Path(folder), *more, width=source.width, varied=varied, dtype=stored_type(rows), levels=stored_levels(rows)
        ) as (writers, finish),
    ):
        for example in watched(examples, what):
            row, others = keeper.row(example.thing), keeper.variants(example.thing) if varied else []
            tally.remark(example.line, row.remarks)
            lengths = [len(row), *map(len, others)]
            length = max(lengths) if min(lengths) else 0
            numbers = tally.labels(example.line, length, names(example, row))
            if numbers is None:
                continue
            for other in others:
                writers["variants"].append(other.values)
            tally.unknown += rows.unknown(row)
            for name, part in (("places", row.places), ("edges", row.edges)):
                if name in writers:
                    writers[name].append([] if part is None else Row.flat(part).tolist())
            finish(row.values.tolist() if source.width is None else row.values, numbers, example.line)
    return LabelledData.open(folder), tally.report(rare).checked()


def prepare_texts(
    folder: Path,
    examples: Iterable[LabelledText],
    rows: RowMaker,
    labels: Labels,
    *,
    what: str,
    max_length: int,
    path: str = "",
    lenient: bool = False,
    rare: str = "",
    processes: int = 1,
    origin: str = "",
) -> tuple[LabelledData, LabelledReport]:
    """Store texts with one label each, as `prepare_rows` does. `processes` and `origin` are those of `write_rows`."""
    encoder = LabelledEncoder(rows=rows, labels=labels, what=what, max_length=max_length, path=path, lenient=lenient)
    report = write_rows(folder, watched(examples, what), encoder, processes=processes, origin=origin)
    return LabelledData.open(folder), replace(report, rare=rare).checked()


Finish = Callable[[Any, list[int], int], None]


@contextlib.contextmanager
def _writing(
    folder: Path,
    *more: str,
    width: int | None = None,
    varied: bool = False,
    dtype: VectorType = "float32",
    levels: Levels | None = None,
) -> Iterator[tuple[dict[str, Any], Finish]]:
    """Writers of a folder that is written completely or not at all, and a function that finishes an example. With a
    `width` the inputs are vectors, otherwise ids; with `varied` their variants are also vectors.
    """
    with contextlib.ExitStack() as stack:
        draft = stack.enter_context(draft_folder(folder))
        names = ("labels", "lines", *more)
        writers: dict[str, Any] = {name: stack.enter_context(TokenStore.writer(draft / name, "")) for name in names}
        if "places" in writers:
            writers["places"] = _PlaceWriter(writers["places"])
            stack.callback(writers["places"].finish)
        vectors = partial(FeatureStore.writer, dtype=dtype, levels=levels)
        if varied and width is not None:
            writers["variants"] = stack.enter_context(vectors(draft / "variants", width))
        inputs: Any = TokenStore.writer(draft / "inputs", "")
        if width is not None:
            inputs = vectors(draft / "inputs", width)
        input_writer = stack.enter_context(inputs)

        def finish(row: Any, labels: list[int], line: int) -> None:
            input_writer.append(row)
            writers["labels"].append(labels)
            writers["lines"].append([line])

        yield writers, finish


class _PlaceWriter:
    """Appends the places of rows: once, if all rows have the same, as pictures of one size do."""

    def __init__(self, writer: TokenWriter) -> None:
        self.writer, self.first, self.same = writer, list[int](), 0
        self.differ = False

    def append(self, places: list[int]) -> None:
        self.first = self.first if self.same else places
        if not self.differ and places == self.first:
            self.same += 1
            return
        if not self.differ:
            self.differ = True
            for _ in range(self.same):
                self.writer.append(self.first)
        self.writer.append(places)

    def finish(self) -> None:
        if self.same and not self.differ:
            self.writer.append(self.first)
