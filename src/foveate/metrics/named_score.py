"""A score is a number with its name, its signature and its direction."""

from collections.abc import Sequence
from dataclasses import dataclass

from foveate.errors import DataError
from foveate.suggestion import counted


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score of a whole corpus, on the scale 0 to 100; error rates are per cent and may exceed 100.

    Two scores can be compared if their names and signatures are equal.

    >>> print(Score(name="WER", value=12.345, signature="unit:word", higher_is_better=False))
    WER|unit:word = 12.35
    """

    name: str
    value: float
    signature: str | None = None
    higher_is_better: bool

    def __str__(self) -> str:
        name = self.name if self.signature is None else f"{self.name}|{self.signature}"
        return f"{name} = {self.value:.2f}"


def require_pairs(name: str, hypotheses: Sequence[object], references: Sequence[object]) -> None:
    """Raise `DataError` without hypotheses or unless there is one reference for each hypothesis."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise DataError(f"{name}: a corpus is a list of lines, but got a single text. Put it in a list.")
    if len(hypotheses) != len(references):
        raise DataError(
            f"{name}: {counted(len(hypotheses), 'hypothesis')} but {counted(len(references), 'reference')}. "
            "Score the output line by line against the references of the same file."
        )
    if not hypotheses:
        raise DataError(f"{name}: there is nothing to score. Check that the file of references is not empty.")
