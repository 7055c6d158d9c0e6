"""Counts pairs of texts that are used for training, and those that are left out, with the reasons."""

from dataclasses import dataclass

from foveate.suggestion import counted

_NAMED = 5


@dataclass(frozen=True)
class LeftOut:
    """The number of lines that were left out for one reason, and the first line numbers."""

    count: int = 0
    lines: tuple[int, ...] = ()

    def add(self, line: int) -> "LeftOut":
        return LeftOut(self.count + 1, (*self.lines, line) if len(self.lines) < _NAMED else self.lines)

    def __add__(self, other: "LeftOut") -> "LeftOut":
        return LeftOut(self.count + other.count, (*self.lines, *other.lines)[:_NAMED])

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
    rejected: int = 0
    """The number of used pairs that have a rejected target."""
    source_tokens: int = 0
    target_tokens: int = 0
    source_unknown: int = 0
    target_unknown: int = 0

    def __add__(self, other: "Report") -> "Report":
        """The report on the pairs of both, which were read one after the other."""
        return Report(
            max_length=self.max_length,
            longest=max(self.longest, other.longest),
            empty=self.empty + other.empty,
            too_long=self.too_long + other.too_long,
            **{name: getattr(self, name) + getattr(other, name) for name in _COUNTS},
        )

    @property
    def used(self) -> int:
        return self.total - self.empty.count - self.too_long.count

    def __str__(self) -> str:
        sentences = [f"All {self.total:,} pairs are used." if 1 < self.used == self.total else self._used()]
        if self.rejected:
            sentences.append(f"{self.rejected:,} {'has' if self.rejected == 1 else 'have'} a rejected translation.")
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


_COUNTS = ("total", "rejected", "source_tokens", "target_tokens", "source_unknown", "target_unknown")


def _percent(part: int, whole: int) -> str:
    """A share as a percentage with one decimal; a share above zero is never shown as 0.0."""
    return f"{100 * part / whole:.1f} %" if 1000 * part >= whole else "less than 0.1 %"
