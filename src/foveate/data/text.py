"""Reads lines and pairs of lines from UTF-8 files, in Unicode normal form C. Errors name the file and line."""

import contextlib
import gzip
import io
import lzma
import reprlib
import shlex
import sys
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn, cast

from foveate.errors import DataError, UsageError
from foveate.storage.staging import is_remote, staged
from foveate.suggestion import missing_file

STDIN = "standard input"
_CELL = 60
MAX_LINE_BYTES = 1 << 24
"""The limit on the length of a line. A file with longer lines is not text, or a decompression bomb."""


class Pair(NamedTuple):
    """A source text, its target text, and their line number, counted from 1."""

    line: int
    source: str
    target: str
    direction: str = ""
    """The languages of both, such as `en-fa`, where the data say them."""


def normalise(text: str, where: str = "") -> str:
    """Unicode normal form C, in which an accented letter is one character.

    >>> len("e\\u0301"), len(normalise("e\\u0301"))
    (2, 1)

    Raises DataError for a lone surrogate, which is half a character and cannot be written to any file.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        place = f"{where}: character" if where else "Character"
        raise DataError(
            f"{place} {error.start + 1} of the text is half a character (the lone surrogate "
            f"U+{ord(text[error.start]):04X}). The text was cut or decoded wrongly: decode it again as UTF-8."
        ) from None
    return unicodedata.normalize("NFC", text)


def require_lines(lines: object) -> None:
    """Raise TypeError for a single text, each of whose letters would count as a line."""
    if isinstance(lines, str):
        raise TypeError(
            f"Lines are needed, not one text: {reprlib.repr(lines)}. Give a list, such as text.splitlines()."
        )


def require_texts(texts: object, *, lists: bool = False) -> None:
    """Raise TypeError unless this is a text or a list of texts; with `lists`, a text may be a list of words."""
    if isinstance(texts, str):
        return
    listed = hasattr(texts, "__getitem__") and hasattr(texts, "__len__") and not isinstance(texts, Mapping | bytes)
    if not listed:
        raise TypeError(f"A text or a list of texts is needed, not {type(texts).__name__}: {reprlib.repr(texts)}.")
    assert isinstance(texts, Iterable)
    for number, text in enumerate(texts, start=1):
        words = lists and isinstance(text, Sequence) and all(isinstance(word, str) for word in text)
        if not isinstance(text, str) and not words:
            raise TypeError(f"Text {number} of the list is not a text but {type(text).__name__}: {reprlib.repr(text)}.")


def read_lines(path: Path | str) -> Iterator[str]:
    """The lines of a UTF-8 file in normal form C, without line ends. `.gz` and `.xz` files are unpacked; "-" is
    standard input.

    Lines end with \\n or \\r\\n only, so that the line numbers are those of every editor. A byte order mark is skipped.

    The address of a remote file, such as s3://bucket/train.en, is copied to this machine first; that of a folder, which
    ends with a slash, stands for all its files in the order of their names, one after the other.

    Raises DataError if the file is missing, damaged, not UTF-8 or not text.
    """
    if is_remote(path):
        for address, copy in staged(str(path)):
            yield from _lines_of(copy, address)
    else:
        yield from _lines_of(path, STDIN if str(path) == "-" else str(path))


def _lines_of(path: Path | str, name: str) -> Iterator[str]:
    """The lines of one file, which messages call by a name."""
    offset = 0
    with _open(path) as file:
        try:
            # Not plain iteration: the limit bounds the memory for any file.
            raws = iter(lambda: file.readline(MAX_LINE_BYTES + 1), b"")
            for number, raw in enumerate(raws, start=1):
                if len(raw) > MAX_LINE_BYTES:
                    _refuse(name, number, f"the line is longer than {MAX_LINE_BYTES >> 20} MiB. Is it a text file?")
                yield _line(raw, name, number, offset)
                offset += len(raw)
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            raise DataError(f"{name} cannot be unpacked: {error}. Fetch or compress the file again.") from None


def read_pairs(
    source: Path | str,
    target: Path | str | None = None,
    *,
    columns: tuple[int, int] | None = None,
    beside: int | None = None,
) -> Iterator[Pair]:
    """Pairs of lines: line by line from two files, or from two columns (counted from 0) of one tab-separated file.

    Without `columns` the file must have two columns in addition to the column `beside`, which contains something else.
    The user has to choose columns of a larger table.

    Raises DataError if the files have different numbers of lines, a line lacks a column, or a table has more columns
    and none are chosen; UsageError for columns below 0.
    """
    if target is None:
        return read_columns(source, columns, beside=beside)
    if str(source) == str(target) == "-":
        raise UsageError(
            "Source and target cannot both be standard input. Send tab-separated columns, and give no target."
        )
    return _side_by_side(source, target)


def _require_no_table(path: Path | str, lines: Sequence[str], others: Sequence[str]) -> None:
    """Raises DataError where all first lines of a file have equally many tabs between words, as a table has, and those
    of the other file not as many.
    """
    tabs, beside = ([line.strip().count("\t") for line in side if line.strip()] for side in (lines, others))
    if len({*tabs}) == 1 and tabs[0] and tabs[0] not in beside:
        number = next(number for number, line in enumerate(lines, start=1) if line.strip())
        raise DataError(
            f"{path}:{number}: the line has a tab, as pairs in one file do, and a second file is given. Give a table "
            "of pairs alone, or one of its columns: cut -f1."
        )


def _side_by_side(source: Path | str, target: Path | str) -> Iterator[Pair]:
    sources, targets = read_lines(source), read_lines(target)
    first, second = list(islice(sources, 3)), list(islice(targets, 3))
    _require_no_table(source, first, second)
    _require_no_table(target, second, first)
    sources, targets = chain(first, sources), chain(second, targets)
    count = 0
    while True:
        left, right = next(sources, None), next(targets, None)
        if left is None or right is None:
            break
        count += 1
        yield Pair(count, left, right)
    num_sources = count + (left is not None) + sum(1 for _ in sources)
    num_targets = count + (right is not None) + sum(1 for _ in targets)
    if num_sources != num_targets:
        raise DataError(
            f"{source} has {num_sources:,} lines but {target} has {num_targets:,}. Line n of one must be the "
            "partner of line n of the other: find the missing or additional line."
        )


def read_columns(
    path: Path | str,
    columns: tuple[int, int] | None = None,
    *,
    beside: int | None = None,
) -> Iterator[Pair]:
    """Two columns of a tab-separated file."""
    chosen, only = columns or free_columns(beside), None if columns else ("source", "target")
    otherwise = "give two files if source and target are in separate files"
    cells = read_cells(path, chosen, otherwise=otherwise, only=only, beside=beside)
    return (Pair(line, *both) for line, both in cells)


def free_columns(*beside: int | None) -> tuple[int, int]:
    """The first two columns except those `beside`.

    >>> free_columns(), free_columns(1), free_columns(0, 2)
    ((0, 1), (0, 2), (1, 3))
    """
    first, second = [column for column in range(2 + len(beside)) if column not in beside][:2]
    return first, second


def read_cells(
    path: Path | str,
    columns: tuple[int, ...],
    *,
    otherwise: str,
    only: tuple[str, str] | None = None,
    beside: int | None = None,
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The cells of some columns, with their line number. The cells of an empty line are empty.

    `only` names the first two columns and allows no others except the column `beside`: a table with more columns raises
    DataError, which shows them.
    """
    if min(columns) < 0:
        raise UsageError(f"columns = {list(columns)}: columns are counted from 0, the leftmost.")
    needed = max(columns) + 1
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if only:
            require_only(f"{path}:{number}", cells, 2 if beside is None else 3, only)
        if len(cells) >= needed:
            yield number, tuple(cells[column] for column in columns)
        elif line.strip():
            width = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            raise DataError(
                f"{path}:{number}: the line has {width} but column {needed - 1} (counted from 0) is required. "
                f"Columns have a tab between them; {otherwise}."
            )
        else:
            yield number, ("",) * len(columns)


def require_only(where: str, cells: Sequence[str], count: int, names: tuple[str, str]) -> None:
    """Raise DataError, which shows the columns, for a line with more than `count` cells that are not empty."""
    if len(cells) > count and any(cell.strip() for cell in cells[count:]):
        shown = "\n".join(f"  {number}: {short(cell)}" for number, cell in enumerate(cells))
        raise DataError(
            f"{where}: the line has {len(cells)} columns, and nothing says which of them hold {names[0]} and "
            f"{names[1]}:\n{shown}\nName two of these numbers with --columns A,B (data.columns = [A, B])."
        )


def columns_there(path: Path | str, chosen: tuple[int, int] | None) -> tuple[int, int] | None:
    """The columns of another table, if this table has them; otherwise None."""
    if chosen is None or str(path) == "-" or not Path(path).is_file():
        return chosen
    first = next((line for line in read_lines(path) if line.strip()), "")
    return chosen if max(chosen) <= first.count("\t") else None


def require_lasting(*paths: Path | str | None) -> None:
    """Raise UsageError for a pipe or a device, because training reads its data several times."""
    for path in paths:
        if str(path) == "-" or (path is not None and Path(path).exists() and not Path(path).is_file()):
            kind = "standard input" if str(path) == "-" else "a folder" if Path(str(path)).is_dir() else "a pipe"
            raise UsageError(f"{path} is {kind}, and training reads its data several times. Save them as a file first.")


def short(cell: str) -> str:
    """A cell, abbreviated for messages."""
    return repr(cell if len(cell) <= _CELL else f"{cell[: _CELL - 1]}…")


def _open(path: Path | str) -> contextlib.AbstractContextManager[BinaryIO]:
    if str(path) == "-":
        if sys.stdin is None:
            raise DataError("Standard input is closed. Send the lines to it, or name a file.")
        return contextlib.nullcontext(sys.stdin.buffer)  # standard input stays open
    path = Path(path)
    try:
        if path.suffix.lower() == ".gz":
            return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb")), 1 << 16))
        if path.suffix.lower() == ".xz":
            return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, lzma.open(path, "rb")), 1 << 16))
        return open(path, "rb")
    except FileNotFoundError:
        raise DataError(missing_file(path)) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _line(raw: bytes, name: str, number: int, offset: int) -> str:
    body = raw[:-1] if raw.endswith(b"\n") else raw
    body = body[:-1] if body.endswith(b"\r") and raw.endswith(b"\n") else body
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        encoding = "UTF-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) and offset == 0 else "WINDOWS-1252"
        byte = f"byte 0x{raw[error.start]:02X} at offset {offset + error.start:,}"
        _refuse(name, number, f"{byte} is not UTF-8. {_convert(name, encoding)}")
    if "\0" in text:
        at = offset + body.index(0)
        _refuse(name, number, f"a zero byte at offset {at:,}: the text is not UTF-8. {_convert(name, 'UTF-16')}")
    return normalise(text.removeprefix("\ufeff") if offset == 0 else text)


def _convert(name: str, encoding: str) -> str:
    unpack = {".gz": "gzip -dc", ".xz": "xz -dc"}.get(Path(name).suffix.lower())
    command = f"iconv -f {encoding} -t UTF-8"
    if name == STDIN:
        return f"If it is {encoding}, convert it in the pipe: … | {command} | foveate …"
    path = shlex.quote(name)
    command = f"{unpack} {path} | {command}" if unpack else f"{command} {path}"
    return f"If it is {encoding}, convert it: {command} > converted.txt"


def _refuse(name: str, number: int, what: str) -> NoReturn:
    raise DataError(f"{name}:{number}: {what}")
