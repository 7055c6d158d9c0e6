"""Grey pictures of one shape each, as sequences of pixels."""

from collections.abc import Callable, Iterator

import numpy as np

from foveate.data.synthetic.labelled_sequence import Labelled

Field = np.ndarray
"""One number per pixel."""
_DRAW: dict[str, Callable[[Field, Field], Field]] = {
    "disc": lambda x, y: x**2 + y**2 < 1,
    "ring": lambda x, y: (x**2 + y**2 < 1) & (x**2 + y**2 > 0.4),
    "square": lambda x, y: np.maximum(abs(x), abs(y)) < 0.85,
    "frame": lambda x, y: (np.maximum(abs(x), abs(y)) < 0.85) & (np.maximum(abs(x), abs(y)) > 0.5),
    "diamond": lambda x, y: abs(x) + abs(y) < 1,
    "triangle": lambda x, y: (y < 0.8) & (abs(x) < (y + 1) / 2),
    "plus": lambda x, y: (np.minimum(abs(x), abs(y)) < 0.25) & (np.maximum(abs(x), abs(y)) < 1),
    "cross": lambda x, y: (np.minimum(abs(x - y), abs(x + y)) < 0.35) & (np.maximum(abs(x), abs(y)) < 0.9),
    "bars": lambda x, y: (abs(x) < 0.9) & (abs(y) < 0.9) & (abs(y) > 0.35),
    "columns": lambda x, y: (abs(x) < 0.9) & (abs(y) < 0.9) & (abs(x) > 0.35),
}
SHAPES = tuple(_DRAW)
"""The classes."""


def shapes(count: int, *, seed: int = 0, side: int = 32, levels: int = 256, noise: float = 0.15) -> Iterator[Labelled]:
    """One of ten shapes of any size, at any place, brighter or darker than a noisy ground; pixels are ordered row by
    row.

    >>> example = next(shapes(1, seed=1, side=12, levels=2, noise=0.0))
    >>> for row in range(3, 8):
    ...     print(" ".join(".#"[id - 1] for id in example.ids[12 * row : 12 * row + 12]))
    . . . . . # . . . . . .
    . . . . # # # . . . . .
    . . . # # # # # . . . .
    . . # # # # # # # . . .
    . # # # # # # # # # . .
    >>> SHAPES[example.label]
    'diamond'
    """
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:side, 0:side]
    for _ in range(count):
        label = int(generator.integers(len(SHAPES)))
        radius = generator.uniform(0.2, 0.4) * side
        middle = generator.uniform(radius, side - radius, size=2)
        inside = _DRAW[SHAPES[label]]((columns - middle[0]) / radius, (rows - middle[1]) / radius)
        ground, ink = generator.permutation([generator.uniform(0.0, 0.3), generator.uniform(0.6, 1.0)])
        grey = np.where(inside, ink, ground) + noise * generator.standard_normal((side, side))
        pixels = np.clip(np.floor(grey * levels), 0, levels - 1).astype(int)
        yield Labelled((pixels.ravel() + 1).tolist(), label)
