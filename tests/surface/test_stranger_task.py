"""A task that a stranger adds works in every command, by one folder and one line in the list of tasks.

The task is to count: how often does a line say "a"? Its folder is the three parts below, in one module here.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foveate.attention import Attention, ScaledDot
from foveate.cli.program import commands
from foveate.config import build, setting
from foveate.inspect.looking import Looking
from foveate.inspect.trace import Trace
from foveate.inspect.value import observed
from foveate.metrics import Score
from foveate.storage.checkpoint import load_weights, restore_model
from foveate.storage.run import read_run
from foveate.tasks import TASKS
from foveate.tasks.entry import Entry, Verb
from foveate.tasks.exported import Exported, Note
from foveate.tasks.report_page import write_report
from foveate.tasks.run_model import traced
from foveate.tasks.run_plan import Allowance, Probe, Reason, Suggestion
from foveate.tasks.side import Asked, Scored, Side
from foveate.train import Loss
from foveate.voice import say

LETTERS = "abcdefghijklmnopqrstuvwxyz"

# task.py


@dataclass(frozen=True, kw_only=True)
class CountDataConfig:
    data: str = setting("", "file of lines: text, tab, number")
    valid_data: str | None = setting(None, "validation lines")


@dataclass(frozen=True, kw_only=True)
class CountConfig:
    data: CountDataConfig = CountDataConfig()
    width: int = setting(4, "of the vectors")
    seed: int = setting(0, "of the initial weights")


class Count(nn.Module):
    """The sum of what attention makes of every letter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(len(LETTERS), width), nn.Linear(width, 1)
        self.attention = Attention(score=ScaledDot())

    def forward(self, letters: Tensor) -> Tensor:
        vectors = self.embedding(letters)[None, None]
        seen = self.attention.run(query=vectors, key=vectors, value=vectors)
        return self.output(seen[0, 0]).sum()

    def parameter_count(self) -> int:
        return sum(weight.numel() for weight in self.parameters())


def letters(text: str) -> Tensor:
    return torch.tensor([LETTERS.index(letter) for letter in text])


def lines(path: str) -> Iterator[tuple[str, float]]:
    for line in Path(path).read_text().splitlines():
        text, number = line.split("\t")
        yield text, float(number)


class CountTask:
    def __init__(self, config: CountConfig, data: list[tuple[str, float]]) -> None:
        self.config, self.data, self.digests = config, data, dict[str, str]()
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            self.model = Count(config.width)
        self.steps_per_epoch = len(data)

    @classmethod
    def prepare(cls, config: CountConfig, run: Path) -> "CountTask":
        run.mkdir(parents=True, exist_ok=True)
        (run / "lines.json").write_text(json.dumps(list(lines(config.data.data))))
        return cls.open(config, run)

    @classmethod
    def open(cls, config: CountConfig, run: Path) -> "CountTask":
        return cls(config, json.loads((run / "lines.json").read_text()))

    def batch(self, step: int) -> tuple[str, float]:
        return self.data[step % len(self.data)]

    def loss(self, batch: tuple[str, float]) -> Loss:
        text, number = batch
        return Loss((self.model(letters(text)) - number) ** 2, 1)

    def validate(self) -> dict[str, float]:
        return {"loss": sum(float(self.loss(one).total) for one in self.data) / len(self.data)}

    def describe(self, batch: tuple[str, float]) -> str:
        return repr(batch[0])


# use.py


class Counter(Looking):
    def __init__(self, model: Count) -> None:
        self.model = model.eval()

    @classmethod
    def load(cls, run: Path | str) -> "Counter":
        saved = read_run(Path(run)).require("count")
        config = build(CountConfig, {name: part for name, part in saved.config.items() if name != "train"})
        model = Count(config.width)
        restore_model(model, load_weights(Path(run))[0], source=Path(run))
        return cls(model)

    @torch.inference_mode()
    def count(self, text: str) -> float:
        return float(self.model(letters(text)))

    @torch.inference_mode()
    def trace(self, text: str) -> Trace:
        return traced(self.model, observed(self.model, lambda: self.model(letters(text))), list(text), text)

    def strange(self, text: str) -> list[str]:
        return [letter for letter in text if letter not in LETTERS]


# side.py


class CountSide(Side):
    config, task, validated = CountConfig, CountTask, ("loss",)
    per_token = frozenset()

    @property
    def entry(self) -> Entry:
        return TASKS["count"]

    def suggest(self, config: CountConfig, allowance: Allowance) -> Suggestion:
        return Suggestion({"width": 4, "train": {"steps": 4}}, "some lines.", (Reason("width", "as wide as it is"),))

    def probe(self, config: CountConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        model, text = Count(config.width), torch.zeros(lengths[0], dtype=torch.int64)
        return Probe(
            model=model,
            loss=lambda: model(text),
            vocabulary="26 letters",
            batch="a line",
            tokens=len(text),
            unit="letters",
        )

    def size(self, task: CountTask) -> str:
        return f"{len(task.data)} lines"

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> Counter:
        return Counter.load(run)

    def in_use(self, task: CountTask) -> Counter:
        return Counter(task.model)

    def vocabulary(self, model: Counter) -> Counter:
        return model

    def use(self, arguments: argparse.Namespace) -> None:
        counter = self.load(arguments.run)
        for text in arguments.inputs:
            print(f"{counter.count(text):.1f}" if arguments.exactly else round(counter.count(text)))

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        counter, examples = self.load(arguments.run), list(lines(arguments.data))
        wrong = sum((counter.count(text) - number) ** 2 for text, number in examples) / len(examples)
        return [Score(name="squared error", value=wrong, signature=None, higher_is_better=False)]

    def write_report(self, model: Counter, config: CountConfig, folder: Path, path: Path, test: Any = None) -> None:
        write_report(model.model, folder, path, scores=[], samples=[], card={}, commands=[self.command(model, folder)])

    def trial(self, model: Counter) -> str:
        return "banana"

    def export(self, run: Path | str, note: Note) -> Exported:
        return Exported(self.load(run).model, lambda folder: None, {})

    def metrics(self) -> tuple[str, ...]:
        return ("loss",)

    def usual_metrics(self, task: CountTask) -> tuple[str, ...]:
        return ("loss",)

    def hold_out(self, config: CountConfig, folder: Path) -> dict[str, Any]:
        return {}

    def count(self, batch: Any) -> int:
        return 1

    def score(self, task: CountTask, config: CountConfig, folder: Path, asked: Asked) -> Scored:
        return Scored(values=task.validate())


# __init__.py, and the line in the list


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--exactly", action="store_true", help="with its fraction")


COUNT = Entry(
    name="count",
    home="stranger",
    summary="a number for every line",
    files={"data": "text, tab, number", "valid_data": "the same for validation"},
    tests={"data": "lines to measure on"},
    lengths={"length": "letters to count"},
    verb=Verb(name="count", summary="count with a trained model", input="lines to count in", options=options),
)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Adds the task to the list, with its side."""

    def add(side: object) -> None:
        package, module = ModuleType("stranger"), ModuleType("stranger.side")
        module.SIDE = side  # type: ignore[attr-defined]
        for each in (package, module):
            monkeypatch.setitem(sys.modules, each.__name__, each)
        monkeypatch.setitem(TASKS, "count", COUNT)

    vars(COUNT).pop("side", None)
    yield add
    vars(COUNT).pop("side", None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "lines.tsv"
    path.write_text("".join(f"{'ab' * number}c\t{number}\n" for number in range(1, 12)))
    return path


def test_every_command_takes_a_task_that_one_line_adds(
    added: Any, data: Path, foveate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(CountSide())
    run, quiet = tmp_path / "run", ("--no-tune", "--threads", "1")

    def works(*words: object) -> str:
        said = foveate(*words)
        assert said.code == 0, (words, said.err)
        return str(said.out + said.err)

    assert "count     count with a trained model" in works("--help")
    assert "--exactly" in works("count", "--help")
    assert "text, tab, number" in works("train", "count", "--help")
    trained = works("train", "count", "--data", data, "--out", run, *quiet)
    assert "Count with 109 parameters; 11 lines." in trained
    assert f"Try:  foveate count {run} banana" in trained
    assert read_run(run).task == "count"
    works("resume", run, "--set", "train.steps=6", *quiet)
    works("report", run, "--out", tmp_path / "report.html", *quiet)
    assert "109" in (tmp_path / "report.html").read_text()
    answers = works("count", run, "banana", "cab", *quiet).split()
    assert [round(Counter.load(run).count(text)) for text in ("banana", "cab")] == list(map(int, answers))
    assert "squared error" in works("evaluate", run, "--data", data, *quiet)
    planned = works("plan", "count", "--length", "7", *quiet)
    assert "26 letters" in planned
    assert "7 × 7" in planned
    works("look", run, "banana", "--trace", tmp_path / "kept.trace", *quiet)
    works("look", tmp_path / "kept.trace", "--out", tmp_path / "seen.txt")
    assert set("banana") <= set((tmp_path / "seen.txt").read_text())
    refused = foveate("export", run, "--to", "onnx", tmp_path / "model")
    assert (refused.code, "Count" in refused.err) == (2, True), "an engine knows no such model, and says so"
    (tmp_path / "run.toml").write_text(f'task = "count"\n[data]\ndata = "{data}"\nvalid_data = "{data}"\n')
    compared = works(
        *("compare", "count", tmp_path / "run.toml", "--vary", "width=2,4", "--seeds", "1"),
        *("--budget", "steps=2", "--out", tmp_path / "compared", *quiet),
    )
    assert "width 2" in compared
    assert "loss" in compared


def test_a_task_with_a_part_missing_says_which(added: Any, data: Path, foveate: Any, tmp_path: Path) -> None:
    parts = {name: part for name, part in vars(CountSide).items() if name not in ("probe", "export")}
    with pytest.raises(TypeError, match=r"export.*probe"):
        type("Partial", (Side,), parts)()
    added(None)
    with pytest.raises(TypeError, match=r"stranger.side needs SIDE, an instance of a subclass of .*Side"):
        foveate("train", "count", "--data", data, "--out", tmp_path / "run")


def test_commands_know_no_task_by_name() -> None:
    """Nothing in the code of `cli` and `comparison` equals a task's name; examples in help texts hold them."""
    import ast

    import foveate

    package = Path(foveate.__file__).parent
    files = [path for part in ("cli", "comparison") for path in (package / part).glob("**/*.py")]
    for path in files:
        constants = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        assert not set(TASKS) & {value for value in constants if isinstance(value, str)}, path
        assert not any(path.stem == task.verb.name for task in TASKS.values()), path
    assert {task.verb.name for task in TASKS.values()} < set(commands())
