"""Records and explanations in a few words and, for notebooks, small maps, in place of thousands of numbers."""

from collections.abc import Iterable, Sequence
from html import escape
from math import isnan

from jaxtyping import Bool, Float
from torch import Tensor

CELLS = 48
"""A map with more queries or keys is not drawn."""
MAPS = 8
"""The number of heads that are drawn."""
SIDE = 144


def counted(count: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "head"), counted(3, "query")
    ('1 head', '3 queries')
    """
    plural = f"{what[:-1]}ies" if what.endswith("y") and what != "key" else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"


def sizes(shape: Sequence[int]) -> str:
    """The shape of a map in words.

    >>> sizes((1, 2, 5, 7))
    '1 example, 2 heads, 5 queries, 7 keys'
    """
    return ", ".join(counted(n, what) for n, what in zip(shape, ("example", "head", "query", "key"), strict=True))


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Rows of text as an HTML table."""
    top = f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>" if head else ""
    cells = "".join(f"<tr>{''.join(map(_cell_of_text, row))}</tr>" for row in rows)
    return f"<table>{top}{cells}</table>"


def _cell_of_text(cell: str) -> str:
    return f'<td style="text-align:left">{escape(cell)}</td>'


def maps(weights: Float[Tensor, "heads query key"], visible: Bool[Tensor, "heads query key"] | None = None) -> str:
    """Small pictures of the first heads, queries downwards: darker is more, grey is hidden, and red is not a number.
    Empty for maps that are too large to be read.
    """
    if not weights.numel() or max(weights.shape[1:]) > CELLS:
        return ""
    weights = weights.detach()
    drawn = [
        f'<figure style="display:inline-block;margin:4px"><figcaption>head {head}</figcaption>'
        f"{_map(weights[head], None if visible is None else visible[head])}</figure>"
        for head in range(min(len(weights), MAPS))
    ]
    more = f"<p>and {counted(len(weights) - MAPS, 'more head')}</p>" if len(weights) > MAPS else ""
    return "".join(drawn) + more


def _map(weights: Float[Tensor, "query key"], visible: Bool[Tensor, "query key"] | None) -> str:
    rows, columns = weights.shape
    top = max(float(weights.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).max()), 1.0)
    cells = "".join(
        _cell(row, column, weights[row, column].item() / top, visible is None or bool(visible[row, column]))
        for row in range(rows)
        for column in range(columns)
    )
    scale = SIDE / max(rows, columns)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * scale:g}" height="{rows * scale:g}" '
        f'viewBox="0 0 {columns} {rows}" shape-rendering="crispEdges" role="img" aria-label="weights">'
        f'<rect width="100%" height="100%" fill="#f7fafc"/>{cells}</svg>'
    )


def _cell(row: int, column: int, share: float, visible: bool) -> str:
    place = f'<rect x="{column}" y="{row}" width="1" height="1" fill='
    if not visible:
        return f'{place}"#cfcbc3"/>'
    if isnan(share):
        return f'{place}"#b3127a"/>'
    return f'{place}"#182544" fill-opacity="{min(share, 1.0):.3f}"/>' if share > 0 else ""
