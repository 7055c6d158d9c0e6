"""Stores pairs as rows of tokens or vectors with rows of tokens, and reports on pairs of texts that were left out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Int64, UInt32
from torch import Tensor

from foveate.data.batch import Batch, PairBatch, Rejection
from foveate.data.pair_encoding import Linker, PairEncoder, Rejecter
from foveate.data.pair_report import Report
from foveate.data.row_journal import write_rows
from foveate.data.store import FeatureStore, TokenStore, open_rows
from foveate.data.text import Pair
from foveate.data.tokeniser import Tokeniser
from foveate.data.variant import Draw, drawn, longest
from foveate.errors import DataError
from foveate.nn.embed import Input


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
    directions: UInt32[np.ndarray, " rows"] | None = None
    """The direction of each pair, by its number; None of one direction."""
    rejected: TokenStore | None = None
    """Rejected targets as begin + tokens + end, with an empty row for a pair that has none; None without them."""

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
        rejected = TokenStore.open(folder / "rejected") if (folder / "rejected").exists() else None
        if rejected is not None and len(rejected) != len(source):
            raise DataError(
                f"{folder} is damaged: it has {len(source):,} sources and rejected targets of {len(rejected):,} pairs. "
                "Prepare the data again."
            )
        directions = TokenStore.open(folder / "directions") if (folder / "directions").exists() else None
        if directions is not None and not len(source) == len(directions) == directions.num_tokens:
            raise DataError(
                f"{folder} is damaged: it has {len(source):,} sources and {len(directions):,} directions. Prepare the "
                "data again."
            )
        variants = FeatureStore.open(folder / "variants") if (folder / "variants").exists() else None
        if variants is not None and not _are_variants(variants, len(source)):
            raise DataError(
                f"{folder} is damaged: sources and their variants differ in number. Prepare the data again."
            )
        numbers = None if directions is None else directions.tokens
        return cls(source, target, lines.tokens, links, variants, numbers, rejected)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def longest(self) -> Int64[np.ndarray, " rows"]:
        """The length of each source, or that of its longest variant."""
        return longest(self.source.lengths, self.variants)

    def batch(self, examples: Sequence[int] | np.ndarray, *, draw: Draw | None = None) -> PairBatch:
        """The pairs with these numbers, padded; with a `draw` those of training, whose sources may be variants."""
        chosen = tuple(int(example) for example in examples)
        sources = drawn(self.source, self.variants, chosen, draw)
        targets = [self.target[example] for example in chosen]
        links = None if self.links is None else _gathered(self.links, chosen)
        rejection = None if self.rejected is None else _rejection(self.rejected, sources, targets, chosen)
        return PairBatch(Batch.of(sources), Batch.of(targets), chosen, links, rejection)

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
        if self.rejected is not None:
            _require_tokens(self.rejected, target, shortest=0)
        if self.links is not None:
            _require_links(self.links, self.source.lengths, self.target.lengths)

    def verify(self) -> None:
        """Read all files. Raises DataError if one has changed since it was written."""
        self.source.verify()
        self.target.verify()
        for store in (self.links, self.rejected):
            if store is not None:
                store.verify()


def _are_variants(variants: FeatureStore, rows: int) -> bool:
    return not len(variants) % rows if rows else not len(variants)


def _require_tokens(store: TokenStore | FeatureStore, tokeniser: Tokeniser, *, shortest: int = 1) -> None:
    if not isinstance(store, TokenStore) or store.tokeniser_digest != tokeniser.digest():
        raise DataError(
            f"{store.folder} was made with another tokeniser: its digest differs. Prepare the data again, or "
            "restore the tokeniser it was made with."
        )
    store.require(below=tokeniser.vocab_size, shortest=shortest)


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
    rejected: Rejecter | None = None,
    processes: int = 1,
    origin: str = "",
) -> tuple[ParallelData, Report]:
    """Tokenise a stream of pairs into a folder, which is written completely or not at all.

    Pairs with an empty side, or a side of more than `max_length` tokens with its end symbol, are left out and reported.
    `links` returns the known links between the tokens of a pair, `rejected` a worse target of it, or an empty text.
    `processes` and `origin` are those of `write_rows`, which raises errors as well.
    """
    folder = Path(folder)
    encoder = PairEncoder(source_tokeniser, target_tokeniser, max_length, links, rejected)
    report = write_rows(folder, pairs, encoder, processes=processes, origin=origin)
    return ParallelData.open(folder), report


def _gathered(links: TokenStore, examples: Sequence[int]) -> Int[Tensor, "links 3"]:
    """The links of some pairs, each with the row of its pair in the batch."""
    pairs = [links[example].astype(np.int64).reshape(-1, 2) for example in examples]
    rows = np.repeat(np.arange(len(pairs)), [len(pair) for pair in pairs])
    return torch.from_numpy(np.column_stack([rows, np.concatenate([*pairs, np.empty((0, 2), np.int64)])]))


def _rejection(
    rejected: TokenStore, sources: Sequence[Any], targets: Sequence[np.ndarray], examples: Sequence[int]
) -> Rejection | None:
    """Some pairs with their rejected targets; None if none has one."""
    others = [rejected[example] for example in examples]
    rows = [row for row, other in enumerate(others) if len(other)]
    if not rows:
        return None
    source = Batch.of([*sources, *(sources[row] for row in rows)])
    return Rejection(source, Batch.of([*targets, *(others[row] for row in rows)]), torch.tensor(rows))
