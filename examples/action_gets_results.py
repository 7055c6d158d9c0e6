"""Prints the self-attention of one word as a table: the lecture's "Action gets results" with numbers.

Each word is a row; the query is the first word's. 512-dimensional embeddings are projected to 64 dimensions, so the
score is divided by √64 = 8. Run `python examples/action_gets_results.py`.
"""

import math

from torch import Tensor

from foveate import inspect
from foveate.attention import Attention

WORDS = ("Action", "gets", "results")
COLUMNS = ("word", "q", "k", "v", "score", "score/8", "softmax", "softmax·v", "sum")


def table(words: tuple[str, ...], query: Tensor, key: Tensor, value: Tensor) -> list[dict[str, str | float | Tensor]]:
    """One row per word, for the query of the first word; `sum` is in the first row, as on the slide.

    Raises ValueError unless there are as many queries, keys and values as words.
    """
    if not len(words) == len(query) == len(key) == len(value):
        raise ValueError(f"{len(words)} words need as many queries, keys and values.")
    seen = Attention().explain(query[None, None], key[None, None], value[None, None])
    scaled, weights = seen.scores[0, 0, 0], seen.weights[0, 0, 0]
    rows: list[dict[str, str | float | Tensor]] = []
    for j, word in enumerate(words):
        cells: tuple[str | float | Tensor, ...] = (
            word,
            query[j] if j == 0 else "",
            key[j],
            value[j],
            scaled[j].item() * math.sqrt(query.shape[-1]),
            scaled[j].item(),
            weights[j].item(),
            weights[j] * value[j],
            seen.context[0, 0, 0] if j == 0 else "",
        )
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return rows


def text(rows: list[dict[str, str | float | Tensor]]) -> str:
    """The table in plain text, with the first two numbers of each vector."""
    lines = [list(COLUMNS), *([_cell(cell) for cell in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def _cell(value: str | float | Tensor) -> str:
    if isinstance(value, Tensor):
        return f"[{value[0]:.2f}, {value[1]:.2f}, …]"
    return value if isinstance(value, str) else f"{value:.2f}"


def example() -> list[dict[str, str | float | Tensor]]:
    """Random embeddings and projections, the same in every run and in `foveate look --example action-gets-results`."""
    tensors = inspect.example("action-gets-results").sites[0].tensors
    return table(WORDS, tensors["query"][0], tensors["key"][0], tensors["value"][0])


if __name__ == "__main__":
    print(text(example()))
