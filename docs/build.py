"""Writes docs/mechanisms: a page for every part of the algebra, from its own docstring, with a picture and its cost.

python docs/build.py                 # pages and pictures
python docs/build.py --measure       # first times every mechanism on this machine, into docs/mechanisms/measured.json
"""

import argparse
import inspect
import json
import math
import re
import time
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foveate import machine, native
from foveate.attention import (
    AttentionConfig,
    Positions,
    calibration,
    complexity,
    padding,
    predicate,
    same_segment,
    visibility,
    window,
)
from foveate.attention.bias import BiasConfig, GaussianConfig
from foveate.attention.configuration import AnyMechanismConfig
from foveate.attention.normaliser import NormaliserConfig
from foveate.attention.score import FeedbackScore, ScoreConfig
from foveate.attention.transform import TransformConfig
from foveate.attention.visibility import Visibility
from foveate.config.field import kind_of
from foveate.inspect import Alignment
from foveate.inspect.figure import svg
from foveate.nn import RAN, MultiHeadAttention, Sinusoid
from foveate.nn.position import PositionConfig

FOLDER = Path(__file__).parent / "mechanisms"
MEASURED = FOLDER / "measured.json"
LENGTH, DIM, HEADS = 12, 16, 2
SIZES = (256, 1024)
WIDTH, KERNEL, NEAR = 512, 3, 64
SITE = "model.block.encoder_attention"
RULES = {
    "everything": "everything()",
    "causal": "causal()",
    "window": "window(left=3, right=0)",
    "dilated": "dilated(left=6, right=0, step=2)",
    "around": "around(left=2, right=2)",
    "padding": "padding([9])",
    "prefix": "prefix(4)",
    "block": "block(4)",
    "chunk": "chunk(3, left=1)",
    "global_tokens": "global_tokens(2)",
    "random_blocks": "random_blocks(block=2, count=1, seed=0)",
    "longformer": "longformer(window=2, tokens=1)",
    "bigbird": "bigbird(block=2, window=3, tokens=1, random=1)",
    "sparse": "sparse(block=4)",
    "neighbourhood": "neighbourhood(columns=4, reach=1)",
    "summary": "summary(block=4, count=1)",
    "edges": "edges([[0, 1, 2, 3, 5, 8], [1, 2, 0, 8, 3, 5]], self_loops=True)",
}
"""How a page's example calls each rule."""


def even(at: Positions) -> Tensor:
    return at.key % 2 == 0


IN_PYTHON = {
    "same_segment": (same_segment(), "Attention(visibility=causal() & same_segment()).run(query, key, value, at=at)"),
    "predicate": (predicate(even), "Attention(visibility=causal() & predicate(even)).run(query, key, value)"),
}
"""Rules that a file cannot say: one needs positions with segments, the other a function."""


@dataclass(frozen=True)
class Entry:
    """One page."""

    section: str
    kind: str
    subject: Any
    """Whose docstring explains it."""
    setting: str
    """The line of TOML that chooses it, or of Python where no file can."""
    config: Any = None
    """Builds the mechanism that shows it, where there is one to show."""

    @property
    def title(self) -> str:
        return self.kind.replace("_", " ")

    @property
    def name(self) -> str:
        """Of its files: a rule and a mechanism may share a kind."""
        return f"{self.section}-{self.kind}".replace("_", "-")


def members(union: Any) -> list[type]:
    """The classes of a union, or the one class."""
    return list(typing.get_args(union)) or [union]


def entries() -> Iterator[Entry]:
    """Every part that a configuration can name."""
    for cls in members(ScoreConfig):
        config = AttentionConfig(score=cls())
        built = cls().build(query_dim=DIM, key_dim=DIM, num_heads=HEADS)
        site = "model.attention" if isinstance(built, FeedbackScore) else SITE
        yield Entry("score", kind_of(cls), type(built), f'{site}.score.kind = "{kind_of(cls)}"', config)
    for cls in members(NormaliserConfig):
        config = AttentionConfig(normaliser=cls())
        setting = f'{SITE}.normaliser.kind = "{kind_of(cls)}"'
        yield Entry("normaliser", kind_of(cls), type(cls().build()), setting, config)
    for cls in members(BiasConfig):
        example = GaussianConfig(sigma=2.0) if cls is GaussianConfig else cls()
        built = example.build(num_heads=HEADS, head_dim=DIM)
        setting = f"{SITE}.bias = {to_toml_line(example)}"
        yield Entry("bias", kind_of(cls), type(built), setting, AttentionConfig(bias=example))
    for cls in members(TransformConfig):
        built = cls().build(head_dim=DIM, num_heads=HEADS)
        config = AttentionConfig(transforms=(cls(),))
        yield Entry(
            "transform", kind_of(cls), type(built), f'{SITE}.transforms = [{{kind = "{kind_of(cls)}"}}]', config
        )
    for name, code in RULES.items():
        rule = Visibility.parse(code)
        config = AttentionConfig(visibility=rule)
        yield Entry("visibility", name, getattr(visibility, name), f'{SITE}.visibility = "{code}"', config)
    for name, (rule, code) in IN_PYTHON.items():
        yield Entry("visibility", name, getattr(visibility, name), code, AttentionConfig(visibility=rule))
    for cls in members(AnyMechanismConfig):
        if cls is not AttentionConfig:
            subject = _subject(cls)
            yield Entry("formula", kind_of(cls), subject, f'{SITE}.kind = "{kind_of(cls)}"', cls())
    for cls in members(PositionConfig):
        yield Entry("position", kind_of(cls), _subject(cls), f'model.position.kind = "{kind_of(cls)}"')
    yield Entry("recurrent", "ran", RAN, 'model.encoder.kind = "ran"')


def to_toml_line(config: Any) -> str:
    """A configuration as an inline table, with what is not a default."""
    given = {field.name: getattr(config, field.name) for field in fields(config) if field.default is MISSING}
    return (
        "{"
        + ", ".join(f"{name} = {json.dumps(value)}" for name, value in {"kind": kind_of(type(config)), **given}.items())
        + "}"
    )


def _subject(cls: type) -> Any:
    """The class that a configuration builds, if its docstring says more than the configuration's."""
    built = typing.get_type_hints(cls.build).get("return")
    ours = inspect.isclass(built) and built.__module__.startswith("foveate") and built.__name__ != "Attention"
    return built if ours and inspect.getdoc(built) else cls


# -- the text ----------------------------------------------------------------------------------------------------------


def page(entry: Entry, measured: dict[str, Any]) -> str:
    """The Markdown of one part."""
    place, language = ("In Python", "python") if entry.kind in IN_PYTHON else ("In a configuration", "toml")
    parts = [f"# {entry.title}", *body(entry.subject), f"## {place}", f"```{language}\n{entry.setting}\n```"]
    if entry.config is not None:
        about = "What one head looks at: rows are queries, columns keys, darker is more."
        parts += ["## What it looks at", f"![weights]({entry.name}.svg)", about]
    if entry.name in measured["mechanisms"]:
        parts += ["## What it costs", cost(measured["mechanisms"][entry.name]), measured["about"]]
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


def cost(row: dict[str, Any]) -> str:
    header = "| n | path | forward, ms | forward and backward, ms | MFLOP | MiB beside inputs and output |"
    lines = [header, "|---|---|---|---|---|---|"]
    for size in map(str, SIZES):
        if size in row:
            at = row[size]
            numbers = (
                f"{at['forward']:.1f} | {at['training']:.1f} | {at['flops'] / 1e6:.0f} | {at['bytes'] / 2**20:.1f}"
            )
            lines.append(f"| {size} | {at['path']} | {numbers} |")
    return "\n".join(lines)


def index(every: list[Entry], measured: dict[str, Any]) -> str:
    """The table of contents, with the lectures' comparison tables and our measured columns."""
    parts = ["# Every part of the algebra", "Made by `docs/build.py` from the docstrings; do not edit these pages."]
    for section in dict.fromkeys(entry.section for entry in every):
        mine = [entry for entry in every if entry.section == section]
        parts += [f"## {section}", "\n".join(f"* [{entry.title}]({entry.name}.md): {first(entry)}" for entry in mine)]
    parts += ["## Score functions side by side", scores(every, measured), measured["about"]]
    about = f"Steps and paths at n = {SIZES[1]}; kernel {KERNEL}, neighbourhood {NEAR}. Times: forward and backward."
    parts += ["## Self-attention, recurrence, convolution", layers(measured), about]
    return "\n\n".join(parts) + "\n"


def first(entry: Entry) -> str:
    """What a part is, in one line."""
    return inspect.cleandoc(entry.subject.__doc__).split("\n\n")[0].replace("\n", " ")


def scores(every: list[Entry], measured: dict[str, Any]) -> str:
    lines = [
        "| score | equation | weights | forward, n = 256 | forward and backward | path |",
        "|---|---|---|---|---|---|",
    ]
    for entry in every:
        if entry.section == "score" and str(SIZES[0]) in measured["mechanisms"].get(entry.name, {}):
            row = measured["mechanisms"][entry.name]
            at = row[str(SIZES[0])]
            numbers = f"{at['forward']:.1f} ms | {at['training']:.1f} ms | {at['path']}"
            lines.append(f"| [{entry.title}]({entry.name}.md) | {first(entry)} | {row['weights']:,} | {numbers} |")
    return "\n".join(lines)


def layers(measured: dict[str, Any]) -> str:
    """The lectures' table of costs, from the objects, with our times beside it."""
    short, long = (complexity.table(size, WIDTH, kernel=KERNEL, neighbourhood=NEAR) for size in SIZES)
    sizes = f"n = {SIZES[0]} | n = {SIZES[1]}"
    lines = [f"| layer, {WIDTH} wide | MFLOP, {sizes} | steps in a row | longest path | ms, {sizes} |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for name, row in long.items():
        times = " | ".join(f"{measured['layers'][name][str(size)]:.1f}" for size in SIZES)
        flops = f"{short[name].flops / 1e6:.0f} | {row.flops / 1e6:.0f}"
        lines.append(f"| {name} | {flops} | {row.steps} | {row.path} | {times} |")
    return "\n".join(lines)


# -- the picture -------------------------------------------------------------------------------------------------------


def picture(entry: Entry) -> str | None:
    """The weights of one head over twelve positions that resemble their neighbours."""
    if entry.config is None:
        return None
    torch.manual_seed(0)
    x = (1.5 * Sinusoid(DIM, base=30.0)(torch.arange(LENGTH)) + 0.4 * torch.randn(LENGTH, DIM)).expand(1, HEADS, -1, -1)
    at = Positions.of(LENGTH, LENGTH)
    if entry.kind == "location_aware":
        at = replace(at, previous=torch.eye(LENGTH).roll(1, 0).expand(1, HEADS, -1, -1))
    if entry.kind == "same_segment":
        segment = torch.tensor([0] * 5 + [1] * 4 + [2] * 3)
        at = replace(at, query_segment=segment[None, None, :, None], key_segment=segment[None, None, None])
    with torch.no_grad():
        mechanism = _built(entry.config)
        weights = mechanism.eval().explain(x, x, x, at=at).weights[0, 0]
    names = [str(place) for place in range(1, weights.shape[1] + 1)]
    alignment = Alignment.of(names, [str(place) for place in range(1, LENGTH + 1)], weights.numpy())
    return svg(alignment, names=("key", "query"), theme="light", top=None)


def _built(config: Any) -> Any:
    return config.build(query_dim=DIM, key_dim=DIM, num_heads=HEADS, visibility=padding(), kind="self")


# -- the measurements --------------------------------------------------------------------------------------------------


def measure(every: list[Entry]) -> dict[str, Any]:
    """Seconds of each mechanism at two lengths: one example, 8 heads of 64, float32, one thread."""
    torch.set_num_threads(1)
    machine.tune()
    if not calibration.use_kept():
        calibration.scale()
    mechanisms = {}
    for entry in every:
        if entry.config is not None and entry.kind not in ("location_aware", *IN_PYTHON):
            mechanisms[entry.name] = _timed(entry.config)
            print(entry.name, mechanisms[entry.name], flush=True)
    about = f"One example, 8 heads of 64, float32, one thread of an {_processor()}; times are the least of five."
    return {"about": about, "mechanisms": mechanisms, "layers": _layers()}


def _processor() -> str:
    lines = native.processor().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (names or ["unknown processor"])[0].replace("(R)", "") + " with AMX" * native.has_tiles()


def _timed(config: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    mechanism = config.build(query_dim=64, key_dim=64, num_heads=8, visibility=padding(), kind="self")
    row: dict[str, Any] = {"weights": sum(weight.numel() for weight in mechanism.parameters())}
    for size in SIZES:
        x = torch.randn(1, 8, size, 64, requires_grad=True)
        try:
            plan = mechanism.plan(x, x)
            mechanism.run(x, x, x)
        except ValueError:  # made for shorter inputs
            continue
        chosen = next(path for path in plan.paths if path.name == plan.chosen)

        def forward(x: Tensor = x) -> None:
            with torch.no_grad():
                mechanism.run(x, x, x)

        def training(x: Tensor = x) -> None:
            mechanism.run(x, x, x).sum().backward()

        times = {"forward": _milliseconds(forward), "training": _milliseconds(training)}
        row[str(size)] = {"path": plan.chosen, "flops": chosen.flops, "bytes": chosen.bytes, **times}
    return row


def _layers() -> dict[str, Any]:
    """Seconds of the four layers that the lectures compare, 512 wide."""
    torch.manual_seed(0)
    multi, lstm = MultiHeadAttention(query_dim=WIDTH, num_heads=8), nn.LSTM(WIDTH, WIDTH, batch_first=True)
    near = MultiHeadAttention(query_dim=WIDTH, num_heads=8, visibility=window(left=NEAR, right=NEAR))
    convolution = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2)
    layers: dict[str, Callable[[Tensor], Tensor]] = {
        "self-attention": multi,
        "recurrent": lambda x: lstm(x)[0],
        "convolution": lambda x: convolution(x.mT),
        "restricted self-attention": near,
    }
    rows: dict[str, Any] = {name: {} for name in layers}
    for size in SIZES:
        x = torch.randn(1, size, WIDTH, requires_grad=True)
        for name, layer in layers.items():
            rows[name][str(size)] = _milliseconds(lambda layer=layer, x=x: layer(x).sum().backward())
    return rows


def _milliseconds(job: Any) -> float:
    best = math.inf
    for _ in range(6):
        started = time.process_time()
        job()
        best = min(best, time.process_time() - started)
    return round(best * 1e3, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    every = list(entries())
    if arguments.measure:
        MEASURED.write_text(json.dumps(measure(every), indent=1) + "\n", encoding="utf-8")
    for name, text in pages(every).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(every)} pages in {FOLDER.name}")


def pages(every: list[Entry]) -> dict[str, str]:
    """File name → content of everything that is made."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    made = {"README.md": index(every, measured)}
    for entry in every:
        made[f"{entry.name}.md"] = page(entry, measured)
        drawn = picture(entry)
        if drawn is not None:
            made[f"{entry.name}.svg"] = drawn
    return made


if __name__ == "__main__":
    main()
