"""Colour scales map weights to 101 colours in steps of one per cent; special values have their own colours."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float32, Int

from foveate.errors import UsageError

if TYPE_CHECKING:
    from foveate.inspect.alignment import Alignment

Theme = Literal["light", "dark"]
Hue = Literal["blue", "grey"]
Palette = Literal["blue", "grey", "balance"]
Scale = Literal["linear", "log", "lift"]
RGB = tuple[int, int, int]

STEPS = 100
ZERO, NAN, HIDDEN = STEPS + 1, STEPS + 2, STEPS + 3
"""Levels outside the scale: exactly 0 on a scale without 0, NaN, and hidden pairs."""
DECADES, OCTAVES = 6, 6
"""The ranges of the viewer's scales: six powers of ten; from 1/64 of an equal share to 64 equal shares."""

# Nine stops of decreasing (light) or increasing (dark) lightness in equal steps. Lightness alone represents the value,
# so that the scales work with colour blindness and in black and white. Constants keep pictures reproducible.
_STOPS: dict[tuple[Theme, Palette], str] = {
    ("light", "blue"): "f7fafc d2e6f5 a5cfee 74b3e2 4b95d0 2f77b8 215a97 1b3f70 182544",
    ("light", "grey"): "fafafa d9d9d9 b9b9b9 9a9a9a 7c7c7c 5f5f5f 444444 2a2a2a 131313",
    ("dark", "blue"): "1e2230 173a5c 005682 00748f 009191 2fad86 84c67f c6dd98 fbf6d8",
    ("dark", "grey"): "202020 353535 4c4c4c 646464 7d7d7d 9a9a9a b8b8b8 d8d8d8 fafafa",
    # Diverging scales: blue is less than an equal share, orange more; distinct in all common kinds of colour blindness.
    ("light", "balance"): "123a6b 2f6db0 7fb0dd c9dff0 f4f3ef f8d5ae ee9a4d c45f0e 7a3403",
    ("dark", "balance"): "a8d4ff 5fa5e6 2f6ba6 23405f 24262c 5c3d1f a2601c e8953a ffd9a3",
}


@dataclass(frozen=True)
class Ink:
    """The colours of a picture except those of the scale."""

    paper: str
    text: str
    quiet: str
    grid: str
    link: str
    zero: str
    hidden: str
    hatch: str
    nan: str
    cross: str
    """The colour of the cross over NaN."""


INKS: dict[Theme, Ink] = {
    "light": Ink(
        paper="#ffffff",
        text="#1a1d24",
        quiet="#5a6270",
        grid="#d5dae1",
        link="#d55e00",
        zero="#ffffff",
        hidden="#eceae6",
        hatch="#b9b4aa",
        nan="#b3127a",
        cross="#ffffff",
    ),
    "dark": Ink(
        paper="#14161c",
        text="#e8eaf0",
        quiet="#a2a9b8",
        grid="#343a48",
        link="#ff9d3c",
        zero="#0c0d11",
        hidden="#2a2b2f",
        hatch="#55565d",
        nan="#ff6fc4",
        cross="#14161c",
    ),
}


def ramp(theme: Theme = "light", hue: Palette = "blue") -> tuple[RGB, ...]:
    """The 101 colours for 0 % to 100 %.

    >>> ramp()[0], ramp()[100]
    ((247, 250, 252), (24, 37, 68))
    """
    if (theme, hue) not in _STOPS:
        raise UsageError(
            f"there is no picture theme={theme!r} with hue={hue!r}. Themes: light, dark. Hues: blue, grey."
        )
    stops = [bytes.fromhex(stop) for stop in _STOPS[theme, hue].split()]
    return tuple(_between(stops, step) for step in range(STEPS + 1))


def _between(stops: list[bytes], step: int) -> RGB:
    at, rest = divmod(step * (len(stops) - 1), STEPS)
    low, high = stops[at], stops[min(at + 1, len(stops) - 1)]
    red, green, blue = ((a * (STEPS - rest) + b * rest + STEPS // 2) // STEPS for a, b in zip(low, high, strict=True))
    return red, green, blue


def colours(theme: Theme, hue: Palette) -> tuple[RGB, ...]:
    """The colours of all levels, within and outside the scale."""
    beside = (INKS[theme].zero, INKS[theme].nan, INKS[theme].hidden)
    return (*ramp(theme, hue), *(_rgb(colour) for colour in beside))


def _rgb(colour: str) -> RGB:
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def hexadecimal(colour: RGB) -> str:
    """A colour as `#rrggbb`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


@dataclass(frozen=True, eq=False)
class Shading:
    """The level of every cell of an alignment, and the legend."""

    levels: Int[np.ndarray, "target source"]
    """0 to 100 on the scale, or ZERO, NAN, HIDDEN."""
    hue: Palette
    ticks: tuple[tuple[float, str], ...]
    """The labels below the colour bar, with their places: 0 is the left end, 1 the right end."""

    def beside(self) -> Iterator[tuple[int, str]]:
        """The levels outside the scale that occur, in words."""
        for level, words in ((ZERO, "exactly 0"), (HIDDEN, "may not be looked at"), (NAN, "not a number")):
            if (self.levels == level).any():
                yield level, words


def shaded(
    alignment: "Alignment",
    *,
    scale: Scale = "linear",
    top: float | None = 1.0,
    hue: Hue = "blue",
) -> Shading:
    """The level of each weight. In a row with equal weights for all visible pieces, each has a lift of 1.

    >>> from foveate.inspect import Alignment
    >>> shading = shaded(Alignment.of("ab", "x", [[1, 0]], [[True, False]]))
    >>> shading.levels, [words for _, words in shading.beside()]
    (array([[100, 103]]), ['may not be looked at'])

    Raises `UsageError` for an unknown scale, or a `top` that is not above 0.
    """
    weights = alignment.weights.astype(np.float64)
    ticks: tuple[tuple[float, str], ...]
    palette: Palette = hue
    if scale == "linear":
        strongest = top_of(alignment.weights, top)
        shares = weights / strongest
        low, high = legend(strongest, float(np.nanmax(alignment.weights, initial=0.0)))
        ticks = ((0.0, low), (1.0, high))
    elif scale == "log":
        shares = 1 + _log(np.log10, weights) / DECADES
        ticks = ((0.0, "10⁻⁶"), (1 / 3, "10⁻⁴"), (2 / 3, "1/100"), (1.0, "1 all attention"))
    elif scale == "lift":
        shares, palette = 0.5 + _log(np.log2, alignment.lift()) / (2 * OCTAVES), "balance"
        ticks = ((0.0, "1/64"), (0.25, "1/8"), (0.5, "1 an equal share"), (0.75, "8"), (1.0, "64 times"))
    else:
        raise UsageError(f"There is no scale {scale!r}: choose linear, log or lift.")
    levels = np.rint(np.nan_to_num(np.clip(shares, 0, 1), nan=0.0) * STEPS).astype(np.int64)
    if scale != "linear":
        levels[weights == 0] = ZERO
    levels[np.isnan(weights)] = NAN
    levels[alignment.hidden] = HIDDEN
    return Shading(levels, palette, ticks)


def _log(function: np.ufunc, values: np.ndarray) -> np.ndarray:
    return function(values, out=np.full_like(values, -np.inf), where=values > 0)


def top_of(weights: Float32[np.ndarray, "target source"], top: float | None) -> float:
    """The weight at the end of the scale: `top`, or the largest weight for `None`.

    Weights above `top` (those of a ReLU may exceed 1) extend the scale, instead of being clipped silently.
    """
    largest = float(np.nanmax(weights, initial=0.0))
    if top is None:
        return largest or 1.0
    if not top > 0:
        raise UsageError(f"top={top} is not a scale for weights. Give the weight to draw strongest, above 0, or None.")
    return top if largest <= top * (1 + 1e-3) else largest


def legend(strongest: float, largest: float) -> tuple[str, str]:
    """The labels of both ends of the scale.

    >>> legend(1.0, 0.8), legend(0.375, 0.375)
    (('0 not looked at', '1 all attention'), ('0 not looked at', '0.375 largest here'))
    """
    meaning = "all attention" if strongest == 1 else "largest here" if strongest == largest else "attention weight"
    return "0 not looked at", f"{strongest:.3g} {meaning}"
