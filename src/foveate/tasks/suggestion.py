"""Sensible sizes from a look at the data, with the reasons said: what `foveate train` uses without a configuration."""

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any

from foveate.data.text import require_lasting
from foveate.errors import DataError
from foveate.suggestion import counted
from foveate.tasks.translate import TranslateConfig

SAMPLE = 20_000
"""Pairs that are looked at closely; the rest is only counted."""
FEW_SYMBOLS = 256
"""A side with this many different words or fewer is written in symbols, like phones, not in words."""


@dataclass(frozen=True)
class Reason:
    """Why some settings are as they are."""

    name: str
    why: str
    paths: tuple[str, ...] = ()
    """The settings, or tables of them; by default the one of this name."""

    @property
    def about(self) -> tuple[str, ...]:
        return self.paths or (self.name,)


@dataclass(frozen=True)
class Suggestion:
    """Settings for a configuration, and why."""

    settings: dict[str, Any]
    facts: str
    """What the data are."""
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class _Side:
    words_per_line: float
    characters_per_line: float
    different_words: int

    @property
    def single_words(self) -> bool:
        return self.words_per_line < 1.5

    @property
    def symbols(self) -> bool:
        return self.different_words <= FEW_SYMBOLS and not self.single_words


def suggest(config: TranslateConfig) -> Suggestion:
    """Look at the pairs and choose tokenisers, model, batches and steps. Raises DataError when there are no pairs."""
    source = config.data.source
    require_lasting(source, config.data.target)
    pairs = config.data.read(source, config.data.target)
    sample = [(pair.source, pair.target) for pair in islice(pairs, SAMPLE)]
    total = len(sample) + sum(1 for _ in pairs)
    if not sample:
        raise DataError(f"{source} has no lines. Give a file with pairs to learn from.")
    sides = (_side([one for one, _ in sample]), _side([other for _, other in sample]))
    tokenisers = [_tokeniser(side, total) for side in sides]
    facts = (
        f"{counted(total, 'pair')}; a source line has {sides[0].words_per_line:.1f} words and "
        f"{sides[0].characters_per_line:.0f} characters, a target line {sides[1].words_per_line:.1f} and "
        f"{sides[1].characters_per_line:.0f}."
    )
    named = zip(("source", "target"), tokenisers, strict=True)
    reasons = [Reason(name, why, (f"{name}_tokeniser", "joint_vocabulary")) for name, (_, why) in named]
    model, why = _model(total, short=sides[0].single_words)
    return Suggestion(
        {
            "source_tokeniser": tokenisers[0][0],
            "target_tokeniser": tokenisers[1][0],
            "model": model,
            "train": _training(total),
        },
        facts,
        (*reasons, Reason("model", why)),
    )


def _side(lines: list[str]) -> _Side:
    words = Counter(word for line in lines for word in line.split())
    count = max(len(lines), 1)
    return _Side(words.total() / count, sum(map(len, lines)) / count, len(words))


def _tokeniser(side: _Side, total: int) -> tuple[dict[str, Any], str]:
    if side.single_words:
        return {"kind": "character"}, "single words, so characters"
    if side.symbols:
        return {"kind": "word"}, f"{side.different_words} different words or symbols, so one token each"
    if total < 2_000:
        return {"kind": "character"}, "too few pairs to learn subwords from, so characters"
    size = 8_000 if total >= 50_000 else 4_000 if total >= 10_000 else 2_000
    return {"kind": "sentencepiece", "vocab_size": size}, f"sentences, so {size:,} subwords"


def _model(total: int, *, short: bool) -> tuple[dict[str, Any], str]:
    if short:
        sizes = {"embedding_dim": 64, "hidden_dim": 128, "maxout_dim": 128}
        return {"kind": "bahdanau", **sizes}, "short inputs, so a small bidirectional GRU with additive attention"
    if total < 20_000:
        return {"kind": "bahdanau", "dropout": 0.3}, "few sentences, so a bidirectional GRU with additive attention"
    return {"kind": "transformer"}, "a Transformer, 3 + 3 layers, 256 wide"


def _training(total: int) -> dict[str, Any]:
    # An epoch is about total · 40 / 4096 steps for sentences: some 30 epochs for small data, 10 for large.
    steps = min(max(total // 5, 2_000), 50_000)
    interval = max(steps // 20, 100)
    return {"steps": steps, "validate_every": interval, "save_every": interval, "patience": 5}
