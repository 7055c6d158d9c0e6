"""Sinusoidal position vectors, term by term."""

import math

from foveate.errors import UsageError
from foveate.inspect.step import mathml as m
from foveate.inspect.step.mathml import subscript
from foveate.inspect.step.step import Step, Steps


def position_steps(position: int, dim: int, *, base: float = 10000.0) -> Steps:
    """p(pos, 2j) = sin(pos · base^(−2j/d)), p(pos, 2j+1) = cos(pos · base^(−2j/d))

    The lecture's table has d = 4 and base 100; "am" has position 1:

    >>> for step in position_steps(1, 4, base=100.0):
    ...     print(step.symbol, step.numbers)
    ω [1.0, 0.1]
    1·ω [1.0, 0.1]
    sin [0.8415, 0.0998]
    cos [0.5403, 0.995]
    p₁ [0.8415, 0.5403, 0.0998, 0.995]

    Raises UsageError for an odd `dim`.
    """
    if dim % 2 or dim < 2:
        raise UsageError(f"Sinusoidal positions pair sines with cosines: dim={dim} must be even.")
    rates = [base ** (-2 * j / dim) for j in range(dim // 2)]
    angles = [position * rate for rate in rates]
    sines, cosines = [math.sin(angle) for angle in angles], [math.cos(angle) for angle in angles]
    vector = [part for pair in zip(sines, cosines, strict=True) for part in pair]
    omega = m.sub(m.name("ω"), m.name("j"))
    rate = m.math(omega, m.sign("="), m.power(m.number(base), m.row(m.sign("−"), m.fraction(
        m.row(m.number(2), m.name("j")), m.number(dim)))))  # fmt: skip
    place = m.number(position)
    walked = [
        Step("ω", rate, _rounded(rates), "How fast each pair of numbers turns: the later, the slower."),
        Step(f"{position}·ω", m.math(place, omega), _rounded(angles), f"The angles at position {position}."),
        Step("sin", m.math(m.call("sin", place, omega)), _rounded(sines), "The even numbers of the vector."),
        Step("cos", m.math(m.call("cos", place, omega)), _rounded(cosines), "The odd numbers of the vector."),
        Step(
            f"p{subscript(position)}",
            m.math(m.sub(m.name("p", bold=True), place)),
            _rounded(vector),
            "Sines and cosines in turn: the vector that is added to the word.",
        ),
    ]
    return Steps(walked, f"position {position} in {dim} numbers")


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 4) for value in values]
