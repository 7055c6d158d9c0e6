"""Stores pairs as rows of tokens or vectors with rows of tokens, and reports on pairs of texts that were left out."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, Int64, UInt32
from torch import Tensor

from foveate.data.batch import Batch, PairBatch
from foveate.data.store import FeatureStore, TokenStore, open_rows
from foveate.data.text import Pair
from foveate.data.tokeniser import BOS, EOS, UNKNOWN, Tokeniser
from foveate.data.variant import Draw, drawn, longest
from foveate.errors import DataError
from foveate.nn.embed import Input
from foveate.storage.draft import draft_folder
from foveate.suggestion import counted

_NAMED = 5
Linker = Callable[[Pair, Sequence[int], Sequence[int]], Iterable[tuple[int, int]]]
"""Maps a pair and the tokens of both sides to its links, which are pairs of source and target token numbers."""


@dataclass(frozen=True)
class LeftOut:
    """The number of lines that were left out for one reason, and the first line numbers."""

    count: int = 0
    lines: tuple[int, ...] = ()

    def add(self, line: int) -> "LeftOut":
        return LeftOut(self.count + 1, (*self.lines, line) if len(self.lines) < _NAMED else self.lines)

    def __str__(self) -> str:
        """
        >>> print(LeftOut(1, (7,)), "|", LeftOut(9, (1, 2, 3, 4, 5)))
        line 7 | lines 1, 2, 3, 4, 5 and 4 more
        """
        names = [str(line) for line in self.lines]
        if self.count > len(names):
            return f"lines {', '.join(names)} and {self.count - len(names):,} more"
        return f"line {names[0]}" if self.count == 1 else f"lines {', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """The numbers of used and omitted pairs, with the reasons. Pairs are never truncated.

    >>> print(Report(total=4, max_length=50, empty=LeftOut(1, (2,)), source_tokens=200, source_unknown=3))
    3 of 4 pairs are used. 1 has an empty side: line 2. 1.5 % of the source tokens are unknown.
    """

    total: int
    max_length: int
    empty: LeftOut = LeftOut()
    too_long: LeftOut = LeftOut()
    longest: int = 0
    """The number of tokens of the longest side, including pairs that were left out."""
    source_tokens: int = 0
    target_tokens: int = 0
    source_unknown: int = 0
    target_unknown: int = 0

    @property
    def used(self) -> int:
        return self.total - self.empty.count - self.too_long.count

    def __str__(self) -> str:
        sentences = [f"All {self.total:,} pairs are used." if 1 < self.used == self.total else self._used()]
        if self.empty.count:
            has = "has" if self.empty.count == 1 else "have"
            sentences.append(f"{self.empty.count:,} {has} an empty side: {self.empty}.")
        if self.too_long.count:
            have = "1 has a side" if self.too_long.count == 1 else f"{self.too_long.count:,} have a side"
            sentences.append(
                f"{have} of more than {self.max_length:,} tokens (the longest has {self.longest:,}): {self.too_long}."
            )
        unknown = [
            f"{_percent(unknown, tokens)} of the {side} tokens"
            for side, unknown, tokens in (
                ("source", self.source_unknown, self.source_tokens),
                ("target", self.target_unknown, self.target_tokens),
            )
            if unknown
        ]
        if unknown:
            sentences.append(
                f"{' and '.join(unknown)} are unknown.".replace("less", "Less", unknown[0].startswith("less"))
            )
        return " ".join(sentences)

    def _used(self) -> str:
        used, verb = f"{self.used:,}" if self.used else "None", "is" if self.used == 1 else "are"
        return f"{used} of {counted(self.total, 'pair')} {verb} used."


@dataclass(frozen=True)
class ParallelData:
    """Rows of the same pairs. Sources are tokens + end, or vectors; targets are begin + tokens + end."""

    source: TokenStore | FeatureStore
    target: TokenStore
    lines: UInt32[np.ndarray, " rows"]
    """The line number of each pair, for messages."""
    links: TokenStore | None = None
    """Links between tokens, alternating source and target; None without links."""
    variants: FeatureStore | None = None
    """Other sources of the pairs, which training reads in turn with `source`; as many for each pair."""

    @classmethod
    def open(cls, folder: Path | str) -> "ParallelData":
        """Map the files of `prepare` into memory. Raises DataError if they are missing or damaged."""
        folder = Path(folder)
        if not folder.is_dir():
            raise DataError(
                f"{folder} does not exist, but should contain prepared data. Run the training command again."
            )
        source, target = open_rows(folder / "source"), TokenStore.open(folder / "target")
        lines = TokenStore.open(folder / "lines")
        links = TokenStore.open(folder / "links") if (folder / "links").exists() else None
        if not len(source) == len(target) == len(lines) == lines.num_tokens:
            raise DataError(
                f"{folder} is damaged: it has {len(source):,} sources, {len(target):,} targets and {len(lines):,} line "
                "numbers. Prepare the data again."
            )
        if links is not None and len(links) != len(source):
            raise DataError(
                f"{folder} is damaged: it has {len(source):,} sources and links of {len(links):,} pairs. Prepare the "
                "data again."
            )
        variants = FeatureStore.open(folder / "variants") if (folder / "variants").exists() else None
        if variants is not None and (not len(source) or len(variants) % len(source)):
            raise DataError(
                f"{folder} is damaged: sources and their variants differ in number. Prepare the data again."
            )
        return cls(source, target, lines.tokens, links, variants)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def longest(self) -> Int64[np.ndarray, " rows"]:
        """The length of each source, or that of its longest variant."""
        return longest(self.source.lengths, self.variants)

    def batch(self, examples: Sequence[int] | np.ndarray, *, draw: Draw | None = None) -> PairBatch:
        """The pairs with these numbers, padded; with a `draw` those of training, whose sources may be variants."""
        chosen = tuple(int(example) for example in examples)
        source = Batch.of(drawn(self.source, self.variants, chosen, draw))
        target = Batch.of([self.target[example] for example in chosen])
        return PairBatch(source, target, chosen, None if self.links is None else _gathered(self.links, chosen))

    def require(self, source: Tokeniser | Input, target: Tokeniser) -> None:
        """Raise DataError unless the rows were made with these tokenisers, or the sources fit this input."""
        if isinstance(source, Tokeniser):
            _require_tokens(self.source, source)
        elif isinstance(self.source, FeatureStore) and source.width is not None:
            self.source.require(width=source.width, shortest=1)
            if self.variants is not None:
                self.variants.require(width=source.width, shortest=1)
        else:
            raise DataError(f"{self.source.folder} has rows of another kind than {source}. Prepare the data again.")
        _require_tokens(self.target, target)
        if self.links is not None:
            _require_links(self.links, self.source.lengths, self.target.lengths)

    def verify(self) -> None:
        """Read all files. Raises DataError if one has changed since it was written."""
        self.source.verify()
        self.target.verify()
        if self.links is not None:
            self.links.verify()


def _require_tokens(store: TokenStore | FeatureStore, tokeniser: Tokeniser) -> None:
    if not isinstance(store, TokenStore) or store.tokeniser_digest != tokeniser.digest():
        raise DataError(
            f"{store.folder} was made with another tokeniser: its digest differs. Prepare the data again, or "
            "restore the tokeniser it was made with."
        )
    store.require(below=tokeniser.vocab_size, shortest=1)


def _require_links(links: TokenStore, source: np.ndarray, target: np.ndarray) -> None:
    """Raise DataError for a link to a token that its pair does not have."""
    paired = not (links.lengths % 2).any()
    pairs = np.repeat(np.arange(len(links)), links.lengths // 2) if paired else np.empty(0, np.int64)
    if not paired or (links.tokens[::2] >= source[pairs]).any() or (links.tokens[1::2] >= target[pairs]).any():
        raise DataError(f"{links.folder} links tokens that their pairs do not have. Prepare the data again.")


def prepare(
    folder: Path | str,
    pairs: Iterable[Pair],
    source_tokeniser: Tokeniser,
    target_tokeniser: Tokeniser,
    *,
    max_length: int,
    links: Linker | None = None,
) -> tuple[ParallelData, Report]:
    """Tokenise a stream of pairs into a folder, which is written completely or not at all.

    Pairs with an empty side, or a side of more than `max_length` tokens with its end symbol, are left out and reported.
    `links` returns the known links between the tokens of a pair.
    """
    tally = _Tally(max_length, source_tokeniser, target_tokeniser)
    with (
        draft_folder(Path(folder)) as draft,
        TokenStore.writer(
            draft / "source", source_tokeniser.digest(), vocab_size=source_tokeniser.vocab_size
        ) as sources,
        TokenStore.writer(
            draft / "target", target_tokeniser.digest(), vocab_size=target_tokeniser.vocab_size
        ) as targets,
        TokenStore.writer(draft / "lines", "") as lines,
        TokenStore.writer(draft / "links", "") if links else contextlib.nullcontext() as linked,
    ):
        for pair in pairs:
            if rows := tally.rows(pair):
                sources.append([*rows[0], EOS])
                targets.append([BOS, *rows[1], EOS])
                lines.append([pair.line])
                if links and linked:
                    linked.append([token for link in links(pair, *rows) for token in link])
    return ParallelData.open(folder), tally.report()


def _gathered(links: TokenStore, examples: Sequence[int]) -> Int[Tensor, "links 3"]:
    """The links of some pairs, each with the row of its pair in the batch."""
    pairs = [links[example].astype(np.int64).reshape(-1, 2) for example in examples]
    rows = np.repeat(np.arange(len(pairs)), [len(pair) for pair in pairs])
    return torch.from_numpy(np.column_stack([rows, np.concatenate([*pairs, np.empty((0, 2), np.int64)])]))


class _Tally:
    """Encodes pairs and counts those that are left out."""

    def __init__(self, max_length: int, source: Tokeniser, target: Tokeniser) -> None:
        self.max_length, self.source, self.target = max_length, source, target
        self.total = self.longest = 0
        self.tokens, self.unknown = [0, 0], [0, 0]
        self.empty, self.too_long = LeftOut(), LeftOut()

    def rows(self, pair: Pair) -> tuple[list[int], list[int]] | None:
        """The ids of both sides; None if the pair is left out."""
        self.total += 1
        rows = self.source.encode(pair.source), self.target.encode(pair.target)
        if not (rows[0] and rows[1] and pair.source.strip() and pair.target.strip()):
            self.empty = self.empty.add(pair.line)
            return None
        longest = max(map(len, rows)) + 1
        self.longest = max(self.longest, longest)
        if longest > self.max_length:
            self.too_long = self.too_long.add(pair.line)
            return None
        for side, row in enumerate(rows):
            self.tokens[side] += len(row)
            self.unknown[side] += row.count(UNKNOWN)
        return rows

    def report(self) -> Report:
        return Report(
            total=self.total,
            max_length=self.max_length,
            empty=self.empty,
            too_long=self.too_long,
            longest=self.longest,
            source_tokens=self.tokens[0],
            target_tokens=self.tokens[1],
            source_unknown=self.unknown[0],
            target_unknown=self.unknown[1],
        )


def _percent(part: int, whole: int) -> str:
    """A share as a percentage with one decimal; a share above zero is never shown as 0.0."""
    return f"{100 * part / whole:.1f} %" if 1000 * part >= whole else "less than 0.1 %"
