"""Encodes pairs of texts, and counts those that are left out."""

from collections.abc import Callable, Iterable, Sequence

from foveate.data.block_encoding import EncodedBlock
from foveate.data.pair_report import LeftOut, Report
from foveate.data.text import Pair
from foveate.data.tokeniser import BOS, EOS, UNKNOWN, LanguageTokeniser, Tokeniser

Linker = Callable[[Pair, Sequence[int], Sequence[int]], Iterable[tuple[int, int]]]
"""Maps a pair and the tokens of both sides to its links, which are pairs of source and target token numbers."""
Rejecter = Callable[[Pair], str]
"""Maps a pair to its rejected target; an empty text stands for none."""


class PairEncoder:
    """Encodes both sides of pairs, and their rejected targets. Pairs with an empty side or a side that is too long are
    left out and counted.
    """

    what = "pairs"

    def __init__(
        self,
        source: Tokeniser,
        target: Tokeniser,
        max_length: int,
        links: Linker | None = None,
        rejected: Rejecter | None = None,
    ) -> None:
        self.source, self.target, self.max_length = source, target, max_length
        self.links, self.rejected = links, rejected

    @property
    def identity(self) -> int:
        return self.max_length

    @property
    def head(self) -> EncodedBlock[Report]:
        return EncodedBlock.of({}, Report(total=0, max_length=self.max_length))

    @property
    def stores(self) -> dict[str, tuple[str, int | None]]:
        """The stores of the rows, each with the digest of its tokeniser and the size of its vocabulary."""
        sides = {"source": self.source, "target": self.target}
        stores: dict[str, tuple[str, int | None]] = {
            name: (side.digest(), side.vocab_size) for name, side in sides.items()
        }
        others: dict[str, tuple[str, int | None]] = {"lines": ("", None)}
        if isinstance(self.source, LanguageTokeniser):
            others["directions"] = ("", None)
        if self.links:
            others["links"] = ("", None)
        if self.rejected:
            others["rejected"] = stores["target"]
        return {**stores, **others}

    def __call__(self, pairs: Sequence[Pair]) -> EncodedBlock[Report]:
        tally = _Tally(self.max_length, self.source, self.target)
        rows: dict[str, list[list[int]]] = {name: [] for name in self.stores}
        for pair in pairs:
            rejected = self.rejected(pair) if self.rejected else ""
            if sides := tally.rows(pair, rejected):
                rows["source"].append([*sides[0], EOS])
                rows["target"].append([BOS, *sides[1], EOS])
                rows["lines"].append([pair.line])
                if isinstance(self.source, LanguageTokeniser):
                    rows["directions"].append([self.source.number(pair.direction)])
                if self.links:
                    rows["links"].append([token for link in self.links(pair, *sides[:2]) for token in link])
                if self.rejected:
                    rows["rejected"].append([BOS, *sides[2], EOS] if sides[2] else [])
        return EncodedBlock.of(rows, tally.report())


class _Tally:
    """Encodes pairs and counts those that are left out."""

    def __init__(self, max_length: int, source: Tokeniser, target: Tokeniser) -> None:
        self.max_length, self.source, self.target = max_length, source, target
        self.total = self.longest = self.rejected = 0
        self.tokens, self.unknown = [0, 0], [0, 0]
        self.empty, self.too_long = LeftOut(), LeftOut()

    def rows(self, pair: Pair, rejected: str) -> tuple[list[int], list[int], list[int]] | None:
        """The ids of both sides and of the rejected target; None if the pair is left out."""
        self.total += 1
        rows = self._source(pair), self.target.encode(pair.target), self.target.encode(rejected)
        if not (rows[0] and rows[1] and pair.source.strip() and pair.target.strip()):
            self.empty = self.empty.add(pair.line)
            return None
        longest = max(map(len, rows)) + 1
        self.longest = max(self.longest, longest)
        if longest > self.max_length:
            self.too_long = self.too_long.add(pair.line)
            return None
        self.rejected += bool(rows[2])
        for side, row in enumerate(rows[:2]):
            self.tokens[side] += len(row)
            self.unknown[side] += row.count(UNKNOWN)
        return rows

    def _source(self, pair: Pair) -> list[int]:
        """The ids of a source, with the tag of the pair's direction where the model has several."""
        if not isinstance(self.source, LanguageTokeniser):
            return self.source.encode(pair.source)
        return self.source.into(pair.direction.partition("-")[2]).encode(pair.source) if pair.source else []

    def report(self) -> Report:
        return Report(
            total=self.total,
            max_length=self.max_length,
            empty=self.empty,
            too_long=self.too_long,
            longest=self.longest,
            rejected=self.rejected,
            source_tokens=self.tokens[0],
            target_tokens=self.tokens[1],
            source_unknown=self.unknown[0],
            target_unknown=self.unknown[1],
        )
