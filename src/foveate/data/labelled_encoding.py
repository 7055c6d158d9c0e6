"""Encodes labelled texts, each with one label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foveate.data.block_encoding import EncodedBlock
from foveate.data.label import Labels
from foveate.data.labelled import LabelledText
from foveate.data.labelled_report import LabelledReport, LabelTally
from foveate.data.reader import RowMaker


@dataclass(frozen=True, kw_only=True)
class LabelledEncoder:
    """The rows of texts, with their labels and lines. `lenient` is explained by `prepare_rows`."""

    rows: RowMaker
    labels: Labels
    what: str
    max_length: int
    path: str
    lenient: bool = False

    @property
    def identity(self) -> Any:
        return self.rows.digests(), self.labels.digest(), self.max_length, self.lenient

    @property
    def stores(self) -> dict[str, tuple[str, int | None]]:
        return dict.fromkeys(("inputs", "labels", "lines"), ("", None))

    @property
    def head(self) -> EncodedBlock[LabelledReport]:
        return EncodedBlock.of({}, self._tally().report())

    def __call__(self, examples: Sequence[LabelledText]) -> EncodedBlock[LabelledReport]:
        tally, stored = self._tally(), dict[str, list[list[int]]]({name: [] for name in self.stores})
        for example in examples:
            row = self.rows.row(example.thing)
            numbers = tally.labels(example.line, len(row), [example.label])
            if numbers is not None:
                tally.unknown += self.rows.unknown(row)
                for name, values in (("inputs", row.values.tolist()), ("labels", numbers), ("lines", [example.line])):
                    stored[name].append(values)
        return EncodedBlock.of(stored, tally.report())

    def _tally(self) -> LabelTally:
        return LabelTally(self.what, self.max_length, self.labels, self.path, self.lenient)
