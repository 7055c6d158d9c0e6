"""Counts labelled examples that are used for training, and those that are left out, with the reasons."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from foveate.data.label import Labels
from foveate.data.pair_report import LeftOut
from foveate.errors import DataError

_NAMED = 10
_SUMS = ("total", "empty", "too_long", "strange", "tokens", "unknown")


@dataclass(frozen=True, kw_only=True)
class LabelledReport:
    """The numbers of used and omitted examples, with the reasons. Examples are never truncated.

    >>> print(LabelledReport(what="sentences", total=4, max_length=50, too_long=LeftOut(1, (2,)), tokens=50, unknown=1))
    3 of 4 sentences are used. More than 50 tokens: line 2. 2.0 % of the tokens are unknown.
    """

    what: str
    total: int
    max_length: int
    empty: LeftOut = LeftOut()
    too_long: LeftOut = LeftOut()
    strange: LeftOut = LeftOut()
    """Examples with a label that the training data do not have."""
    strangers: tuple[str, ...] = ()
    """The first of these labels."""
    tokens: int = 0
    unknown: int = 0
    rare: str = ""
    """A warning about labels that occur once."""
    remarks: dict[str, LeftOut] = field(default_factory=dict)
    """Remarks on rows that are used or empty, each with its examples."""

    refusal: str = ""
    """The error on the first of them, if most examples are like this."""

    def __add__(self, other: "LabelledReport") -> "LabelledReport":
        """The report on the examples of both, which were read one after the other."""
        both = {
            remark: self.remarks.get(remark, LeftOut()) + other.remarks.get(remark, LeftOut())
            for remark in (*self.remarks, *other.remarks)
        }
        return LabelledReport(
            what=self.what,
            max_length=self.max_length,
            strangers=tuple(dict.fromkeys([*self.strangers, *other.strangers]))[:_NAMED],
            refusal=self.refusal or other.refusal,
            rare=self.rare or other.rare,
            remarks=both,
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMS},
        )

    def checked(self) -> "LabelledReport":
        """This report. Raises DataError where most examples have labels that the training data do not have."""
        if self.refusal and 2 * self.strange.count > self.total:
            raise DataError(self.refusal)  # so many new labels indicate another column or another task
        return self

    @property
    def used(self) -> int:
        return self.total - self.empty.count - self.too_long.count - self.strange.count

    def __str__(self) -> str:
        used = f"All {self.total:,}" if self.used == self.total else f"{self.used:,} of {self.total:,}"
        sentences = [f"{used} {self.what} are used."]
        if self.empty.count:
            sentences.append(f"Empty: {self.empty}.")
        if self.too_long.count:
            sentences.append(f"More than {self.max_length:,} tokens: {self.too_long}.")
        if self.strange.count:
            names = ", ".join(map(repr, self.strangers))
            sentences.append(f"Warning: labels that the training data do not have ({names}): {self.strange}.")
        if self.unknown:
            sentences.append(f"{100 * self.unknown / self.tokens:.1f} % of the tokens are unknown.")
        sentences += [f"Warning: {remark}: {examples}." for remark, examples in self.remarks.items()]
        return " ".join([*sentences, self.rare] if self.rare else sentences)


class LabelTally:
    """Counts examples that are used or left out."""

    def __init__(self, what: str, max_length: int, known: Labels, path: str, lenient: bool) -> None:
        self.what, self.max_length, self.vocabulary, self.path, self.lenient = what, max_length, known, path, lenient
        self.total = self.tokens = self.unknown = 0
        self.empty, self.too_long, self.strange = LeftOut(), LeftOut(), LeftOut()
        self.refusal = ""
        self.strangers: dict[str, None] = {}
        self.remarks: dict[str, LeftOut] = {}

    def remark(self, line: int, remarks: Sequence[str]) -> None:
        """Count the remarks on an example."""
        for remark in remarks:
            self.remarks[remark] = self.remarks.get(remark, LeftOut()).add(line)

    def labels(self, line: int, length: int, names: Sequence[str]) -> list[int] | None:
        """The numbers of an example's labels; None if it is left out."""
        self.total += 1
        if not length:
            self.empty = self.empty.add(line)
        elif length > self.max_length:
            self.too_long = self.too_long.add(line)
        else:
            try:
                numbers = [self.vocabulary.encode(name, f"{self.path}:{line}") for name in names]
            except DataError as error:
                if not self.lenient:
                    raise
                self.refusal = self.refusal or str(error)
                self.strange = self.strange.add(line)
                self.strangers |= dict.fromkeys(name for name in names if name not in self.vocabulary)
                return None
            self.tokens += length
            return numbers
        return None

    def report(self, rare: str = "") -> LabelledReport:
        """The report on all examples so far."""
        return LabelledReport(
            what=self.what,
            total=self.total,
            max_length=self.max_length,
            empty=self.empty,
            too_long=self.too_long,
            strange=self.strange,
            strangers=tuple(self.strangers)[:_NAMED],
            refusal=self.refusal,
            rare=rare,
            remarks=self.remarks,
            tokens=self.tokens,
            unknown=self.unknown,
        )
