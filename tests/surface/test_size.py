"""Configurations that ask for a model as large as memory: refused in words, before memory is taken."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

GIB = 1 << 30


@pytest.fixture(autouse=True)
def little() -> Iterator[None]:
    """One GiB more than the process has: what takes memory fails, in other words than those asked for here."""
    kept = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    wanted = taken + GIB if kept[0] == resource.RLIM_INFINITY else min(taken + GIB, kept[0])
    resource.setrlimit(resource.RLIMIT_AS, (wanted, kept[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, kept)


@pytest.mark.parametrize("command", [("translate", "abc"), ("look", "abc"), ("resume",), ("resume", "half")])
@pytest.mark.parametrize("setting", ["hidden_dim", "embedding_dim"])
def test_a_run_is_no_larger_than_its_weights(command: tuple[str, ...], setting: str, run: Path, foveate: Any) -> None:
    file = run / "model.safetensors"
    if command[1:] == ("half",):
        file.unlink()
        file = max((run / "checkpoints").iterdir()) / file.name
    content = json.loads((run / "config.json").read_text())
    content["config"]["model"][setting] = 1 << 22
    (run / "config.json").write_text(json.dumps(content))
    said = foveate(command[0], run, *command[1:2] * (command[0] != "resume"), "--no-tune")
    assert said.code == 3, said.err
    assert f"{run / 'config.json'} asks for a model with a part of " in said.err
    assert f"far more than {file} holds: " in said.err


@pytest.mark.parametrize(
    ("kind", "command", "setting"),
    [
        ("bert", "fill", "hidden_size"),
        ("bert", "fill", "vocab_size"),
        ("gpt2", "generate", "n_embd"),
        ("gpt2", "generate", "n_positions"),
        ("llama", "generate", "intermediate_size"),
        ("llama", "generate", "num_hidden_layers"),
    ],
)
def test_a_model_of_hugging_face_is_no_larger_than_its_weights(
    kind: str, command: str, setting: str, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import save_file

    from foveate.errors import DataError
    from foveate.models.bert_hugging_face import read_bert
    from foveate.models.gpt2_hugging_face import read_gpt2
    from foveate.models.llama_hugging_face import read_llama

    theirs: dict[str, Any] = {"model_type": kind, "vocab_size": 50}
    if kind == "gpt2":
        theirs |= {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16}
    else:
        theirs |= {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
        theirs |= {"max_position_embeddings": 16, "type_vocab_size": 2, "rms_norm_eps": 1e-6}
    read = {"bert": read_bert, "gpt2": read_gpt2, "llama": read_llama}[kind]
    save_file({"weight": torch.zeros(50, 8)}, tmp_path / "model.safetensors")
    large = 10_000 if setting == "num_hidden_layers" else 1 << 22
    for size, says in ((theirs[setting], "weights|lack"), (large, "config.json asks for a model with a part of ")):
        (tmp_path / "config.json").write_text(json.dumps(theirs | {setting: size}))
        with pytest.raises(DataError, match=says) as told:
            read(tmp_path)
    assert "far more than model.safetensors holds: 400 numbers in 1 tensors" in str(told.value)


def test_training_is_no_larger_than_the_memory(foveate: Any, recipe: tuple[str, ...], tmp_path: Path) -> None:
    for command in (
        (*recipe, "--out", tmp_path / "run"),
        ("plan", "translate", "--no-tune", "--set", "model=bahdanau"),
    ):
        said = foveate(*command, "--set", "model.hidden_dim=1000000")
        assert said.code == 2, said.err
        assert " numbers: its weights alone need more than the " in said.err
        assert "GB of available memory" in said.err
        assert "Make the model smaller" in said.err
