"""Encodes the lines of a text: as one stream of tokens, or each line alone, with one or two texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from foveate.data.block_encoding import EncodedBlock
from foveate.data.pair_report import LeftOut
from foveate.data.text_pair import Segmented, joined
from foveate.data.tokeniser import EOS, Tokeniser


@dataclass(frozen=True, kw_only=True)
class LineReport:
    """The number of lines, and those that are left out because they are longer than `most` tokens."""

    total: int = 0
    most: int | None = None
    left_out: LeftOut = LeftOut()

    def __add__(self, other: "LineReport") -> "LineReport":
        return LineReport(total=self.total + other.total, most=self.most, left_out=self.left_out + other.left_out)

    def __str__(self) -> str:
        return f"More than {self.most:,} tokens, left out: {self.left_out}." if self.left_out.count else ""


@dataclass(frozen=True)
class LineEncoder:
    """The rows of a store that hold a text: an end alone, then every line with its end."""

    what: ClassVar[str] = "lines"
    tokeniser: Tokeniser
    most: int | None = None

    @property
    def identity(self) -> Any:
        return type(self).__name__, self.most

    @property
    def stores(self) -> dict[str, tuple[str, int | None]]:
        return {"": (self.tokeniser.digest(), self.tokeniser.vocab_size)}

    @property
    def head(self) -> EncodedBlock[LineReport]:
        return EncodedBlock.of({"": [[EOS]]}, LineReport(most=self.most))

    def __call__(self, examples: Sequence[str]) -> EncodedBlock[LineReport]:
        rows = [[*self.tokeniser.encode(line), EOS] for line in examples]
        return EncodedBlock.of({"": rows}, LineReport(total=len(examples), most=self.most))


@dataclass(frozen=True)
class SegmentEncoder(LineEncoder):
    """The tokens of each line, one text or two, with an end after each. Lines of more than `most` tokens are left out
    completely, and empty ones have no row.
    """

    def __call__(self, examples: Sequence[Segmented]) -> EncodedBlock[LineReport]:  # type: ignore[override]
        rows, left_out = list[list[int]](), LeftOut()
        for line, texts in examples:
            row = joined(texts, self.tokeniser)
            if self.most is not None and len(row) > self.most:
                left_out = left_out.add(line)
            elif row:
                rows.append(row)
        return EncodedBlock.of({"": rows}, LineReport(total=len(examples), most=self.most, left_out=left_out))
