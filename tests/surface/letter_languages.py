"""A small translator of two languages, which is trained in seconds."""

from pathlib import Path

from tests.surface.conftest import call

LETTERS = "abcdef"
SETTINGS = (
    *("data.direction_column=0", "data.temperature=3", "data.max_tokens=512", "data.held_out=20"),
    *("source_tokeniser=word", "joint_vocabulary=true", "model=transformer", "model.share=all"),
    *("model.encoder_layers=1", "model.decoder_layers=1", "model.block.model_dim=32", "model.block.num_heads=2"),
    *("model.block.feedforward_dim=64", "model.block.dropout=0", "label_smoothing=0"),
    *("train.steps=150", "train.learning_rate=8e-3", "train.validate_every=75", "train.schedule.warmup=20"),
)
TEXT = "a b c"
CAPITALS, FOLLOWING = "A B C", "b c d"
"""Its translations."""


def write_pairs(path: Path, capitals: str, following: str) -> Path:
    """Letters, which become capitals in one language, and the letter after each in another one; both by their codes."""
    rows = []
    for first in LETTERS:
        for second in LETTERS:
            for third in LETTERS:
                word = f"{first} {second} {third}"
                rows.append(f"en-{capitals}\t{word}\t{word.upper()}")
                if third in "abc":
                    rows.append(f"en-{following}\t{word}\t{' '.join(chr(ord(letter) + 1) for letter in word.split())}")
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def train(pairs: Path) -> Path:
    """The run of a translator that has learned these pairs, beside their file."""
    run = pairs.parent / "run"
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    ended = call("train", "translate", "--source", pairs, "--out", run, *settings, "--no-tune", "--threads", "1")
    assert ended.code == 0, ended.err
    return run
