"""Sizes that suit the pairs of a translator, with their reasons."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from foveate.config import to_dict
from foveate.data.text import require_lasting
from foveate.data.tokeniser import LanguageTokeniser, SentencePieceConfig, Tokeniser, WordTokeniser
from foveate.errors import DataError
from foveate.metrics.corpus import FOR_CHINESE, FOR_SENTENCES, FOR_SYMBOLS
from foveate.suggestion import counted
from foveate.tasks.run_plan import SAMPLE, Allowance, Reason, Suggestion, beginning, training_table, with_others
from foveate.tasks.translate.pair import DataConfig
from foveate.tasks.translate.task import Forerunner, TranslateConfig

SIDES = ("source", "target")
LONGEST = 2_000
"""Longer lines, in tokens, are not allowed for: an attention over them would need much memory."""
FEW_SYMBOLS = 256
"""A side with this many different words or fewer is written in symbols, like phones, not in words."""


@dataclass(frozen=True)
class _Side:
    words_per_line: float
    characters_per_line: float
    different_words: int
    most_words: int
    most_characters: int

    @property
    def single_words(self) -> bool:
        return self.words_per_line < 1.5

    @property
    def symbols(self) -> bool:
        return self.different_words <= FEW_SYMBOLS and not self.single_words


def suggest(config: TranslateConfig, allowance: Allowance) -> Suggestion:
    """Choose tokenisers, model, batches and steps for the pairs. Raises DataError if there are none."""
    source = config.data.source
    require_lasting(source, config.data.target)
    pairs = config.data.read(source, config.data.target)
    sample = [(pair.source, pair.target) for pair in islice(pairs, SAMPLE)]
    total = len(sample) + sum(1 for _ in pairs)
    if not sample:
        raise DataError(f"{source} has no lines. Give a file with pairs to learn from.")
    sides = (_side([one for one, _ in sample]), _side([other for _, other in sample]))
    if config.initialise_from is not None:
        forerunner = Forerunner.load(config.initialise_from)
        begun = str(config.initialise_from)
        if config.new_vocabulary:
            return with_others(lambda allowance: _carried_over(forerunner, begun, sides, total, allowance), allowance)
        return with_others(lambda allowance: _continued(forerunner, begun, sides, total, allowance), allowance)
    return with_others(lambda allowance: _suggested(sides, total, allowance), allowance)


def learnt_sizes(config: TranslateConfig) -> tuple[int | None, int | None]:
    """The sizes of the vocabularies that tokenisers of words and characters learn from the first pairs of the data.

    None where the configuration has the size, or there are no data to read.
    """
    joint, source, target = config.joint_vocabulary, config.source_tokeniser, config.target_tokeniser
    open_ended = [one for one in (source, target) if getattr(one, "vocab_size", None) is None]
    data = config.data
    pairs = beginning(data.source, lambda path: data.read(path, data.target)) if open_ended else []
    if not pairs:
        return None, None
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    sizes = [
        one.train(texts).vocab_size if one in open_ended else None
        for one, texts in ((source, sources + targets if joint else sources), (target, targets))
    ]
    return sizes[0], sizes[0] if joint else sizes[1]


def _suggested(sides: tuple[_Side, _Side], total: int, allowance: Allowance) -> Suggestion:
    tokenisers = [_tokeniser(side, total, allowance.tier) for side in sides]
    facts = _facts(sides, total)
    named = zip(SIDES, tokenisers, strict=True)
    reasons = [Reason(name, why, (f"{name}_tokeniser", "joint_vocabulary")) for name, (_, why) in named]
    chosen = _model(total, allowance.tier, short=sides[0].single_words)
    longest = max(_longest(side, each[0]["kind"]) for side, each in zip(sides, tokenisers, strict=True))
    max_tokens = max(chosen.max_tokens, 2 * longest)
    # An epoch is about total · 40 / max_tokens steps for sentences: some 30 epochs for small data, 10 for large.
    steps = min(max(total // 5, 2_000), 50_000) * 4096 // max_tokens
    steps = allowance.steps(steps, pace=chosen.pace)
    return Suggestion(
        {
            "source_tokeniser": tokenisers[0][0],
            "target_tokeniser": tokenisers[1][0],
            "model": chosen.model,
            "data": {"max_length": longest, "max_tokens": max_tokens},
            "train": training_table(steps, rate=chosen.learning_rate, warmup=400, interval=100, patience=5),
        },
        facts,
        (*reasons, Reason("model", f"{chosen.why}, {allowance}")),
        lengths=tuple(_tokens(side, tokeniser[0]["kind"]) for side, tokeniser in zip(sides, tokenisers, strict=True)),
    )


def _facts(sides: tuple[_Side, _Side], total: int) -> str:
    return (
        f"{counted(total, 'pair')}; a source line has {sides[0].words_per_line:.1f} words and "
        f"{sides[0].characters_per_line:.0f} characters, a target line {sides[1].words_per_line:.1f} and "
        f"{sides[1].characters_per_line:.0f}."
    )


def _continued(
    forerunner: Forerunner, name: str, sides: tuple[_Side, _Side], total: int, allowance: Allowance
) -> Suggestion:
    """Sizes for training a translator further on other data: a low rate and few steps keep its abilities."""
    pace = 0.05e-6 * forerunner.parameters  # of a batch of 2,048 tokens
    steps = allowance.steps(min(max(total // 10, 300), 20_000), pace=pace)
    ours = to_dict(forerunner.config)
    taken = ("source_tokeniser", "target_tokeniser", "joint_vocabulary", "model", "guide", "decode", "label_smoothing")
    return Suggestion(
        {
            **{part: ours[part] for part in taken},
            "initialise_from": name,
            "data": {"max_length": forerunner.config.data.max_length, "max_tokens": 2048},
            "train": training_table(steps, rate=2e-4, warmup=100, interval=20, patience=5),
        },
        _facts(sides, total),
        (Reason("source", "", ("source_tokeniser",)), Reason("target", "", ("target_tokeniser",)), Reason("model", "")),
        lengths=tuple(_tokens(side, "sentencepiece") for side in sides),
    )


def _carried_over(
    forerunner: Forerunner, name: str, sides: tuple[_Side, _Side], total: int, allowance: Allowance
) -> Suggestion:
    """Sizes for another vocabulary, such as that of another language: a rate and steps almost as from scratch."""
    like = _continued(forerunner, name, sides, total, allowance)
    earlier = (forerunner.config.source_tokeniser, forerunner.config.target_tokeniser)
    joint = forerunner.config.joint_vocabulary
    tokenisers = [
        _subwords(total, tier=1) if isinstance(one, SentencePieceConfig) else _tokeniser(side, total, tier=1)
        for one, side in zip((earlier[0], earlier[0] if joint else earlier[1]), sides, strict=True)
    ]
    reasons = [Reason(name, why, (f"{name}_tokeniser",)) for name, (_, why) in zip(SIDES, tokenisers, strict=True)]
    if joint:
        reasons = [replace(reasons[0], why=f"{reasons[0].why}, for both sides")]
    steps = allowance.steps(min(max(total // 5, 2_000), 50_000), pace=0.1e-6 * forerunner.parameters)
    return replace(
        like,
        settings={
            **like.settings,
            "new_vocabulary": True,
            "source_tokeniser": tokenisers[0][0],
            "target_tokeniser": tokenisers[1][0],
            "data": {**like.settings["data"], "max_tokens": 4096},
            "train": training_table(steps, rate=1e-3, warmup=400, interval=100, patience=5),
        },
        reasons=(*reasons, Reason("model", "")),
        lengths=tuple(_tokens(side, each[0]["kind"]) for side, each in zip(sides, tokenisers, strict=True)),
    )


def _tokens(side: _Side, kind: str) -> int:
    """Tokens of a usual line: a word is about 1.7 subwords of a small vocabulary."""
    if kind == "character":
        return max(round(side.characters_per_line), 1)
    return max(round(side.words_per_line * (1.7 if kind == "sentencepiece" else 1)), 1)


def _longest(side: _Side, kind: str) -> int:
    """The longest line that is kept, in tokens with its end: all of usual texts."""
    tokens = {"character": side.most_characters, "word": side.most_words}
    estimate = tokens.get(kind, max(side.most_words, side.most_characters // 2))
    return min(max(estimate + 1, DataConfig.max_length), LONGEST)


def _side(lines: list[str]) -> _Side:
    words = Counter(word for line in lines for word in line.split())
    count = max(len(lines), 1)
    most_words, most_characters = max(len(line.split()) for line in lines), max(map(len, lines))
    return _Side(words.total() / count, sum(map(len, lines)) / count, len(words), most_words, most_characters)


def _tokeniser(side: _Side, total: int, tier: int) -> tuple[dict[str, Any], str]:
    if side.single_words:
        return {"kind": "character"}, "single words, so characters"
    if side.symbols:
        return {"kind": "word"}, f"{side.different_words} different words or symbols, so one token each"
    if total < 2_000:
        return {"kind": "character"}, "too few pairs to learn subwords from, so characters"
    return _subwords(total, tier)


def _subwords(total: int, tier: int) -> tuple[dict[str, Any], str]:
    size = 8_000 if total >= 50_000 else 4_000 if total >= 10_000 else 2_000
    size = size if tier else min(size, 4_000 if total >= 50_000 else 2_000)  # a vocabulary is most of a small model
    return {"kind": "sentencepiece", "vocab_size": size}, f"sentences, so {size:,} subwords"


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    """A model, its batches, and the seconds of one core that a step takes."""

    model: dict[str, Any]
    why: str
    pace: float
    max_tokens: int = 4096
    learning_rate: float = 1e-3


def _model(total: int, tier: int, *, short: bool) -> _Chosen:
    if short:
        sizes, pace = ((64, 128, 128), 0.10) if tier == 0 else ((128, 256, 256), 0.31)
        why = "short inputs, so a small bidirectional GRU with additive attention"
        return _Chosen(model=_bahdanau(*sizes), why=why, pace=pace)
    few = total < 20_000
    if tier == 0:
        # Small batches and a high rate: most is learnt from few tokens.
        model = _bahdanau(128, 128, 128, dropout=0.3 if few else 0.1)
        why = "a bidirectional GRU with additive attention, 128 wide"
        return _Chosen(
            model=model, why=why, pace=0.14 if total >= 50_000 else 0.11, max_tokens=2048, learning_rate=2e-3
        )
    if few and tier == 1:
        why = "few sentences, so a bidirectional GRU with additive attention, 256 wide"
        return _Chosen(model={"kind": "bahdanau", "dropout": 0.3}, why=why, pace=0.5)
    if tier == 1 or few:
        block = {"dropout": 0.3} if few else {}
        why = "a Transformer, 3 + 3 layers, 256 wide"
        return _Chosen(
            model={"kind": "transformer", **({"block": {**_BLOCK, **block}} if few else {})}, why=why, pace=0.8
        )
    wide = {**_BLOCK, "model_dim": 512, "feedforward_dim": 2048, "dropout": 0.1 if total >= 100_000 else 0.2}
    model = {"kind": "transformer", "block": wide, "encoder_layers": 4, "decoder_layers": 4}
    return _Chosen(model=model, why="a Transformer, 4 + 4 layers, 512 wide", pace=3.0, learning_rate=7e-4)


_BLOCK = {"model_dim": 256, "num_heads": 8, "feedforward_dim": 1024, "norm": "pre"}


def _bahdanau(embedding: int, hidden: int, maxout: int, **more: Any) -> dict[str, Any]:
    sizes = {"embedding_dim": embedding, "hidden_dim": hidden, "maxout_dim": maxout}
    return {"kind": "bahdanau", **sizes, **more}


def suitable_metrics(target: Tokeniser, language: str | None = None) -> tuple[str, ...]:
    """Error rates for a model that writes symbols, such as phones; BLEU, chrF and TER for one that writes sentences.
    Chinese (`zh`) has BLEU of characters.
    """
    if language == "zh":
        return FOR_CHINESE
    if isinstance(target, LanguageTokeniser):
        target = target.inner
    symbols = isinstance(target, WordTokeniser) and target.vocab_size <= FEW_SYMBOLS
    return FOR_SYMBOLS if symbols else FOR_SENTENCES
