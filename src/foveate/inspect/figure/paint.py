"""Paint gives colours to the parts of an SVG picture, in fixed attributes or in classes that follow the theme."""

import base64
from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from foveate.inspect.figure.pixel import encode
from foveate.inspect.figure.scale import HIDDEN, INKS, NAN, STEPS, ZERO, Palette, Theme, colours, hexadecimal, ramp

_STROKED = frozenset({"grid", "link", "hatch", "cross"})


_BESIDE = {ZERO: "zero", NAN: "nan", HIDDEN: "hidden"}


@runtime_checkable
class Paint(Protocol):
    """Makes the attributes for a level of the scale, for a named ink, and an image of many levels, in which hidden
    cells are transparent.
    """

    def level(self, step: int) -> str: ...
    def ink(self, name: str) -> str: ...
    def image(self, levels: Int[np.ndarray, "rows columns"], place: str) -> str: ...


@dataclass(frozen=True)
class Fixed:
    """Colours as presentation attributes, which all SVG viewers support."""

    theme: Theme = "light"
    hue: Palette = "blue"

    def level(self, step: int) -> str:
        return f'fill="{hexadecimal(colours(self.theme, self.hue)[step])}"'

    def ink(self, name: str) -> str:
        return f'{"stroke" if name in _STROKED else "fill"}="{getattr(INKS[self.theme], name)}"'

    def image(self, levels: Int[np.ndarray, "rows columns"], place: str) -> str:
        drawn = encode(levels.astype(np.uint8), colours(self.theme, self.hue), clear=HIDDEN)
        pixels = base64.b64encode(drawn).decode("ascii")
        look = 'preserveAspectRatio="none" image-rendering="pixelated"'
        return f'<image {place} {look} href="data:image/png;base64,{pixels}"/>'


@dataclass(frozen=True)
class Classed:
    """Colours as classes of `stylesheet()`, so that one picture suits a light and a dark page."""

    hue: Palette = "blue"

    def level(self, step: int) -> str:
        return f'class="fv-{_BESIDE.get(step, step)}"'

    def ink(self, name: str) -> str:
        return f'class="fv-{name}"'

    def image(self, levels: Int[np.ndarray, "rows columns"], place: str) -> str:
        light = Fixed("light", self.hue).image(levels, f'class="fv-light" {place}')
        return light + Fixed("dark", self.hue).image(levels, f'class="fv-dark" {place}')


def stylesheet(hue: Palette = "blue") -> str:
    """The rules for `Classed`: light by default, dark if the reader prefers it, and always light in print."""
    dark = _rules("dark", hue) + ".fv-light{display:none}.fv-dark{display:inline}"
    light = _rules("light", hue) + ".fv-dark{display:none}"
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"


def _rules(theme: Theme, hue: Palette) -> str:
    scale = ramp(theme, hue)
    steps = "".join(f".fv-{step}{{fill:{hexadecimal(scale[step])}}}" for step in range(STEPS + 1))
    inks = "".join(
        f".fv-{ink.name}{{{'stroke' if ink.name in _STROKED else 'fill'}:{getattr(INKS[theme], ink.name)}}}"
        for ink in fields(INKS[theme])
    )
    return steps + inks
