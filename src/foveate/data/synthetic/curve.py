"""Pictures of dashed curves, whose label is whether a curve joins two marked points."""

from collections.abc import Iterator

import numpy as np

from foveate.data.synthetic.labelled_sequence import Labelled

GROUND, DASH, MARK = 1, 2, 3
"""The three levels of grey, as ids."""
TRIES = 64


def curves(
    count: int,
    *,
    seed: int = 0,
    side: int = 32,
    length: float = 1.0,
    distractors: int = 3,
    dash: int = 3,
    gap: int = 1,
    bend: float = 0.25,
) -> Iterator[Labelled]:
    """Pathfinder: label 1 if one curve joins the two marks, 0 if each mark ends its own curve.

    Curves are `length` sides long, distractors a third of it; `bend` is how much the direction changes at each pixel,
    in radians. Pixels are ordered row by row.

    >>> example = next(curves(1, seed=7, side=16, distractors=1, length=0.9))
    >>> for row in range(3, 14):
    ...     print(" ".join(".-O"[id - 1] for id in example.ids[16 * row : 16 * row + 16]))
    . . . . - . . . . . . . . . . .
    . . . . . - . . . . . . . . . .
    . . . . . . - . . . . . O O O .
    . . . . . . - . . . . . O O O .
    . . . . . . . - . . . - O O O .
    . . . . . . . . . - . . . . . .
    . . . . . . . . - - . . . . . .
    . . . . . . - - - . . . . . . .
    O O O . - - . . . - . . . . . .
    O O O . . . . . . . - - . . . .
    O O O . . . . . . . . . - . . .
    >>> example.label
    1

    Reference: Linsley et al. 2018; as sequences, Tay et al. 2021, section 2.2.5. Their curves are antialiased.
    """
    generator = np.random.default_rng(seed)
    for _ in range(count):
        label = int(generator.integers(2))
        picture = np.full((side, side), GROUND)
        steps = int(length * side)
        long = [_walk(generator, side, steps, bend) for _ in range(2)]
        for path in (*long, *(_walk(generator, side, max(2, steps // 3), bend) for _ in range(distractors))):
            drawn = path[np.arange(len(path)) % (dash + gap) < dash]
            picture[drawn[:, 0], drawn[:, 1]] = DASH
        ends = (long[0][0], long[0][-1]) if label else (long[0][0], long[1][-1])
        for row, column in ends:
            picture[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = MARK
        yield Labelled(picture.ravel().tolist(), label)


def _walk(generator: np.random.Generator, side: int, steps: int, bend: float) -> np.ndarray:
    """The pixels of a smooth curve within the picture: the first success of many random attempts."""
    while True:
        place = generator.uniform(1, side - 2, size=(TRIES, 1, 2))
        direction = generator.uniform(0, 2 * np.pi, size=(TRIES, 1))
        turns = direction + np.cumsum(bend * generator.standard_normal((TRIES, steps)), 1)
        paths = place + np.cumsum(np.stack([np.sin(turns), np.cos(turns)], -1), 1)
        inside = ((paths >= 1) & (paths <= side - 2)).all((1, 2))
        if inside.any():
            return np.rint(paths[inside.argmax()]).astype(int)
