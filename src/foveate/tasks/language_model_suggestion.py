"""Sensible sizes for a language model from a look at the text, with the reasons said."""

from typing import Any

from foveate.data.text import read_lines, require_lasting
from foveate.errors import DataError
from foveate.suggestion import counted
from foveate.tasks.suggestion import Reason, Suggestion
from foveate.tasks.text import TextConfig

MANY_CHARACTERS = 256
"""Beyond these a character is better spelt in pieces."""
LARGE = 20_000_000
"""Characters from which on subwords are worth their vocabulary."""
ENOUGH = 300_000
"""Characters from which on subwords serve a model that fills gaps."""
ROWS_TOKENS = 4096
"""Tokens of a batch."""


def suggest_language_model(data: TextConfig) -> Suggestion:
    """Look at the text and choose tokeniser, model and steps. Raises DataError when it is empty."""
    return _suggest(data.text, masked=False)


def suggest_masked_language_model(data: TextConfig) -> Suggestion:
    """The same for a model that fills gaps, whose tokens should be pieces of words where there is text to learn them
    from: a missing letter is told by its word."""
    return _suggest(data.text, masked=True)


def _suggest(path: str, *, masked: bool) -> Suggestion:
    require_lasting(path)
    lines, characters, different = 0, 0, set[str]()
    for line in read_lines(path):
        lines, characters = lines + 1, characters + len(line) + 1
        different.update(line)
    if not different:
        raise DataError(f"{path} has no text. Give a file with text to learn from.")
    tokeniser, why, tokens = _tokeniser(characters, len(different), masked=masked)
    model, about, block = _model(characters, masked=masked)
    # Some thirty readings of a small text, few of a large one; each step reads about ROWS_TOKENS tokens.
    steps = min(max(30 * tokens // ROWS_TOKENS, 1_000), 20_000)
    interval = max(steps // 20, 50)
    are = "is" if len(different) == 1 else "are"
    return Suggestion(
        {
            "tokeniser": tokeniser,
            "model": model,
            "data": {"block_length": block, "max_tokens": ROWS_TOKENS},
            "train": {
                "steps": steps,
                "validate_every": interval,
                "save_every": interval,
                "patience": 5,
                "weight_decay": 0.1,
                "schedule": {"kind": "cosine", "warmup": max(steps // 20, 20)},
            },
        },
        f"{counted(lines, 'line')}, {counted(characters, 'character')} of which {len(different):,} {are} different.",
        (
            Reason("tokeniser", why),
            Reason("model", f"{about}; it reads {block} tokens at once", ("model", "data.block_length")),
        ),
    )


def _tokeniser(characters: int, different: int, *, masked: bool) -> tuple[dict[str, Any], str, int]:
    """With the tokens that it will make of the text, about."""
    if characters >= LARGE or (masked and characters >= ENOUGH):
        size = 8_000 if characters >= LARGE else 4_000
        return {"kind": "sentencepiece", "vocab_size": size}, f"enough text for {size:,} subwords", characters // 4
    if different > MANY_CHARACTERS:
        return {"kind": "byte"}, f"{different:,} different characters, so bytes", characters
    return {"kind": "character"}, f"{different} different characters, so one token each", characters


def _model(characters: int, *, masked: bool) -> tuple[dict[str, Any], str, int]:
    layers, width, block, dropped = (2, 128, 128, 0.2) if characters < 500_000 else (4, 256, 256, 0.2)
    if characters >= LARGE:
        layers, width, block, dropped = 6, 384, 256, 0.1
    sizes = {"model_dim": width, "num_heads": width // 32, "feedforward_dim": 4 * width, "dropout": dropped}
    kind, name = ("bert", "BERT") if masked else ("gpt", "GPT")
    return {"kind": kind, "num_layers": layers, "block": sizes}, f"a {name}, {layers} layers, {width} wide", block
