"""Tables of the numbers of a step."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from foveate.inspect.caption import printable
from foveate.inspect.figure.scale import INKS, STEPS, hexadecimal, ramp
from foveate.inspect.step.number import together

Numbers = float | list[float] | list[list[float]]


@runtime_checkable
class Shown(Protocol):
    """The attributes of a step that are displayed."""

    @property
    def symbol(self) -> str: ...
    @property
    def mathml(self) -> str: ...
    @property
    def numbers(self) -> Numbers: ...
    @property
    def about(self) -> str: ...
    @property
    def keys(self) -> list[int] | None: ...
    @property
    def labels(self) -> tuple[str, ...] | None: ...
    @property
    def hidden(self) -> tuple[bool, ...] | None: ...


@dataclass(frozen=True)
class Table:
    """Numbers in rows, with labels above and beside them, which may be empty."""

    above: tuple[str, ...]
    beside: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    shares: tuple[tuple[float, ...], ...]
    """Each number relative to the largest, from −1 to 1; NaN, shown as –, for a hidden key."""

    @classmethod
    def of(cls, step: Shown) -> "Table":
        numbers, keys = step.numbers, _labels(step)
        rows: list[list[float]]
        above: tuple[str, ...] = ()
        beside: tuple[str, ...] = ("",)
        if not isinstance(numbers, list):
            rows = [[numbers]]
        elif numbers and isinstance(numbers[0], list):
            rows = [list(row) for row in numbers if isinstance(row, list)]
            above, beside = _features(max(map(len, rows))), keys or ("",) * len(rows)
        else:
            rows = [[value for value in numbers if not isinstance(value, list)]]
            above = keys if len(keys) == len(rows[0]) else ()
        largest = max((abs(value) for row in rows for value in row if math.isfinite(value)), default=0.0) or 1.0
        shares = [[value / largest if math.isfinite(value) else 0.0 for value in row] for row in rows]
        cells = together(rows)
        for key, hidden in enumerate(step.hidden or ()):
            for row, column in [(0, key)] if above == keys else [(key, each) for each in range(len(rows[key]))]:
                if hidden:
                    cells[row][column], shares[row][column] = "–", math.nan
        return cls(above, beside, tuple(map(tuple, cells)), tuple(map(tuple, shares)))


def _labels(step: Shown) -> tuple[str, ...]:
    if step.keys is None:
        return ()
    return tuple(printable(label) for label in step.labels or map(str, step.keys))


def _features(count: int) -> tuple[str, ...]:
    """Numbers from 1; the ninth column is the sum of the other features."""
    return tuple("rest" if number > 8 else str(number) for number in range(1, count + 1))


def tint(share: float) -> str:
    """Blue below 0 and orange above, light enough for black letters; grey for hidden keys."""
    if math.isnan(share):
        return INKS["light"].hidden
    return hexadecimal(ramp("light", "balance")[round(STEPS * (0.5 + 0.17 * share))])
