"""Writes steps as text, as LaTeX, and as HTML for notebooks."""

from collections.abc import Iterator, Sequence
from html import escape

from foveate.inspect.caption import cell_width, fit, printable
from foveate.inspect.step.formula import escaped, latex, plain
from foveate.inspect.step.table import Shown, Table, tint


def text(step: Shown) -> str:
    """The formula, its sentence, and the numbers in columns."""
    table = Table.of(step)
    rows = [(beside, *cells) for beside, cells in zip(table.beside, table.cells, strict=True)]
    if table.above:
        rows.insert(0, ("", *(fit(label, 12) for label in table.above)))
    rows = [(fit(row[0], 16), *row[1:]) for row in rows]
    wide = [max(cell_width(row[column]) for row in rows if column < len(row)) for column in range(max(map(len, rows)))]
    lines = [
        "  ".join(" " * (wide[column] - cell_width(cell)) + cell for column, cell in enumerate(row) if wide[column])
        for row in rows
    ]
    head = _head(step)
    return "\n".join([f"{head}   {step.about}", *(f"    {line}".rstrip() for line in lines)])


def _head(step: Shown) -> str:
    """The symbol, and the formula if it differs from the symbol."""
    formula = plain(step.mathml)
    return step.symbol if formula == step.symbol else f"{step.symbol}:  {formula}"


def tex(steps: Sequence[Shown], title: str = "", remark: str = "") -> str:
    """A part of a LaTeX document. It requires amsmath, and an engine that supports the script of the labels."""
    lines = ["% Needs \\usepackage{amsmath}; labels beyond Latin need LuaLaTeX or XeLaTeX with a font that has them."]
    if title:
        lines.append(rf"\paragraph{{{escaped(title)}}}")
    for step in steps:
        lines += ["", rf"\noindent {escaped(step.about)}", rf"\[ {latex(step.mathml).strip()} \]", *_tabular(step)]
    if remark:
        lines += ["", rf"\noindent {escaped(remark)}"]
    return "\n".join(lines) + "\n"


def _tabular(step: Shown) -> Iterator[str]:
    table = Table.of(step)
    beside = any(table.beside)
    yield r"\begin{center}"
    yield rf"\begin{{tabular}}{{{'l' * beside}{'r' * len(table.cells[0])}}}"
    if table.above:
        yield " & ".join([""] * beside + [escaped(label) for label in table.above]) + r" \\ \hline"
    for label, cells in zip(table.beside, table.cells, strict=True):
        yield " & ".join([escaped(label)] * beside + [_number(cell) for cell in cells]) + r" \\"
    yield r"\end{tabular}"
    yield r"\end{center}"


def _number(cell: str) -> str:
    if cell in ("–", "NaN"):
        return cell.replace("–", "--")
    significand, _, power = cell.replace("−", "-").replace("∞", r"\infty").partition("e")
    return rf"${significand} \cdot 10^{{{power}}}$" if power else f"${significand}$"


def html(steps: Sequence[Shown], title: str = "", remark: str = "") -> str:
    """HTML for notebooks: formulas as MathML, and tables with tinted numbers."""
    head = f'<p style="font-weight:600"><bdi>{escape(printable(title))}</bdi></p>' if title else ""
    tail = f"<p>{escape(remark)}</p>" if remark else ""
    return f'<div class="foveate-steps">{head}{"".join(_section(step) for step in steps)}{tail}</div>'


def _section(step: Shown) -> str:
    table = Table.of(step)
    head = "".join(f'<th scope="col"><bdi>{escape(label)}</bdi></th>' for label in table.above)
    corner = "<th></th>" if any(table.beside) else ""
    above = f"<tr>{corner}{head}</tr>" if head else ""
    rows = "".join(
        f"<tr>{_beside(label) if corner else ''}{_numbers(cells, shares)}</tr>"
        for label, cells, shares in zip(table.beside, table.cells, table.shares, strict=True)
    )
    return (
        f'<div style="margin:0 0 1em"><div style="text-align:left">{step.mathml}</div><div>{escape(step.about)}</div>'
        f'<table style="font-variant-numeric:tabular-nums">{above}{rows}</table></div>'
    )


def _beside(label: str) -> str:
    return f'<th scope="row"><bdi>{escape(label)}</bdi></th>'


def _numbers(cells: Sequence[str], shares: Sequence[float]) -> str:
    look = "text-align:right;color:#1a1d24;background:"
    return "".join(
        f'<td dir="ltr" style="{look}{tint(share)}">{cell}</td>' for cell, share in zip(cells, shares, strict=True)
    )
