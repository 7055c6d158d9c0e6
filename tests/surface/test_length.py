"""What is too long for a mechanism is left out of the data and refused by name, before anything runs."""

from pathlib import Path
from typing import Any

import pytest

LIMITED = {
    "linformer": ("model.attention.kind=linformer", "model.attention.max_length=12"),
    "location": ("model.attention.score.kind=location", "model.attention.score.max_length=12"),
    "synthesizer": (
        "model.block.encoder_attention.kind=synthesizer",
        "model.block.encoder_attention.max_length=12",
    ),
}
SIZES = {
    "luong": ("model.hidden_dim=8", "model.embedding_dim=8"),
    "transformer": ("model.block.model_dim=8", "model.block.num_heads=2", "model.block.feedforward_dim=8"),
}
FEW = ("train.steps=3", "train.validate_every=3", "train.save_every=3", "data.max_tokens=200")
QUICK = ("--no-tune", "--threads", "1")


def options(name: str) -> list[str]:
    kind = "transformer" if name == "synthesizer" else "luong"
    settings = (f"model.kind={kind}", *SIZES[kind], *LIMITED[name])
    return [word for setting in settings for word in ("--set", setting)]


def few(*settings: str) -> list[str]:
    return [*QUICK, *(word for setting in (*FEW, *settings) for word in ("--set", setting))]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty short pairs, and one of 30 tokens."""
    path = tmp_path_factory.mktemp("long") / "pairs.tsv"
    short = "".join(f"{'a b c '[: 2 * (1 + n % 3)]}\tc b a\n" for n in range(40))
    path.write_text(f"{short}{'a ' * 29}b\tb a\n")
    return path


@pytest.mark.parametrize("name", LIMITED)
def test_a_pair_too_long_for_a_mechanism_is_left_out_and_a_text_refused(
    foveate: Any, pairs: Path, tmp_path: Path, name: str
) -> None:
    run = tmp_path / "run"
    tokeniser = ("--set", "source_tokeniser.kind=word", "--set", "target_tokeniser.kind=word")
    said = foveate("train", "translate", "--source", pairs, "--out", run, *options(name), *tokeniser, *few())
    assert said.code == 0, said.err
    assert "more than 12 tokens (the longest has 31)" in said.out + said.err
    assert foveate("translate", *QUICK, run, "a b c").code == 0
    refused = foveate("translate", *QUICK, run, "a " * 30)
    assert refused.code == 3
    assert "has 30 tokens and an end, but the model has 12 positions" in refused.err


@pytest.mark.parametrize("name", LIMITED)
def test_a_plan_for_more_than_a_mechanism_reaches_says_what_to_raise(foveate: Any, name: str) -> None:
    said = foveate("plan", "translate", *QUICK, "--source-length", 30, "--target-length", 5, *options(name))
    assert said.code == 2
    assert "The model has 12 positions, the batch needs 30. Raise max_length, of the model's" in said.err
    assert "Traceback" not in said.err


def test_a_block_longer_than_a_language_models_attention_is_refused(foveate: Any, pairs: Path, tmp_path: Path) -> None:
    sites = ("model.block.decoder_attention.kind=synthesizer", "model.block.decoder_attention.max_length=12")
    words = [word for setting in sites for word in ("--set", setting)]
    said = foveate("train", "language_model", "--text", pairs, "--out", tmp_path / "run", *QUICK, *words)
    assert said.code == 2
    assert "data.block_length is 128, but the model has 12 positions" in said.err


@pytest.mark.parametrize("task", ["tag", "classify"])
def test_an_example_too_long_for_an_encoders_attention_is_left_out(foveate: Any, tmp_path: Path, task: str) -> None:
    examples = [" ".join("ab"[(n + k) % 2] for k in range(3)) for n in range(30)] + ["a " * 29 + "b"]
    if task == "tag":
        lines = ["".join(f"{word}\tX\n" for word in text.split()) + "\n" for text in examples]
    else:
        lines = [f"{text}\t{text[0]}\n" for text in examples]
    data = tmp_path / "data.tsv"
    data.write_text("".join(lines))
    encoder = (
        "model.encoder.kind=transformer",
        "model.encoder.block.model_dim=8",
        "model.encoder.block.num_heads=2",
        "model.encoder.block.encoder_attention.kind=linformer",
        "model.encoder.block.encoder_attention.max_length=12",
        "data.max_length=50",
    )
    words = [word for setting in encoder for word in ("--set", setting)]
    if task == "classify":
        words += ["--set", "tokeniser.kind=word"]
    run = tmp_path / "run"
    said = foveate("train", task, "--data", data, "--out", run, *words, *few())
    assert said.code == 0, said.err
    assert "More than 12 tokens" in said.out + said.err
    refused = foveate(task, *QUICK, run, "a " * 30)
    assert refused.code == 3, refused.err
    assert "12 positions" in refused.err.replace("\n", " ")
