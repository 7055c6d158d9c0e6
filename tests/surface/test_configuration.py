"""Every configuration that is shipped loads, builds and can be printed and read back."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import pytest
import torch

from foveate.cli.setup import resolve, task_of
from foveate.config import build, read_toml, to_dict, to_toml
from foveate.config.field import defaults_of, hints_of
from foveate.data.image import ImageReader
from foveate.models import BERTConfig, GPTConfig, ModelConfig
from foveate.nn import Patches, Vectors
from foveate.tasks import TASKS
from foveate.tasks.node.task import NodeModel
from foveate.tasks.translate.task import build_model

MODELS = {
    "language_model": lambda config: config.model.build(100),
    "masked_language_model": lambda config: config.model.build(100),
    "tag": lambda config: config.model.build(100, 10, 30),
    "classify": lambda config: config.model.build(
        Patches(size=8, channels=1, grid=(8, 8)) if isinstance(config.reader, ImageReader) else 100, 10
    ),
    "transcribe": lambda config: config.model.build(Vectors(80), 100),
    "speak": lambda config: config.model.build(100, 80),
    "caption": lambda config: config.model.build(Patches(size=8, channels=1, grid=(8, 8)), 100),
    "node": lambda config: NodeModel(config.model.build(100, 7)),
    "molecule": lambda config: config.model.build(53, 1, edge_dim=9),
}
EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.rglob("*.toml"))


def configurations(kind: Any) -> Iterator[type]:
    """A configuration's class and all those that its settings may be of."""
    if is_dataclass(kind):
        yield cast(type, kind)
    for part in hints_of(kind).values() if is_dataclass(kind) else get_args(kind):
        yield from configurations(part)


KINDS = dict.fromkeys(chain.from_iterable(configurations(task.side.run_config) for task in TASKS.values()))
CHOICES = [(kind, name) for kind in KINDS for name, part in hints_of(kind).items() if get_origin(part) is Literal]
"""Settings with a list of values."""


def test_there_are_examples() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_every_shipped_configuration_loads_and_builds(path: Path) -> None:
    task = task_of(str(path)) or "translate"
    kind = TASKS[task].side.run_config
    config = resolve({}, str(path), {}, [], kind=kind)
    with torch.device("meta"):
        model = build_model(config, 100, 100) if task == "translate" else MODELS[task](config)
    assert model.parameter_count() > 0
    assert build(kind, to_dict(config)) == config


@pytest.mark.parametrize(("kind", "name"), CHOICES, ids=lambda part: getattr(part, "__name__", part))
def test_python_refuses_what_a_file_may_not_say(kind: type, name: str) -> None:
    config = object.__new__(kind)  # the constructor has its types checked in tests, and nowhere else
    for setting, value in {**defaults_of(kind), name: "zzz"}.items():
        object.__setattr__(config, setting, value)
    with pytest.raises(ValueError, match=f"{name} cannot be 'zzz'. Choose one of: "):
        config.__post_init__()


@pytest.mark.parametrize("kind", ModelConfig.__args__, ids=lambda kind: kind.__name__)
def test_what_plan_shows_is_a_file_that_plan_reads(kind: type, foveate: Any, tmp_path: Path) -> None:
    name = kind.__name__.removesuffix("Config")
    model = {"FixedContext": "fixed_context"}.get(name, name.lower())
    settings = [
        f"model={model}",
        "data.source=my file.txt",
        "train.patience=3",
        "train.clip_norm=none",
        "decode=sample",
    ]
    said = foveate("plan", "--show", *(word for setting in settings for word in ("--set", setting)))
    assert (said.code, said.err) == (0, "")
    path = tmp_path / "run.toml"
    path.write_text(said.out)
    assert foveate("plan", "--show", path).out == said.out
    config = build(TASKS["translate"].side.run_config, read_toml(path))
    assert (type(config.model), config.train.patience, config.train.clip_norm) == (kind, 3, None)
    assert to_toml(config) == said.out


def test_a_plan_says_what_a_step_costs_and_which_path_each_attention_takes(foveate: Any) -> None:
    said = foveate(
        *("plan", "--no-tune", "--vocab", "20", "--source-length", "5", "--target-length", "5"),
        *("--set", "data.max_tokens=40", "--set", "model.hidden_dim=8", "--set", "model.embedding_dim=8"),
    )
    assert said.code == 0, said.err
    assert "parameters (vocabularies 20 and 20)" in said.out
    assert "a batch: 4 pairs of 5 and 5 tokens" in said.out
    attention = said.out[said.out.index("\nattention\n") :].splitlines()
    assert attention[2] == "  Additive + padding() + Softmax, 1 head × 5 × (1 × 5)"
    assert attention[3].startswith("  → ")
    table = attention[3 : attention.index("", 3)]
    answers = {line.replace("→", " ").split()[0]: line for line in table}
    assert "refuses: Additive is not a dot product" in answers["sdpa"]
    assert " MFLOP " in answers["additive"]


@pytest.mark.parametrize("task", [task for task in TASKS if task != "translate"])
def test_a_plan_is_for_any_task(foveate: Any, task: str, tmp_path: Path) -> None:
    shown = foveate("plan", task, "--show")
    assert shown.out.startswith(f'task = "{task}"\n')
    path = tmp_path / "run.toml"
    path.write_text(shown.out)
    assert foveate("plan", path, "--show").out == shown.out
    lengths = ("--length", "5") if task in ("tag", "classify") else ()
    size = () if task == "node" else ("--set", "data.max_tokens=600")
    said = foveate("plan", path, "--no-tune", "--vocab", "20", *lengths, *size)
    assert said.code == 0, said.err
    assert " parameters (" in said.out
    assert " per second" in said.out
    expected = {
        "tag": "120 sentences of 5 words",
        "classify": "120 texts of 5 tokens",
        "transcribe": "1 recordings of 500 vectors and 30 tokens",
        "speak": "1 text of 30 tokens with 300 frames",
        "caption": "7 pictures of 64 patches and 12 tokens",
        "node": "2,000 nodes with 15,956 edges",
        "molecule": "30 molecules of 20 atoms",
    }
    assert f"a batch: {expected.get(task, '4 rows of 128 tokens')}" in said.out


def test_a_plan_of_a_gpt_says_which_path_it_attends_by(foveate: Any) -> None:
    sizes = ("model.block.model_dim=32", "model.block.feedforward_dim=64", "data.block_length=8", "data.max_tokens=16")
    words = (word for size in sizes for word in ("--set", size))
    said = foveate("plan", "language_model", "--no-tune", *words)
    assert said.code == 0, said.err
    assert "GPT: " in said.out
    assert "ScaledDot + " in said.out
    assert "causal()" in said.out
    assert "(a vocabulary of 260)" in said.out


def test_a_plan_that_is_refused_measures_nothing(foveate: Any) -> None:
    said = foveate("plan", "language_model", "--no-tune", "--processes", "8")
    assert said.code == 2
    assert said.err.startswith("foveate plan: 8 processes share the 1 batch of an update")
    assert not said.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("plan", "tag", "classify"), "Name one task and one configuration file at most, not 'tag classify'."),
        (("plan", "FILE", "classify"), "is for the task tag, not for classify. Name that task, or another file."),
        (("train", "classify", "FILE", "--out", "x"), "is for the task tag, not for classify."),
        (("plan", "OTHER"), "names unknown task 'tagg'. Did you mean 'tag'?"),
        (("plan", "tag", "--vocab", "4"), "A vocabulary of 4 has no room for text beside the 4 special tokens."),
        (
            (
                "plan",
                "classify",
                "--length",
                "99",
                "--set=model.encoder=transformer",
                "--set=model.encoder.max_length=9",
            ),
            "model.encoder.max_length",
        ),
    ],
)
def test_a_plan_that_cannot_be_is_refused(foveate: Any, words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    files = {"FILE": "tag", "OTHER": "tagg"}
    for name, task in files.items():
        (tmp_path / name).write_text(f'task = "{task}"\n')
    said = foveate(*(tmp_path / word if word in files else word for word in words), "--no-tune")
    assert (said.code, said.out) == (2, "")
    assert says in said.err


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gpt2", GPTConfig.gpt2()), ("gpt_tiny", GPTConfig.tiny()), ("bert_base", BERTConfig.base())],
)
def test_a_preset_is_the_one_that_python_names(name: str, expected: object) -> None:
    path = str(EXAMPLES / "presets" / f"{name}.toml")
    config = resolve({}, path, {}, [], kind=TASKS[task_of(path) or ""].side.run_config)
    assert config.model == expected


def test_a_misspelt_task_is_not_called_a_missing_file(foveate: Any) -> None:
    said = foveate("plan", "transalte")
    assert said.code == 2
    assert "transalte is neither a task nor a file. Did you mean 'translate'?" in said.err
