"""Encodes tagged sentences, whose words are numbered as they come, with the row of every different word."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from foveate.data.block_encoding import EncodedBlock
from foveate.data.label import Labels
from foveate.data.labelled import Tagged
from foveate.data.labelled_report import LabelledReport, LabelTally


class Numbered(NamedTuple):
    """A sentence with the numbers of its words, and those of them that no sentence before it has."""

    sentence: Tagged
    numbers: list[int]
    first: list[str]


def numbered(sentences: Iterable[Tagged]) -> Iterator[Numbered]:
    """The sentences with the numbers of their words, which follow from the sentences before.

    >>> [one.numbers for one in numbered([Tagged(1, ("a", "saw"), ("D", "N")), Tagged(2, ("saw", "a"), ("V", "D"))])]
    [[0, 1], [1, 0]]
    """
    numbers: dict[str, int] = {}
    for sentence in sentences:
        known = len(numbers)
        row = [numbers.setdefault(word, len(numbers)) for word in sentence.words]
        first = [word for word, number in zip(sentence.words, row, strict=True) if number >= known]
        yield Numbered(sentence, row, list(dict.fromkeys(first)))


@dataclass(frozen=True, kw_only=True)
class SentenceEncoder:
    """The rows of sentences: the numbers of their words, their tags and lines, and the row that `form` makes of every
    word when it comes first.

    `measure` is the length of a sentence, `unknown` the number of its words that the vocabulary lacks; `digests` are
    those of what all three read. `lenient` is explained by `prepare_sentences`.
    """

    what: ClassVar[str] = "sentences"
    form: Callable[[str], list[int]]
    measure: Callable[[Sequence[str]], int]
    unknown: Callable[[Sequence[str]], int]
    digests: Mapping[str, str]
    labels: Labels
    max_length: int
    path: str
    lenient: bool = False

    @property
    def identity(self) -> Any:
        return type(self).__name__, dict(self.digests), self.labels.digest(), self.max_length, self.lenient

    @property
    def stores(self) -> dict[str, tuple[str, int | None]]:
        return dict.fromkeys(("inputs", "labels", "lines", "forms"), ("", None))

    @property
    def head(self) -> EncodedBlock[LabelledReport]:
        return EncodedBlock.of({}, self._tally().report())

    def __call__(self, examples: Sequence[Numbered]) -> EncodedBlock[LabelledReport]:
        tally, stored = self._tally(), dict[str, list[list[int]]]({name: [] for name in self.stores})
        for (line, words, names), numbers, first in examples:
            stored["forms"] += map(self.form, first)
            tags = tally.labels(line, self.measure(words), names)
            if tags is None:
                continue
            tally.unknown += self.unknown(words)
            for name, values in (("inputs", numbers), ("labels", tags), ("lines", [line])):
                stored[name].append(values)
        return EncodedBlock.of(stored, tally.report())

    def _tally(self) -> LabelTally:
        return LabelTally(self.what, self.max_length, self.labels, self.path, self.lenient)
