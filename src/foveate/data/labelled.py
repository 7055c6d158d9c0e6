"""Reads labelled text: sentences with a tag for every word, and texts with one label each."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from foveate.data.reader import Reader
from foveate.data.row import Row
from foveate.data.text import free_columns, read_cells, read_lines, require_only
from foveate.data.text_pair import TAB, joined
from foveate.data.tokeniser import BOS, EOS, SPECIALS, UNKNOWN, Tokeniser, TokeniserConfig, load_tokeniser
from foveate.errors import DataError
from foveate.nn.embed import Tokens

TOKENISER = "text.tokeniser.json"
"""The file of a run folder that holds the tokeniser of its texts."""
_LOOK = 100
"""The number of lines that determine the format of a file."""
_CONLLU = 10
"""The number of columns of CoNLL-U."""
_NO_WORD = re.compile(r"\d+[-.]\d+")
"""The number of a line of CoNLL-U that has no word of its own: several words as they are written together, `1-2`, or a
word that is not written, `2.1`.
"""


class Tagged(NamedTuple):
    """A sentence, its tags, and the number of its first line."""

    line: int
    words: tuple[str, ...]
    tags: tuple[str, ...]


class LabelledText(NamedTuple):
    """A text, its label, and its line; for a pair, also the second text."""

    line: int
    text: str
    label: str
    second: str = ""

    @property
    def thing(self) -> tuple[str, ...]:
        """The text, or both texts of a pair."""
        return (self.text, self.second) if self.second else (self.text,)

    @property
    def whole(self) -> str:
        """The text, or both texts of a pair with a tab between them."""
        return f"{self.text}\t{self.second}" if self.second else self.text


@dataclass(frozen=True, kw_only=True)
class TextReader(Reader):
    """Labelled texts, or pairs of texts, from the columns of a table."""

    what: ClassVar[str] = "texts"
    tokeniser: TokeniserConfig
    columns: tuple[int, int] | None = None
    second: int | None = None

    def read(self, path: str) -> Iterator[LabelledText]:
        return read_labelled(path, columns=self.columns, second=self.second)

    def learn(self, examples: Iterable[LabelledText]) -> "TextRows":
        """Learn the vocabulary."""
        texts = (text for example in examples for text in example.thing if text)
        return self.rows(self.tokeniser.train(texts))

    def open(self, folder: Path) -> "TextRows":
        return self.rows(load_tokeniser(folder / TOKENISER))

    def rows(self, tokeniser: Tokeniser) -> "TextRows":
        return TextRows(tokeniser, pairs=self.second is not None)


@dataclass(frozen=True)
class TextRows:
    """Tokens between begin and end; a pair of texts also has an end between them. An empty text makes an empty row."""

    tokeniser: Tokeniser
    pairs: bool = False

    @property
    def input(self) -> Tokens:
        return Tokens(self.tokeniser.vocab_size)

    def row(self, thing: Sequence[str]) -> Row:
        ids = joined(thing, self.tokeniser)
        return Row(np.array([BOS, *ids] if ids else [], dtype=np.int64))

    def unknown(self, row: Row) -> int:
        return int((row.values == UNKNOWN).sum())

    def track(self, thing: Sequence[str]) -> Mapping[str, Any]:
        parts = [[*self.tokeniser.labels(text), SPECIALS[EOS]] for text in thing if text.strip()]
        return {"labels": (SPECIALS[BOS], *chain.from_iterable(parts)), "text": TAB.join(thing)}

    def things(self, path: str) -> Iterator[tuple[str, ...]]:
        return (tuple(line.split(TAB)) for line in read_lines(path))

    def save(self, folder: Path) -> None:
        self.tokeniser.save(folder / TOKENISER)

    def digests(self) -> dict[str, str]:
        return {TOKENISER: self.tokeniser.digest()}


def read_tagged(path: Path | str, *, columns: tuple[int, int] | None = None) -> Iterator[Tagged]:
    """Tagged sentences in one of two formats; `.gz` and `.xz` files are unpacked.

    A line may be a sentence, `I/PRON saw/VERB a/DET saw/NOUN`, with each tag after the last slash. Or a line is a word,
    with tabs between columns and an empty line between sentences; lines without a tab that begin with # are comments,
    and of CoNLL-U the lines of words that are written together, and of those that are not written, are skipped.
    The first lines determine the format. `columns` are those of word and tag, counted from 0; without them the table
    must have two columns.

    Raises DataError with file and line for a word without a tag, and for a table with more columns if none are chosen.
    """
    lines = enumerate(read_lines(path), start=1)
    head = list(islice(lines, _LOOK))
    whole = chain(head, lines)
    if any("\t" in line for _, line in head):
        return _by_columns(path, whole, columns)
    return _by_slashes(path, whole)


def read_labelled(
    path: Path | str, *, columns: tuple[int, int] | None = None, second: int | None = None
) -> Iterator[LabelledText]:
    """Texts with their labels: two columns (counted from 0) of a tab-separated file; empty lines are skipped.

    With a column for a `second` text, every line is a pair. Without `columns`, the table must have two more columns.
    Raises DataError with file and line for a line without a label, a pair without one of its texts, or a table with
    more columns if none are chosen.
    """
    two, only = columns or free_columns(second), None if columns else ("text", "label")
    chosen = two if second is None else (*two, second)
    otherwise = "write the text, a tab, and the label" if second is None else "write two texts and a label"
    for line, (text, label, *other) in read_cells(path, chosen, otherwise=otherwise, only=only, beside=second):
        if not any(cell.strip() for cell in (text, label, *other)):
            continue
        if not label.strip():
            raise DataError(f"{path}:{line}: there is no label. Write the text, a tab, and the label.")
        if other and not (text.strip() and other[0].strip()):
            place = "second" if text.strip() else "first"
            raise DataError(f"{path}:{line}: the pair has no {place} text, or it is in another column. Write both.")
        yield LabelledText(line, text, label.strip(), *other)


def _by_slashes(path: Path | str, lines: Iterator[tuple[int, str]]) -> Iterator[Tagged]:
    for number, line in lines:
        words, tags = [], []
        for token in line.split():
            word, slash, tag = token.rpartition("/")
            if not (word and slash and tag):
                _refuse(path, number, f"{token!r} has no tag. Write word/tag, or a word and its tag with a tab between")
            words.append(word)
            tags.append(tag)
        if words:
            yield Tagged(number, tuple(words), tuple(tags))


def _by_columns(path: Path | str, lines: Iterator[tuple[int, str]], chosen: tuple[int, int] | None) -> Iterator[Tagged]:
    columns = chosen or free_columns()
    begin, words, tags = 0, list[str](), list[str]()
    for number, line in lines:
        cells = [cell.strip() for cell in line.split("\t")]
        if not line.strip():
            if words:
                yield Tagged(begin, tuple(words), tuple(tags))
            words, tags = [], []
            continue
        if (len(cells) == 1 and line.startswith("#")) or (len(cells) == _CONLLU and _NO_WORD.fullmatch(cells[0])):
            continue
        if chosen is None:
            require_only(f"{path}:{number}", cells, 2, ("word", "tag"))
        word, tag = (cells[column] if column < len(cells) else "" for column in columns)
        if not (word and tag):
            missing = f"column {columns[1] if word else columns[0]} (counted from 0)"
            _refuse(path, number, f"{line.strip()!r} has nothing in {missing}. Write word, tab, tag")
        if len(word.split()) > 1:
            _refuse(path, number, f"{word!r} is more than one word. Give each word its own line and tag")
        begin = begin if words else number
        words.append(word)
        tags.append(tag)
    if words:
        yield Tagged(begin, tuple(words), tuple(tags))


def _refuse(path: Path | str, number: int, what: str) -> NoReturn:
    raise DataError(f"{path}:{number}: {what}.")
