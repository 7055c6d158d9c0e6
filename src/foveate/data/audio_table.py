"""Tables and folders of recordings.

A table has a recording and its label or text on each line, with a tab between them, or a first line that names its
columns: `path`, `text` or `label`, and for stretches of longer recordings `start` and `end` or `duration`, in seconds.
Paths are relative to the table's folder. Or a folder has a folder of recordings for each label.
"""

import contextlib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from math import isfinite
from pathlib import Path

from foveate.data.audio_file import SUFFIXES, Clip
from foveate.data.file_table import FileTable, plain_names
from foveate.data.reader import Example
from foveate.data.text import read_lines
from foveate.errors import DataError

COLUMNS = ("path", "start", "end", "duration", "text", "label")
"""The names that the first line of a table may have."""
TEXTS = frozenset({"text", "label"})
SYNONYMS = {
    **dict.fromkeys(("file", "filename", "file_name", "audio", "wav", "recording", "clip"), "path"),
    **dict.fromkeys(("sentence", "transcript", "transcription", "words"), "text"),
    **dict.fromkeys(("begin", "onset", "offset"), "start"),
    **dict.fromkeys(("stop", "finish"), "end"),
    **dict.fromkeys(("length", "dur"), "duration"),
}
"""Names that other tables have for these columns, for errors."""
_ROUNDING = 0.01
"""The largest difference, in seconds, between an end and a duration that rounded times explain."""
_TABLE = FileTable(
    noun="recording",
    suffixes=SUFFIXES,
    contents=("text", "label"),
    columns=("path", "start", "end", "text"),
    label="yes",
)


def is_table(path: str) -> bool:
    """Whether a file is a table of recordings: its first cell names one, or is the name of the column of paths."""
    if not Path(path).is_file() or Path(path).suffix.lower() in {*SUFFIXES, ".npz"}:
        return False
    beginning = (line for line in islice(read_lines(path), 20) if line.strip())
    lines = [[cell.strip() for cell in line.split("\t")] for line in islice(beginning, 2)]
    return any(len(cells) > 1 and (_TABLE.fits(cells[0]) or _TABLE.named(cells)) for cells in lines)


def is_folder(path: str) -> bool:
    """Whether a folder has folders of recordings: the first file in one of its folders is a recording."""
    return _TABLE.is_folder(path)


def read_table(path: str) -> Iterator[Example]:
    """The recordings of a table, with their label or text. Raises DataError, with the line, for cells that are missing
    or wrong.
    """
    _TABLE.require_no_file(path)
    folder = Path(path).parent
    names: list[str] | None = None
    begun = False
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        cells = [cell.strip() for cell in text.split("\t")]
        first, begun = not begun, True
        if first and _heads(cells):
            names = _known(plain_names(cells), cells, f"{path}:{line}")
            continue
        values = _TABLE.values(cells, names, f"{path}:{line}")
        label = values["label" if "label" in values else "text"]
        if not (values["path"] and label):
            raise DataError(
                f"{path}:{line}: the {'label or text' if values['path'] else 'path'} is missing: "
                f"{_TABLE.write if names is None else 'fill the column'}."
            )
        start, end = _stretch(values, f"{path}:{line}")
        try:
            clip = Clip(folder / values["path"], start, end, f"{path}:{line}")
        except DataError as error:
            raise DataError(f"{path}:{line}: {error}") from None
        yield Example(line, clip, label)


def stretch_cells(clip: Clip) -> str:
    """The start and the end of a clip as cells of a table, from which the same clip is read.

    >>> stretch_cells(Clip(Path("talk.flac"), 12345.678, 12347.123))
    '12345.678\\t12347.123'
    """
    return f"{float(clip.start)!r}\t{'' if clip.end is None else repr(float(clip.end))}"


def _heads(cells: Sequence[str]) -> bool:
    """Whether the cells of the first line are names of columns, perhaps misspelt, rather than a recording."""
    return _TABLE.named(cells) or (not any(map(_TABLE.fits, cells)) and any(map(_column, plain_names(cells))))


def _column(name: str) -> str | None:
    """The name of a column that a misspelt or another name stands for."""
    similar = get_close_matches(name, COLUMNS, n=1, cutoff=0.7) if name else []
    return similar[0] if similar else SYNONYMS.get(name)


def _missing(name: str, names: Sequence[str]) -> str | None:
    """The missing column that a misspelt or another name stands for; None for a name that may stand beside others, such
    as `state` beside `path` and `text`.
    """
    column = _column(name)
    if name in COLUMNS or column is None or column in names or (column in TEXTS and TEXTS & {*names}):
        return None
    if column == "start" and name not in SYNONYMS:
        return column if "end" in names or not _TABLE.named(names) else None
    if column == "duration" or (column == "end" and name not in SYNONYMS):
        return column if "start" in names and not {"end", "duration"} & {*names} else None
    return column


def _known(names: list[str], cells: Sequence[str], where: str) -> list[str]:
    """The names of columns. Raises DataError for a name that occurs twice, for one that is misspelt, and for missing
    columns.
    """
    for name, cell in zip(names, cells, strict=True):
        column = _missing(name, names)
        if column:
            raise DataError(
                f"{where}: the column {cell!r} is not read. Did you mean {column!r}? Columns are named path, text or "
                "label, and for stretches start and end or duration, in seconds."
            )
    if not _TABLE.named(names):
        raise DataError(
            f"{where}: the first line names the columns {', '.join(cells)}. A table needs `path`, and `text` or "
            "`label`."
        )
    if {"text", "label"} <= {*names} or any(names.count(name) > 1 for name in COLUMNS):
        raise DataError(f"{where}: two columns have the same content: {', '.join(names)}. Give one column `text`.")
    return names


def _stretch(values: dict[str, str], where: str) -> tuple[float, float | None]:
    """The start and the end of a stretch. Without a column `start`, a duration is that of the recording."""
    start, end, duration = (_time(values.get(name, ""), where, name) for name in ("start", "end", "duration"))
    if "start" not in values or duration is None:
        return start or 0.0, end
    if not duration > 0:
        raise DataError(f"{where}: the duration {values['duration']!r} is not above 0. Write it in seconds, as 12.5.")
    last = (start or 0.0) + duration
    if end is not None and abs(last - end) > _ROUNDING:
        raise DataError(
            f"{where}: the end {values['end']!r} is not the start plus the duration {values['duration']!r}. Leave one "
            "of the two columns out."
        )
    return start or 0.0, last if end is None else end


def _time(cell: str, where: str, name: str) -> float | None:
    if not cell:
        return None
    with contextlib.suppress(ValueError):
        if isfinite(seconds := float(cell)):
            return seconds
    raise DataError(f"{where}: the {name} {cell!r} is not a number of seconds. Write it as 12.5.")


def read_folders(folder: Path) -> Iterator[Example]:
    """The recordings of a folder, whose label is the name of their folder. Raises DataError for other files."""
    for line, path, label in _TABLE.folders(folder):
        yield Example(line, Clip(path), label)
