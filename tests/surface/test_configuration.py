"""Every configuration that is shipped loads, builds and can be printed and read back."""

from pathlib import Path
from typing import Any

import pytest
import torch

from foveate.cli.setup import RunConfig
from foveate.config import build, read_toml, to_dict, to_toml
from foveate.models import ModelConfig
from foveate.tasks.translate import build_model

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.rglob("*.toml"))


def test_there_are_examples() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_every_shipped_configuration_loads_and_builds(path: Path) -> None:
    config = build(RunConfig, read_toml(path), imports=True)
    with torch.device("meta"):
        model = build_model(config, 100, 100)
    assert model.parameter_count() > 0
    assert build(RunConfig, to_dict(config)) == config


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
    config = build(RunConfig, read_toml(path))
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
    assert attention[2] == "  Additive + padding() + Softmax, 1 head × 5 × 5"
    assert attention[3].startswith("  → ")
    answers = {line.replace("→", " ").split()[0]: line for line in attention[3:]}
    assert "refuses: Additive is not a dot product" in answers["sdpa"]
    assert " ms " in answers["additive"]
