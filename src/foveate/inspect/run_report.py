"""The report of a training run: one HTML file with curves, scores, samples, alignments and the model card."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from foveate.inspect.alignment import Alignment
from foveate.inspect.chart import Curve, chart, curves_of, figure_text, ranked, title_of
from foveate.inspect.figure.vector import picture
from foveate.inspect.page import facts, isolated, page, sections, text, tiles

Sample = tuple[str, str, str, Alignment | None]


def report(
    *,
    title: str,
    summary: Sequence[tuple[str, object]] = (),
    curves: Iterable[Mapping[str, Any]] = (),
    scores: Sequence[Mapping[str, object]] = (),
    samples: Sequence[Sample] = (),
    card: Mapping[str, str | Sequence[str]] | None = None,
    commands: Sequence[str] = (),
    names: tuple[str, str] = ("source", "target"),
) -> str:
    """The report as one HTML document without network, scripts and other files, in light and dark.

    `summary` is a list of names and values, shown in large type. `curves` are the rows of `metrics.jsonl`. `scores` are
    rows of a table with the keys of the first row as its header. `samples` are (source, reference, hypothesis,
    alignment), with "" for a missing reference. `card` contains the model card's fields in order, such as data,
    licence, size, limits, intended_use. `commands` are suggestions for the reader. Empty parts are left out. All
    arguments are text, never markup.
    """
    parts = [
        ("curves", "Training", _curves(curves_of(curves))),
        ("scores", "Scores", _scores(scores)),
        ("samples", "Samples", _samples(samples, names)),
        ("card", "Model card", facts((title_of(name), value) for name, value in (card or {}).items())),
        ("commands", "What to try next", _commands(commands)),
    ]
    foot = "Written by Foveate. This file is complete and loads nothing from elsewhere."
    return page(title, "Foveate training report", tiles(summary), sections(parts), foot)


def _curves(charts: Mapping[str, Sequence[Curve]]) -> str:
    if not charts:
        return ""
    key = {curve.name: rank for curves in charts.values() for rank, curve in ranked(curves)}
    line = '<svg viewBox="0 0 26 10" aria-hidden="true"><line class="line-{}" x1="1" x2="25" y1="5" y2="5"/></svg>'
    entries = "".join(f"<li>{line.format(rank)}{text(name)}</li>" for name, rank in sorted(key.items(), key=_rank))
    last = max(x for curves in charts.values() for curve in curves for x, _ in curve.points)
    figures = "\n".join(
        f'<figure class="card">\n<h3>{text(title_of(name))}</h3>\n{chart(name, curves, last)}\n'
        f"<figcaption>{text(_caption(name, curves))}</figcaption>\n</figure>"
        for name, curves in charts.items()
    )
    return f'<ul class="key">{entries}</ul>\n<div class="charts">\n{figures}\n</div>'


def _rank(entry: tuple[str, int]) -> int:
    return entry[1]


def _caption(name: str, curves: Sequence[Curve]) -> str:
    """The summary of a chart: its last value and, for a loss, its lowest one."""
    sentences = []
    for curve in curves:
        words = f"{curve.name} ends at {figure_text(curve.last, 3)}"
        if name == "loss" and curve.name == "validation":
            step, value = curve.lowest
            words += f", lowest {figure_text(value, 3)} at step {step:,.0f}"
        sentences.append(words)
    return "; ".join(sentences).capitalize() + "."


def _scores(rows: Sequence[Mapping[str, object]]) -> str:
    if not rows:
        return ""
    columns = list(rows[0])
    numeric = {name for name in columns if all(_is_numeric(row.get(name, "")) for row in rows)}
    head = "".join(f'<th scope="col"{_number(name in numeric)}>{text(title_of(name))}</th>' for name in columns)
    body = "\n".join(f"<tr>{''.join(_cells(row, columns, numeric))}</tr>" for row in rows)
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    return f'<div class="card scroll" role="region" aria-label="Scores" tabindex="0">{table}</div>'


def _cells(row: Mapping[str, object], columns: Sequence[str], numeric: set[str]) -> Iterator[str]:
    for i, name in enumerate(columns):
        value = row.get(name, "")
        shown = figure_text(value) if isinstance(value, float) else value
        if i == 0:
            yield f'<th scope="row">{isolated(shown)}</th>'
        elif name == "signature":
            yield f"<td><code>{text(shown)}</code></td>"
        else:
            yield f"<td{_number(name in numeric)}>{isolated(shown)}</td>"


def _is_numeric(value: object) -> bool:
    """Whether a cell is aligned to the right: a number, possibly with a sign, a unit or a range."""
    words = str(value).strip()
    return not words or words[0].isdigit() or (words[0] in "+-−±" and len(words) > 1)


def _number(yes: bool) -> str:
    return ' class="number"' if yes else ""


def _samples(samples: Sequence[Sample], names: tuple[str, str]) -> str:
    if not samples:
        return ""
    cards = "\n".join(_sample(*sample, names=names) for sample in samples)
    note = ""
    if any(sample[3] is not None and sample[3].weights.size for sample in samples):
        note = (
            '<p class="note">Each row of a picture is one piece of the output, each column one piece of the input: '
            "the stronger a square, the more the model looked there. "
            "Attention does not prove the reason for an output.</p>"
        )
    return f'{note}\n<div class="samples">\n{cards}\n</div>'


def _sample(source: str, reference: str, hypothesis: str, alignment: Alignment | None, names: tuple[str, str]) -> str:
    same = bool(reference) and reference == hypothesis
    shown = _marked(hypothesis, reference) if hypothesis.strip() else '<span class="tag">nothing</span>'
    tag = ' <span class="tag">same as the reference</span>' if same else ""
    lines = [f"<dt>Output</dt><dd>{shown}{tag}</dd>"]
    if reference and not same:
        lines.append(f"<dt>Reference</dt><dd>{_marked(reference, hypothesis)}</dd>")
    drawn = ""
    if alignment is not None and alignment.weights.size:
        drawn = picture(alignment, names=names)
        drawn = f'<div class="scroll" role="region" aria-label="Alignment" tabindex="0">{drawn}</div>'
    return f'<article class="card sample">\n<h3>{isolated(source)}</h3>\n<dl>{"".join(lines)}</dl>\n{drawn}\n</article>'


def _marked(ours: str, theirs: str) -> str:
    """One text with marks at words that differ from the other text, unless most of them differ."""
    words, others = ours.split(), theirs.split()
    match = SequenceMatcher(a=words, b=others, autojunk=False)
    if not words or not others or match.ratio() < 0.5:
        return isolated(ours)
    pieces = []
    for kind, begin, end, _, _ in match.get_opcodes():
        piece = text(" ".join(words[begin:end]))
        if piece:
            pieces.append(piece if kind == "equal" else f"<mark>{piece}</mark>")
    return f'<bdi dir="auto">{" ".join(pieces)}</bdi>'


def _commands(commands: Sequence[str]) -> str:
    items = "\n".join(f"<li><code>{text(command)}</code></li>" for command in commands)
    return f'<ul class="commands">\n{items}\n</ul>' if items else ""
