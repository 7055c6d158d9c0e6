"""The pairs of a translation run: where they are, which are held out, the links between their words, and what was
rejected.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foveate.config import require_counts, setting
from foveate.data.text import Pair, free_columns, read_cells, read_lines, read_pairs, require_lasting
from foveate.data.tokeniser import Tokeniser
from foveate.data.tokeniser.language_tokeniser import require_direction
from foveate.errors import DataError
from foveate.inspect.link import piece_links, require_words, text_spans
from foveate.metrics import parse_pharaoh
from foveate.storage.draft import disk_errors
from foveate.storage.staging import stamps
from foveate.suggestion import counted


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The files of pairs, and the settings that make batches of them."""

    source: str = setting("", "file of source lines, or of tab-separated columns when there is no target file")
    target: str | None = setting(None, "file of target lines, line by line the partner of source")
    columns: tuple[int, int] | None = setting(
        None, "source and target column of a tab-separated file, counted from 0; none: it has no others"
    )
    valid_source: str | None = setting(None, "validation pairs; none: some training lines are held out")
    valid_target: str | None = setting(None, "target side of the validation pairs")
    links: str | None = setting(None, "file of word links like 0-0 1-2, line by line of source: attention is guided")
    valid_links: str | None = setting(None, "links of the validation pairs")
    rejected: str | None = setting(
        None, "file of worse translations, line by line of source, that become less probable; none: an empty line"
    )
    links_column: int | None = setting(None, "column of the links, where they are in the tab-separated file of source")
    direction_column: int | None = setting(
        None,
        "column of a tab-separated file with the direction of each pair, such as en-fa: a model of several languages",
    )
    temperature: float | None = setting(
        None, "directions have shares of the batches in proportion to their size^(1/temperature); none: as in the data"
    )
    shares: dict[str, float] | None = setting(
        None, "factors of directions' shares of the batches, such as { en-fa = 4.0 }; none: 1 for all"
    )
    held_out: int = setting(1000, "lines held out for validation when no file is given; at most a tenth of all")
    max_length: int = setting(250, "longest side in tokens; longer pairs are left out and reported")
    max_tokens: int = setting(4096, "tokens per batch, both sides, padding counted")
    processes: int | None = setting(None, "processes that tokenise the pairs, with the same result; none: one")
    shard: int | None = setting(
        None,
        "pairs shuffled together; of more, shards are shuffled, then the pairs of each; none: 100 million",
    )

    def __post_init__(self) -> None:
        require_counts(self, "held_out", "max_length", "max_tokens", "processes", "shard")
        if self.valid_target is not None and self.valid_source is None:
            raise ValueError("valid_target is given without valid_source, whose lines are its partners")
        if self.valid_links is not None and self.valid_source is None:
            raise ValueError("valid_links is given without valid_source, whose lines are its partners")
        if self.links_column is not None and (self.links is not None or self.target is not None):
            raise ValueError("links_column is a column of one file with everything: give no links and no target then")
        if self.temperature is not None and self.temperature < 1:
            raise ValueError(f"temperature must be at least 1, got {self.temperature}")
        for direction, share in (self.shares or {}).items():
            if not 0 < share < math.inf:
                raise ValueError(f"shares of {direction} must be a finite number above 0, got {share}")
        if self.direction_column is None:
            if self.temperature is not None or self.shares is not None:
                balance = "temperature balances" if self.shares is None else "shares balance"
                raise ValueError(f"{balance} directions, which only direction_column names")
        elif self.target is not None or self.valid_target is not None:
            raise ValueError("direction_column is a column of one file with everything: give no target file then")
        elif self.shard is not None:
            raise ValueError("shards are for pairs of one direction: give no shard then")

    def read(self, source: str, target: str | None) -> Iterator[Pair]:
        """The pairs of a file, or of two. Raises as `read_pairs` does, and DataError for a malformed direction."""
        if self.direction_column is not None:
            return self._directed(source)
        return read_pairs(source, target, columns=self.columns, beside=self.links_column)

    def _directed(self, path: str) -> Iterator[Pair]:
        """The pairs of a file with their directions."""
        assert self.direction_column is not None
        columns = self.columns or free_columns(self.direction_column, self.links_column)
        otherwise = "one of them is the direction (data.direction_column)"
        for line, cells in read_cells(path, (*columns, self.direction_column), otherwise=otherwise):
            source, target, direction = cells
            if source or target or direction:  # an empty line has no direction, and is left out and reported
                require_direction(direction, f"{path}:{line}")
            yield Pair(line, source, target, direction)


class Links:
    """The word links of a file's pairs, line by line, as links between tokens."""

    def __init__(self, lines: Sequence[str], where: str, source: Tokeniser, target: Tokeniser) -> None:
        """`where` names the file in messages."""
        self.lines, self.where = lines, where
        self.source, self.target = source, target

    def __call__(self, pair: Pair, source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
        """The links of a pair's pieces: every piece of a word has the links of its word. Tags have none.

        Raises DataError, with the line, for malformed links, for links to words that do not exist, and for text whose
        pieces cross word boundaries.
        """
        (links,) = parse_pharaoh([self.lines[pair.line - 1]], self.where, first=pair.line)
        texts, place = (pair.source, pair.target), f"{self.where}:{pair.line}"
        if not links.possible:
            return []
        require_words(links.possible, texts, place)
        sides = ((self.source, source), (self.target, target))
        try:
            spans = [
                text_spans(tokeniser.pieces(ids), text, tokeniser.num_tags)
                for (tokeniser, ids), text in zip(sides, texts, strict=True)
            ]
        except DataError as error:
            raise DataError(f"{place}: {error}") from error
        return piece_links(links.possible, *spans)


class Rejected:
    """The rejected translations of a file's pairs, line by line."""

    def __init__(self, lines: Sequence[str], where: str) -> None:
        """`where` names the file in messages."""
        self.lines = {number: line for number, line in enumerate(lines, start=1) if line.strip()}
        self.where = where

    def __call__(self, pair: Pair) -> str:
        """The rejected translation of a pair; an empty text if it has none. Raises DataError for one that is the target
        as well.
        """
        rejected = self.lines.get(pair.line, "")
        if rejected and rejected == pair.target:
            raise DataError(
                f"{self.where}:{pair.line}: the rejected translation is the target itself. Empty this line, or name "
                "another translation."
            )
        return rejected


class Pairs:
    """The pairs for training and for validation, read from their files each time."""

    def __init__(self, data: DataConfig, seed: int) -> None:
        """Without validation files some lines are held out: drawn once, by the seed.

        Raises DataError when files are missing or unreadable, or there are too few pairs to hold some out.
        """
        require_lasting(data.source, data.target, data.valid_source, data.valid_target)
        self.data = data
        self.drawn: frozenset[int] = frozenset()
        """The line numbers, from 1, held out."""
        if data.valid_source is not None:
            return
        total = sum(1 for _ in self._file("train"))
        size = min(data.held_out, total // 10)
        if size < 1:
            raise DataError(
                f"{data.source} has {counted(total, 'pair')}: too few to hold some out for validation. "
                "Give at least 10, or validation files with --valid-source (data.valid_source) and --valid-target."
            )
        drawn = np.random.default_rng(seed).choice(total, size=size, replace=False)
        self.drawn = frozenset((drawn + 1).tolist())

    def __call__(self, part: str) -> Iterator[Pair]:
        """The pairs of "train" or "valid", streamed."""
        if self.data.valid_source is not None:
            return self._file(part)
        return (pair for pair in self._file(part) if (pair.line in self.drawn) == (part == "valid"))

    def origin(self, part: str) -> str:
        """A text that promises the same pairs: the files with their sizes and times, and the choice among them."""
        data = self.data
        texts = (data.source, data.target, data.valid_source, data.valid_target)
        files = (*texts, data.links, data.valid_links, *([data.rejected] if data.rejected else []))
        stats = [stamps(file) for file in files]
        choice = [part, data.columns, data.links_column, data.direction_column, sorted(self.drawn)]
        return json.dumps([stats, choice])

    def directions(self, part: str) -> list[str]:
        """The directions of the pairs; none where the data do not name any."""
        return sorted({pair.direction for pair in self(part)} - {""}) if self.data.direction_column is not None else []

    def texts(self, *sides: str) -> Iterator[str]:
        """The training text of one side or of both, for a tokeniser."""
        for pair in self("train"):
            yield from (getattr(pair, side) for side in sides)

    def links(self, part: str, source: Tokeniser, target: Tokeniser) -> Links | None:
        """The links of one part, where there are any."""
        data = self.data
        apart = part == "valid" and data.valid_source is not None
        texts, path = (data.valid_source, data.valid_links) if apart else (data.source, data.links)
        if data.links_column is not None and texts is not None:
            columns = (data.links_column, data.links_column)
            return Links([pair.source for pair in read_pairs(texts, columns=columns)], texts, source, target)
        if path is None:
            return None
        return Links(self._beside(path, part, "links"), path, source, target)

    def rejected(self, part: str) -> Rejected | None:
        """The rejected translations of the training pairs, where there are any."""
        path = self.data.rejected
        if path is None or part != "train":
            return None
        return Rejected(self._beside(path, part, "rejected translations"), path)

    def _beside(self, path: str, part: str, what: str) -> list[str]:
        """The lines of a file that belong to the pairs of another. Raises DataError if they differ in number."""
        lines, pairs = list(read_lines(path)), sum(1 for _ in self._file(part))
        if len(lines) != pairs:
            raise DataError(
                f"{path} has {counted(len(lines), 'line')} but there are {counted(pairs, 'pair')}. Line n of the "
                f"{what} belongs to pair n; a pair without {what} has an empty line."
            )
        return lines

    def hold_out(self, folder: Path) -> dict[str, Any]:
        """Write train.tsv and valid.tsv, without pairs that have an empty side; the settings of `data` that name them.

        Raises DataError for links and rejected translations, which belong to the lines of their files, and for a tab
        inside a text.
        """
        if self.data.direction_column is not None:
            raise DataError(
                "Pairs of several directions are not held out for a comparison. Give validation files with "
                "--valid-source (data.valid_source)."
            )
        if self.data.links is not None or self.data.links_column is not None:
            raise DataError(
                "Links belong to the lines of their files, and no line is held out from those for a comparison. "
                "Give validation files with --valid-source (data.valid_source) and --valid-links."
            )
        if self.data.rejected is not None:
            raise DataError(
                "Rejected translations belong to the lines of their files, and no line is held out from those for a "
                "comparison. Give validation files with --valid-source (data.valid_source)."
            )
        for part in ("train", "valid"):
            pairs = [pair for pair in self(part) if part == "train" or (pair.source.strip() and pair.target.strip())]
            for pair in pairs:
                if "\t" in pair.source or "\t" in pair.target:
                    raise DataError(
                        f"Line {pair.line} has a tab inside a text, and pairs held out for a comparison are kept in "
                        "columns. Take it out, or give validation files with --valid-source (data.valid_source) and "
                        "--valid-target."
                    )
            with disk_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
                text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
                (folder / f"{part}.tsv").write_text(text, encoding="utf-8")
        return {"source": "train.tsv", "valid_source": "valid.tsv", "target": None, "columns": [0, 1]}

    def _file(self, part: str) -> Iterator[Pair]:
        data = self.data
        if part == "valid" and data.valid_source is not None:
            return data.read(data.valid_source, data.valid_target)
        return data.read(data.source, data.target)
