"""Sensible sizes for a language model from a look at the text, with the reasons said."""

from dataclasses import dataclass
from typing import Any

from foveate.data.text import read_lines, require_lasting
from foveate.errors import DataError
from foveate.suggestion import counted
from foveate.tasks.size import Allowance
from foveate.tasks.suggestion import Reason, Suggestion, with_others
from foveate.tasks.text import TextConfig

MANY_CHARACTERS = 256
"""Beyond these a character is better spelt in pieces."""
LARGE = 20_000_000
"""Characters from which on subwords are worth their vocabulary."""
ENOUGH = 300_000
"""Characters from which on subwords serve a model that fills gaps."""
ROWS_TOKENS = 4096
"""Tokens of a batch."""


def suggest_language_model(data: TextConfig, allowance: Allowance) -> Suggestion:
    """Look at the text and choose tokeniser, model and steps. Raises DataError when it is empty."""
    return _suggest(data.text, allowance, masked=False)


def suggest_masked_language_model(data: TextConfig, allowance: Allowance) -> Suggestion:
    """The same for a model that fills gaps, whose tokens should be pieces of words where there is text to learn them
    from: a missing letter is told by its word."""
    return _suggest(data.text, allowance, masked=True)


def _suggest(path: str, allowance: Allowance, *, masked: bool) -> Suggestion:
    require_lasting(path)
    lines, characters, different = 0, 0, set[str]()
    for line in read_lines(path):
        lines, characters = lines + 1, characters + len(line) + 1
        different.update(line)
    if not different:
        raise DataError(f"{path} has no text. Give a file with text to learn from.")
    facts = _Facts(lines, characters, len(different))
    return with_others(lambda allowance: _suggested(facts, allowance, masked=masked), allowance)


@dataclass(frozen=True)
class _Facts:
    lines: int
    characters: int
    different: int


def _suggested(facts: _Facts, allowance: Allowance, *, masked: bool) -> Suggestion:
    lines, characters, different = facts.lines, facts.characters, facts.different
    tokeniser, why, tokens = _tokeniser(characters, different, masked=masked)
    model, about, block, pace = _model(characters, allowance.tier, masked=masked)
    # Some thirty readings of a small text, few of a large one; each step reads about ROWS_TOKENS tokens.
    steps = allowance.steps(min(max(30 * tokens // ROWS_TOKENS, 1_000), 20_000), pace=pace)
    interval = max(steps // 20, 50)
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
        f"{counted(lines, 'line')}, {counted(characters, 'character')} ({different:,} different).",
        (
            Reason("tokeniser", why),
            Reason("model", f"{about}, {allowance}; it reads {block} tokens at once", ("model", "data.block_length")),
        ),
        allowance.size,
    )


def _tokeniser(characters: int, different: int, *, masked: bool) -> tuple[dict[str, Any], str, int]:
    """With the tokens that it will make of the text, about."""
    if characters >= LARGE or (masked and characters >= ENOUGH):
        size = 8_000 if characters >= LARGE else 4_000
        return {"kind": "sentencepiece", "vocab_size": size}, f"enough text for {size:,} subwords", characters // 4
    if different > MANY_CHARACTERS:
        return {"kind": "byte"}, f"{different:,} different characters, so bytes", characters
    return {"kind": "character"}, f"{different} different characters, so one token each", characters


def _model(characters: int, tier: int, *, masked: bool) -> tuple[dict[str, Any], str, int, float]:
    """With the block and the seconds of one core that a step takes."""
    layers, width, block, dropped, pace = 2, 128, 128, 0.2, 0.17
    if characters >= 500_000:
        layers, width, block, dropped, pace = (4, 128, 256, 0.1, 0.33) if tier == 0 else (4, 256, 256, 0.2, 1.0)
    if characters >= LARGE and tier == 2:
        layers, width, block, dropped, pace = 6, 384, 256, 0.1, 3.0
    sizes = {"model_dim": width, "num_heads": width // 32, "feedforward_dim": 4 * width, "dropout": dropped}
    kind, name = ("bert", "BERT") if masked else ("gpt", "GPT")
    return {"kind": kind, "num_layers": layers, "block": sizes}, f"a {name}, {layers} layers, {width} wide", block, pace
