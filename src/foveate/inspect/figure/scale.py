"""Colour scales: how a weight becomes a colour, in 101 steps of one per cent."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float32, Int

from foveate.errors import UsageError

Theme = Literal["light", "dark"]
Hue = Literal["blue", "grey"]
RGB = tuple[int, int, int]

STEPS = 100

# Nine stops of falling (light) or rising (dark) lightness in equal steps. Lightness alone carries the value, so the
# scales survive colour blindness and a black-and-white printer. Constants, not formulas: pictures are byte-stable.
_STOPS: dict[tuple[Theme, Hue], str] = {
    ("light", "blue"): "f7fafc d2e6f5 a5cfee 74b3e2 4b95d0 2f77b8 215a97 1b3f70 182544",
    ("light", "grey"): "fafafa d9d9d9 b9b9b9 9a9a9a 7c7c7c 5f5f5f 444444 2a2a2a 131313",
    ("dark", "blue"): "1e2230 173a5c 005682 00748f 009191 2fad86 84c67f c6dd98 fbf6d8",
    ("dark", "grey"): "202020 353535 4c4c4c 646464 7d7d7d 9a9a9a b8b8b8 d8d8d8 fafafa",
}


@dataclass(frozen=True)
class Ink:
    """The colours of a picture that are not data."""

    paper: str
    text: str
    quiet: str
    grid: str
    link: str


INKS: dict[Theme, Ink] = {
    "light": Ink(paper="#ffffff", text="#1a1d24", quiet="#5a6270", grid="#d5dae1", link="#d55e00"),
    "dark": Ink(paper="#14161c", text="#e8eaf0", quiet="#a2a9b8", grid="#343a48", link="#ff9d3c"),
}


def ramp(theme: Theme = "light", hue: Hue = "blue") -> tuple[RGB, ...]:
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


def hexadecimal(colour: RGB) -> str:
    """A colour as `#rrggbb`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def top_of(weights: Float32[np.ndarray, "target source"], top: float | None) -> float:
    """The weight drawn strongest: `top`, or the largest there is for `None`; never less than a softmax of 1 could need.

    Weights above `top` (a ReLU's may exceed 1) would be clipped without a word, so the scale grows to hold them.
    """
    largest = float(weights.max(initial=0.0))
    if top is None:
        return largest or 1.0
    if not top > 0:
        raise UsageError(f"top={top} is no scale for weights. Give the weight to draw strongest, above 0, or None.")
    return top if largest <= top * (1 + 1e-3) else largest


def levels(weights: Float32[np.ndarray, "target source"], top: float) -> Int[np.ndarray, "target source"]:
    """Weights as whole per cents of `top`."""
    return np.clip(np.rint(weights.astype(np.float64) / top * STEPS), 0, STEPS).astype(np.int64)


def legend(strongest: float, largest: float) -> tuple[str, str]:
    """The two ends of the scale in plain words.

    >>> legend(1.0, 0.8), legend(0.375, 0.375)
    (('0 not looked at', '1 all attention'), ('0 not looked at', '0.375 largest here'))
    """
    meaning = "all attention" if strongest == 1 else "largest here" if strongest == largest else "attention weight"
    return "0 not looked at", f"{strongest:.3g} {meaning}"
