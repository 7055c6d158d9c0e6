"""Writes docs/mechanisms: a page for every part of the algebra, from its own docstring, with a picture and its cost.

python docs/build.py                               # pages and pictures
python docs/build.py --measure                     # first times every part on this machine, into measured.json
python docs/build.py --measure --only 'score-*'    # times these alone and keeps the other figures; or --only layers
"""

import argparse
import inspect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields, replace
from fnmatch import fnmatch
from html import escape
from pathlib import Path
from typing import Any

import complexity
import torch
from measure import HEAD_DIM, KERNEL, NEAR, SIZES, WIDTH, growth, measure
from measure import HEADS as TIMED_HEADS
from mechanism import DIM, HEADS, IN_PYTHON, Entry, built, entries, placed
from torch import Tensor

from foveate.inspect import Alignment
from foveate.inspect.figure import svg
from foveate.inspect.figure.scale import STEPS, hexadecimal, ramp
from foveate.nn import LearnedConfig, Sinusoid
from foveate.nn.criterion import MEANING, TRAINED, Criteria, criteria

FOLDER = Path(__file__).parent / "mechanisms"
MEASURED = FOLDER / "measured.json"
LENGTH = 12
"""The length of the sequence in a picture."""
LAYERS = "layers"
TESTED = {"binary": 8}
"""Digits that binary positions are tested with; 64 would outlast any text."""
WEIGHTS = "The weights of one head: rows are queries, columns are keys, darker is larger"
CAPTIONS = {
    "position": "Rows are positions, columns are features; the smallest number is the lightest.",
    "recurrent": f"{WEIGHTS}. Three windows of four tokens, each after its cell G; at the right are the cells c, "
    "which tokens review.",
}
TIMED = f"One example, {TIMED_HEADS} heads of {HEAD_DIM}"
TIMED_AS = {
    "position": f"Vectors of {WIDTH} numbers for n positions",
    "recurrent": f"One document, one layer {WIDTH} wide in windows of 256, {TIMED_HEADS} heads of {HEAD_DIM}",
    "location_aware": f"{TIMED}, all queries at once with the weights before each",
}
COLUMNS = {
    "path": "path",
    "forward": "forward, ms",
    "training": "forward and backward, ms",
    "flops": "MFLOP",
    "bytes": "MiB beside inputs and output",
}


# -- the text ----------------------------------------------------------------------------------------------------------


def page(entry: Entry, measured: dict[str, Any]) -> str:
    """The Markdown of one part."""
    place, language = ("In Python", "python") if entry.kind in IN_PYTHON else ("In a configuration", "toml")
    parts = [f"# {entry.title}", *body(entry.subject)]
    if entry.whole is not None:
        parts += ["## All layers", *body(entry.whole)]
    parts += [f"## {place}", f"```{language}\n{entry.setting}\n```"]
    about = CAPTIONS.get(entry.section, f"{WEIGHTS}.")
    title = "What it looks like" if entry.section == "position" else "What it looks at"
    parts += [f"## {title}", f"![{'vectors' if entry.section == 'position' else 'weights'}]({entry.name}.svg)", about]
    if entry.name in measured["mechanisms"]:
        parts += ["## What it costs", *cost(entry, measured)]
    return "\n\n".join(parts) + "\n"


def body(subject: Any) -> Iterator[str]:
    """A docstring as Markdown: equations and examples in blocks of their own."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(subject.__doc__)):
        if paragraph.lstrip().startswith(">>>"):
            yield f"```python\n{paragraph}\n```"
        elif _is_equation(paragraph):
            yield f"```text\n{paragraph}\n```"
        else:
            yield paragraph


def _is_equation(paragraph: str) -> bool:
    return bool(re.search(r"\s[=≤∈]\s", paragraph)) and not paragraph.rstrip().endswith((".", ":"))


def cost(entry: Entry, measured: dict[str, Any]) -> Iterator[str]:
    """The table of one part, and how fast its times grow."""
    row = measured["mechanisms"][entry.name]
    sizes = sorted((size for size in row if size.isdigit()), key=int)
    shown = [name for name in COLUMNS if any(name in row[size] for size in sizes)]
    yield table(
        ["n", *(COLUMNS[name] for name in shown)],
        ([size, *(figure(name, row[size].get(name)) for name in shown)] for size in sizes),
    )
    growths = [f"n^{exponent(row, what)} {COLUMNS[what].removesuffix(', ms')}" for what in times(row)]
    if growths:
        yield f"Time grows as {', '.join(growths)} (exponents fitted to these lengths)."
    of = TIMED_AS.get(entry.kind, TIMED_AS.get(entry.section, TIMED))
    yield f"{of}; {measured['about']}"


def figure(name: str, value: Any) -> str:
    """One cell of the table of costs."""
    if value is None or name == "path":
        return value or "–"
    if name in ("forward", "training"):
        return milliseconds(value)
    return f"{value / 1e6:.0f}" if name == "flops" else f"{value / 2**20:.1f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"


def times(row: dict[str, Any]) -> list[str]:
    """The times that were measured at enough lengths to fit their growth."""
    return [what for what in ("forward", "training") if growth(row, what) is not None]


def exponent(row: dict[str, Any], what: str) -> str:
    p = growth(row, what)
    return "–" if p is None else f"{round(p, 1) + 0.0:.1f}"


def table(header: Sequence[str], rows: Any) -> str:
    first, *others = ("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in (header, *rows))
    return "\n".join([first, "|---" * len(header) + "|", *others])


def index(every: list[Entry], measured: dict[str, Any]) -> str:
    """The table of contents, with the lectures' comparison tables and our measured columns."""
    parts = ["# Every part of the algebra", "`docs/build.py` makes these pages from the docstrings; do not edit them."]
    parts.append(
        "The exponent p of time ~ n^p is fitted to lengths from "
        f"{SIZES[0]} to {SIZES[-1]}, or to shorter ones where the longest takes too much: "
        "it shows what O(n) and O(n²) mean on a machine."
    )
    for section in dict.fromkeys(entry.section for entry in every):
        mine = [entry for entry in every if entry.section == section]
        parts += [f"## {section}", contents(mine, measured)]
    parts += [
        "## Score functions side by side",
        scores(every, measured),
        f"{TIMED}; {measured['about']}",
    ]
    parts += ["## Position vectors by the lectures' five criteria", positions(every)]
    meanings = "\n".join(f"* {name.replace('_', ' ')}: {meaning}" for name, meaning in MEANING.items())
    tests = (
        f"Each criterion is tested (`foveate.nn.criterion`): binary with {TESTED['binary']} digits, "
        f"learned for {TRAINED} places."
    )
    parts += [meanings, tests]
    about = (
        f"Arithmetic is that of the forward pass, steps and paths are those at n = {SIZES[1]}; kernel {KERNEL}, "
        f"neighbourhood {NEAR}. Times and counts are of attention without projections and Elman's recurrence "
        f"without bias. One example; {measured['about']}"
    )
    parts += ["## Self-attention, recurrence, convolution", layers(measured), about]
    return "\n\n".join(parts) + "\n"


def contents(mine: list[Entry], measured: dict[str, Any]) -> str:
    """The pages of one section, and how fast each part's time grows."""

    def line(entry: Entry) -> list[str]:
        row = measured["mechanisms"].get(entry.name, {})
        return [f"[{entry.title}]({entry.name}.md)", first(entry), exponent(row, "forward"), exponent(row, "training")]

    return table(["part", "what it is", "p, forward", "p, forward and backward"], map(line, mine))


def first(entry: Entry) -> str:
    """The description of a part in one line."""
    return inspect.cleandoc(entry.subject.__doc__).split("\n\n")[0].replace("\n", " ")


def scores(every: list[Entry], measured: dict[str, Any]) -> str:
    def line(entry: Entry) -> list[str]:
        row = measured["mechanisms"].get(entry.name, {})
        at = row.get(str(SIZES[0]), {})
        weights = f"{row['weights']:,}" if row else "–"
        numbers = [f"{milliseconds(at[what])} ms" if what in at else "–" for what in ("forward", "training")]
        return [f"[{entry.title}]({entry.name}.md)", first(entry), weights, *numbers, at.get("path", "–")]

    header = ["score", "equation", "weights", f"forward, n = {SIZES[0]}", "forward and backward", "path"]
    return table(header, (line(entry) for entry in every if entry.section == "score"))


def positions(every: list[Entry]) -> str:
    """The table of the lectures' criteria that each kind of position vector meets."""

    def line(entry: Entry) -> list[str]:
        config = replace(entry.config, max_length=TRAINED) if isinstance(entry.config, LearnedConfig) else entry.config
        results = criteria(config, model_dim=TESTED.get(entry.kind, 64))
        return [f"[{entry.title}]({entry.name}.md)", *("yes" if passed else "no" for passed in astuple(results))]

    header = ["positions", *(field.name.replace("_", " ") for field in fields(Criteria))]
    return table(header, (line(entry) for entry in every if entry.section == "position"))


def layers(measured: dict[str, Any]) -> str:
    """The lectures' table of costs, from the objects, with our times beside it."""
    short, long = (complexity.table(size, WIDTH, kernel=KERNEL, neighbourhood=NEAR) for size in SIZES[:2])
    sizes = (f"n = {SIZES[0]}", str(SIZES[1]))
    kinds = {"MFLOP": sizes, "forward, ms": sizes, "forward and backward, ms": sizes}
    header = [f"layer, {WIDTH} wide", "steps in a row", "longest path"]
    header += [f"{kind}, {sizes[0]}" if size == sizes[0] else size for kind in kinds for size in sizes]
    rows = []
    for name, at in long.items():
        took = measured[LAYERS].get(name, {})
        cells = [took.get(str(size), {}).get(what) for what in ("forward", "training") for size in SIZES[:2]]
        flops = [f"{row.flops / 1e6:.0f}" for row in (short[name], at)]
        grows = [exponent(took, what) for what in ("forward", "training")]
        rows.append([name, str(at.steps), str(at.path), *flops, *map(milliseconds, cells), *grows])
    return table([*header, "p, forward", "p, forward and backward"], rows)


# -- the picture -------------------------------------------------------------------------------------------------------


def picture(entry: Entry) -> str:
    """Position vectors, or the weights of one head over twelve positions that resemble their neighbours."""
    torch.manual_seed(0)
    if entry.section == "position":
        with torch.no_grad():
            vectors = entry.config.build(DIM)(torch.arange(LENGTH), torch.tensor([LENGTH]))
        return heat(vectors, names=("feature", "position"))
    x = 1.5 * Sinusoid(DIM, base=30.0)(torch.arange(LENGTH)) + 0.4 * torch.randn(LENGTH, DIM)
    if entry.section == "recurrent":
        return _windows(entry.config, x)
    x = x.expand(1, HEADS, -1, -1)
    with torch.no_grad():
        record = built(entry.config).eval().explain(x, x, x, at=placed(entry, LENGTH))
    weights, visible = record.weights[0, 0], record.visible[0, 0]
    shown = visible.numpy() if visible.shape == weights.shape else None
    rows, columns = ([str(place) for place in range(1, size + 1)] for size in weights.shape)
    alignment = Alignment.of(columns, rows, weights.numpy(), shown)
    return svg(alignment, names=("key", "query"), theme="light", top=None)


def _windows(config: Any, x: Tensor) -> str:
    """The windows of a recurrent attention network beside each other, and its review of their cells."""
    size = LENGTH // 3
    network = replace(config, model_dim=DIM, num_heads=HEADS, head_dim=DIM // HEADS, window=size).build().eval()
    (record,) = network.explain(x[None])
    inside = torch.block_diag(*record.windows[0, :, 0])
    review = torch.nn.functional.pad(record.review[0].unflatten(0, (3, size)), (0, 0, 1, 0)).flatten(0, 1)
    windows = [[f"G{window + 1}", *(str(window * size + place + 1) for place in range(size))] for window in range(3)]
    names = [name for window in windows for name in window]
    weights = torch.cat([inside, review], 1).numpy()
    alignment = Alignment.of([*names, "c1", "c2", "c3"], names, weights)
    return svg(alignment, names=("looked at", "looking"), theme="light", top=None)


def heat(values: Tensor, *, names: tuple[str, str], pitch: int = 24) -> str:
    """Numbers of any sign as a grid: each cell names its number."""
    rows, columns = values.shape
    low, wide = float(values.min()), float(values.max() - values.min()) or 1.0
    colours = [hexadecimal(colour) for colour in ramp()]
    left, top = 2 * pitch, pitch
    width, height = left + columns * pitch + pitch // 2, top + (rows + 1) * pitch
    span = f"from {low:.2f} to {float(values.max()):.2f}"
    label = f"{rows} {names[1]}s in rows, {columns} {names[0]}s in columns, {span}."
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(label)}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for row in range(rows):
        y = top + row * pitch
        lines.append(f'<text x="{left - 8}" y="{y + 16}" text-anchor="end" fill="#1a1d24">{row}</text>')
        for column in range(columns):
            value = float(values[row, column])
            fill = colours[round((value - low) / wide * STEPS)]
            frame = f'x="{left + column * pitch}" y="{y}" width="{pitch}" height="{pitch}"'
            lines.append(f'<rect {frame} fill="{fill}" stroke="#d5dae1"><title>{value:.3f}</title></rect>')
    lines.append(f'<text x="{left}" y="{top - 8}" fill="#5a6270">{names[0]} →</text>')
    lines.append(f'<text x="{left}" y="{height - 8}" fill="#5a6270">{escape(label)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="what to measure, such as 'position-*'")
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    every = list(entries())
    if arguments.measure:
        chosen = [entry for entry in every if fnmatch(entry.name, arguments.only)]
        figures = measure(chosen, _measured(), with_layers=fnmatch(LAYERS, arguments.only))
        MEASURED.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    for name, text in pages(every).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(every)} pages in {FOLDER.name}")


def _measured() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return figures


def pages(every: list[Entry]) -> dict[str, str]:
    """The generated files: name → content."""
    measured = _measured()
    content = {"README.md": index(every, measured)}
    for entry in every:
        content[f"{entry.name}.md"] = page(entry, measured)
        content[f"{entry.name}.svg"] = picture(entry)
    return content


if __name__ == "__main__":
    main()
