"""The causes of an answer as tables of text."""

from collections.abc import Mapping, Sequence
from typing import Any

from foveate.inspect.caption import cell_width, fit, printable

HEADINGS = {
    "attention": ("", "attention"),
    "attention × norm": ("attention", "× norm"),
    "rollout": ("", "rollout"),
    "gradient × input": ("gradient", "× input"),
    "integrated gradients": ("integrated", "gradients"),
    "leave-one-out": ("leave-", "one-out"),
}
"""The two lines above each column."""
COLUMN, LABEL = 11, 20
"""The widths of a method's column, and of the largest label of a word."""
FIGURES = {"tau": "τ", "area": "deletion"}
"""The figures below the scores, and their labels."""


def cause_table(reasons: Mapping[str, Any]) -> list[str]:
    """A table for each output word, from the plain data of `Why`, and a last line on how it was measured.

    Rows are words of the input, columns methods; `*` marks the highest score of each. The last rows are Kendall's τ-b
    with leave-one-out, and the area of the deletion curve above random orders, in nats.
    """
    methods = list(reasons["methods"])
    words = [fit(printable(word), LABEL) for word in reasons["inputs"]]
    wide = max(map(cell_width, [*words, *FIGURES.values()]))
    tables = [_word(output, methods, words, wide) for output in reasons["outputs"]]
    notes = [f"{method}: {note}" for method, note in reasons["methods"].items() if note]
    notes += [f"{method} is left out: {reason}" for method, reason in reasons["skipped"].items()]
    return [*tables, "\n".join(notes)]


def _word(output: Mapping[str, Any], methods: Sequence[str], words: Sequence[str], wide: int) -> str:
    lines = [f"{printable(output['word'])}  (ln p = {output['log_probability']:.3f})"]
    for line in (0, 1):
        lines.append(" " * wide + "".join(f"{HEADINGS[method][line]:>{COLUMN}}" for method in methods))
    for number, word in enumerate(words):
        cells = [_cell(output, method, number) for method in methods]
        lines.append(word + " " * (wide - cell_width(word)) + "".join(f"{cell:>{COLUMN}}" for cell in cells))
    for name, label in FIGURES.items():
        cells = [_number(output["figures"][method][name], 2) for method in methods]
        if any(cell != "—" for cell in cells):
            lines.append(f"{label:<{wide}}" + "".join(f"{cell:>{COLUMN - 1}} " for cell in cells))
    return "\n".join(line.rstrip() for line in lines)


def _cell(output: Mapping[str, Any], method: str, number: int) -> str:
    scores = output["scores"][method]
    if not output["possible"][number]:
        return "· "
    real = [score for score, possible in zip(scores, output["possible"], strict=True) if possible and score is not None]
    highest = scores[number] is not None and scores[number] == max(real) and scores[number] != min(real)
    return _number(scores[number], 3) + ("*" if highest else " ")


def _number(value: float | None, digits: int) -> str:
    return "—" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"
