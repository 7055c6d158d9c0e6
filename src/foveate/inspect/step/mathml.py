"""Writes formulas as MathML, which browsers display."""

from html import escape


def name(text: str, *, bold: bool = False) -> str:
    """A letter; bold for vectors."""
    style = ' mathvariant="bold"' if bold and len(text) == 1 else ""
    return f"<mi{style}>{escape(text)}</mi>"


def number(value: float | int | str) -> str:
    """A number in readable form.

    >>> number(0.4683105), number(12), number(10000.0)
    ('<mn>0.4683</mn>', '<mn>12</mn>', '<mn>10000</mn>')
    """
    whole = not isinstance(value, str) and abs(value) < 1e6 and float(value).is_integer()
    shown = value if isinstance(value, str) else f"{value:.0f}" if whole else f"{value:.4g}"
    return f"<mn>{shown.replace('-', '−')}</mn>"


def sign(text: str) -> str:
    return f"<mo>{escape(text)}</mo>"


def row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def sub(base: str, *index: str) -> str:
    return f"<msub>{base}{row(*index)}</msub>"


def power(base: str, exponent: str) -> str:
    return f"<msup>{base}{exponent}</msup>"


def fraction(above: str, below: str) -> str:
    return f"<mfrac>{above}{below}</mfrac>"


def root(inside: str) -> str:
    return f"<msqrt>{inside}</msqrt>"


def total(below: str, of: str) -> str:
    return row(f"<munder><mo>∑</mo>{below}</munder>", of)


def call(function: str, *inside: str) -> str:
    return row(f"<mi>{escape(function)}</mi>", sign("("), *inside, sign(")"))


def math(*parts: str) -> str:
    """A complete formula.

    >>> math(sub(name("e"), number(1)), sign("="), number(2))
    '<math display="block"><msub><mi>e</mi><mrow><mn>1</mn></mrow></msub><mo>=</mo><mn>2</mn></math>'
    """
    return f'<math display="block">{"".join(parts)}</math>'


def subscript(index: int) -> str:
    """A number in subscript digits.

    >>> subscript(12)
    '₁₂'
    """
    return str(index).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
