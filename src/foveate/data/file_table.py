"""Tables of files with a label or a text each, and folders with a folder of files for each label.

A table has a path and a label on each line, with a tab between them, or a first line that names its columns, such as
`path` and `label`. Paths are relative to the table's folder.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from foveate.data.text import read_lines, short
from foveate.errors import DataError
from foveate.suggestion import listing

PATHS = frozenset(
    {"file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img", "name", "photo", "picture"}
)
"""Names of a column of paths in tables of other programs."""


@dataclass(frozen=True, kw_only=True)
class FileTable:
    """Reads tables and folders of one kind of files, such as pictures."""

    noun: str
    """The kind of files, in the singular."""
    suffixes: frozenset[str]
    contents: tuple[str, ...]
    """The columns that a file's label or text may be in."""
    columns: tuple[str, ...]
    """The columns that messages suggest."""
    label: str
    """An example of a label."""

    @property
    def write(self) -> str:
        """The content of a line, for messages."""
        return f"write the path of a {self.noun}, a tab and its label or text"

    def is_table(self, path: str) -> bool:
        """Whether a file is such a table: its first cell names such a file, or its first line names columns, perhaps
        by other names than these, and the second line such a file.
        """
        if not Path(path).is_file() or Path(path).suffix.lower() in {*self.suffixes, ".npz"}:
            return False
        first, second = ([cell.strip() for cell in line.split("\t")] for line in self._beginning(path))
        if len(first) > 1 and self.named(first):
            return self.fits(dict(zip(plain_names(first), second, strict=False)).get("path", ""))
        return len(first) > 1 and (self.fits(first[0]) or self._strange(first, second))

    def _strange(self, first: Sequence[str], second: Sequence[str]) -> bool:
        """Whether a first line has another name for the column of paths, and the line after it such a file."""
        places = [place for place, name in enumerate(plain_names(first)) if name in PATHS]
        return any(place < len(second) and self.fits(second[place]) for place in places)

    def is_folder(self, path: str) -> bool:
        """Whether a folder has folders of such files: the first file in one of its folders is one. Hidden files and
        folders do not count.
        """
        labels = sorted(_visible(Path(path))) if Path(path).is_dir() else []
        inside = (one for label in labels if label.is_dir() for one in sorted(_visible(label)))
        return next((self.fits(one.name) for one in inside), False)

    def lines(self, path: str, contents: Sequence[str] = ()) -> Iterator[tuple[int, str, str]]:
        """The lines of a table that are not empty: the number, the path and the label or text of each.

        A first line that names columns decides for all lines where these are: in the first of `contents`, by default
        those of this table, that it names. Raises DataError, with the line, for missing cells.
        """
        self.require_no_file(path)
        names: list[str] | None = None
        chosen = self.contents[0]
        first, second = ([cell.strip() for cell in line.split("\t")] for line in self._beginning(path))
        begun = False
        for line, text in enumerate(read_lines(path), start=1):
            if not text.strip():
                continue
            cells = [cell.strip() for cell in text.split("\t")]
            head, begun = not begun, True
            if head and not self.named(cells) and self._strange(first, second):
                raise DataError(
                    f"{path}:{line}: the first line names the columns {', '.join(map(short, cells))}. A table needs "
                    f"`path`, and {' or '.join(f'`{name}`' for name in self.contents)}. Name them so."
                )
            if head and self.named(cells):
                names = plain_names(cells)
                repeated = [name for name in (*self.columns, *self.contents) if names.count(name) > 1]
                if repeated:
                    raise DataError(
                        f"{path}:{line}: two columns have the same content: {', '.join(names)}. Leave one out."
                    )
                chosen = next(name for name in contents or self.contents if name in names)
                continue
            values = self.values(cells, names, f"{path}:{line}")
            for column in ("path", chosen):
                if not values[column]:
                    missing = "path" if column == "path" else "label or text" if names is None else column
                    remedy = self.write if names is None else f"fill the column `{column}`"
                    raise DataError(f"{path}:{line}: the {missing} is missing: {remedy}.")
            yield line, values["path"], values[chosen]

    def folders(self, folder: Path) -> Iterator[tuple[int, Path, str]]:
        """The files of a folder, numbered from 1, with the name of their folder as the label. Raises DataError for
        other files.
        """
        line = 0
        for label in sorted(_visible(folder)):
            if not label.is_dir():
                table = label.suffix.lower() in (".tsv", ".csv", ".txt")
                or_name = (
                    f" If it is the table of the {self.noun}s, name it in the place of the folder." if table else ""
                )
                raise DataError(
                    f"{label} is not in a folder that names its label. Move it into one, such as "
                    f"{folder / self.label}.{or_name}"
                )
            files = sorted(_visible(label))
            if not files:
                raise DataError(
                    f"{label} is empty: no {self.noun} has this label. Put {self.noun}s into it, or remove the folder."
                )
            for file in files:
                line += 1
                if not file.is_file() or not self.fits(file.name):
                    raise DataError(
                        f"{file} is not a {self.noun} that can be read ({listing(sorted(self.suffixes), 12)}). "
                        "Convert it, or move it away."
                    )
                yield line, file, label.name

    def _beginning(self, path: str) -> tuple[str, str]:
        """The first two lines that are not empty."""
        first, second, *_ = [*(line for line in islice(read_lines(path), 20) if line.strip()), "", ""]
        return first, second

    def require_no_file(self, path: str) -> None:
        """Raises DataError for such a file in the place of a table."""
        if self.fits(path):
            raise DataError(f"{path} is a {self.noun} without a label. Give a table of {self.noun}s: {self.write}.")

    def fits(self, name: str) -> bool:
        """Whether a name is that of such a file."""
        return Path(name).suffix.lower() in self.suffixes

    def named(self, cells: Sequence[str]) -> bool:
        """Whether cells are names of columns, among them those of paths and of labels or texts."""
        names = plain_names(cells)
        return "path" in names and any(name in names for name in self.contents)

    def values(self, cells: Sequence[str], names: Sequence[str] | None, where: str) -> dict[str, str]:
        """The cells of a line by the names of their columns; without names, the path and the first of the contents.

        Raises DataError for another number of cells; those at the end of a line may be missing where there are names.
        """
        if names is None:
            if len(cells) != 2:
                raise DataError(
                    f"{where}: the line has {len(cells)} column{'s' * (len(cells) > 1)}: {self.write}. Tables with "
                    f"other columns begin with a line of names: {', '.join(self.columns[:-1])} and {self.columns[-1]}."
                )
            return {"path": cells[0], self.contents[0]: cells[1]}
        if len(cells) > len(names):
            raise DataError(f"{where}: the line has {len(cells)} columns, and the first line names {len(names)}.")
        return {**dict.fromkeys(names, ""), **dict(zip(names, cells, strict=False))}


def plain_names(cells: Sequence[str]) -> list[str]:
    """Names of columns in small letters."""
    return [cell.casefold() for cell in cells]


def visible_files(folder: Path, suffixes: Collection[str]) -> list[Path]:
    """The files with these endings in a folder and the folders in it, without hidden ones, such as those that macOS
    puts beside each file on foreign disks.
    """
    files = (one for one in folder.rglob("*") if one.suffix.lower() in suffixes)
    return sorted(one for one in files if not any(part.startswith(".") for part in one.relative_to(folder).parts))


def _visible(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if not one.name.startswith(".")]
