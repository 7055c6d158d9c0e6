"""Formats the numbers of steps: three digits, in aligned columns."""

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext

DIGITS = 3


def aligned(values: Iterable[int | float]) -> list[str]:
    """Numbers with the decimals that the largest one needs for three digits.

    A number other than 0 is never shown as 0. Ties are rounded away from 0, as in the viewer.

    >>> aligned([0.4683105, 0.06338, 0.0, 1.0]), aligned([54.598, -7.389]), aligned([0.46, 2e-6]), aligned([4, 0])
    (['0.47', '0.06', '0.00', '1.00'], ['54.6', '−7.4'], ['0.460', '2e−6'], ['4', '0'])
    """
    values = list(values)
    finite = [abs(value) for value in values if math.isfinite(value)]
    largest = max(finite, default=0.0)
    if all(float(value).is_integer() for value in finite) and largest < 1e5:
        return [_shown(value, 0) for value in values]
    places = DIGITS - 1 - math.floor(math.log10(largest)) if largest else 0
    if places > 6 or largest >= 1e6:
        return [_power(value, DIGITS) for value in values]
    return [_shown(value, max(places, 0)) for value in values]


def together(rows: Sequence[Sequence[int | float]]) -> list[list[str]]:
    """Rows of numbers with the same decimals in all rows."""
    flat = iter(aligned(value for row in rows for value in row))
    return [[next(flat) for _ in row] for row in rows]


def _shown(value: int | float, places: int) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    text = f"{_rounded(value, -places):.{places}f}"
    if value and not float(text):
        return _power(value, 1)
    return text.replace("-", "−")


def _power(value: int | float, digits: int) -> str:
    if not math.isfinite(value) or not value:
        return _shown(value, 0)
    rounded = _rounded(value, Decimal(float(value)).adjusted() - digits + 1)
    significand, _, exponent = f"{rounded:.{digits - 1}e}".partition("e")
    return f"{significand}e{int(exponent)}".replace("-", "−")


def _rounded(value: int | float, exponent: int) -> Decimal:
    """A multiple of a power of 10; 0 has no sign."""
    with localcontext(prec=400):
        return Decimal(float(value) or 0).quantize(Decimal(1).scaleb(exponent), ROUND_HALF_UP)
