"""Sensible sizes for taggers and classifiers from a look at the data, with the reasons said."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from foveate.data.labelled import LabelledText, read_tagged
from foveate.data.text import require_lasting
from foveate.errors import DataError
from foveate.metrics import marks_spans
from foveate.suggestion import counted
from foveate.tasks.classify.task import ClassifyConfig
from foveate.tasks.size import Allowance
from foveate.tasks.suggestion import SAMPLE, Reason, Suggestion, with_others
from foveate.tasks.tag.task import TagConfig

BATCH = 2048
"""Tokens of a batch."""


def suggest_tagger(config: TagConfig, allowance: Allowance) -> Suggestion:
    """Look at tagged sentences and choose model, measure and steps. Raises DataError when there are none."""
    path = config.data.data
    require_lasting(path)
    sentences, words, tags, different = 0, 0, set[str](), set[str]()
    for sentence in read_tagged(path, columns=config.data.columns):
        sentences, words = sentences + 1, words + len(sentence.words)
        tags.update(sentence.tags)
        different.update(sentence.words)
    if not sentences:
        raise DataError(f"{path} has no tagged sentences. Give a file with sentences to learn from.")
    return with_others(lambda allowance: _tagger(sentences, words, tags, len(different), allowance), allowance)


def _tagger(sentences: int, words: int, tags: set[str], different: int, allowance: Allowance) -> Suggestion:
    layers, size, pace = (2, 128, 0.13) if words >= 200_000 else (1, 128, 0.08) if words >= 50_000 else (1, 64, 0.05)
    if allowance.tier == 2 and words >= 50_000:
        layers, size, pace = 2, 256, 0.4
    measure = "span_f1" if marks_spans(tags) else "accuracy"
    model = {
        "encoder": {"kind": "rnn", "hidden_dim": size, "num_layers": layers},
        "embedding_dim": size,
        "character_dim": size // 2,
    }
    return Suggestion(
        {"model": model, "min_count": 1 if words < 10_000 else 2, "train": _training(words, measure, allowance, pace)},
        f"{counted(sentences, 'sentence')}, {counted(words, 'word')} ({different:,} different), "
        f"{counted(len(tags), 'tag')}.",
        (Reason("model", f"a bidirectional GRU, {layers} × {size} wide, over words and their spellings, {allowance}"),),
        allowance.size,
        lengths=(max(words // sentences, 1),),
    )


def suggest_classifier(config: ClassifyConfig, allowance: Allowance) -> Suggestion:
    """Look at labelled texts and choose tokeniser, model and steps. Raises DataError when there are none."""
    path = config.data.data
    require_lasting(path)
    examples = config.read(path)
    sample = list(islice(examples, SAMPLE))
    total = len(sample) + sum(1 for _ in examples)
    if not sample:
        raise DataError(f"{path} has no labelled texts. Give a file with texts to learn from.")
    return with_others(lambda allowance: _classifier(sample, total, allowance), allowance)


def _classifier(sample: Sequence[LabelledText], total: int, allowance: Allowance) -> Suggestion:
    words = sum(len(one.text.split()) for one in sample) / len(sample)
    tokeniser, why, per_text = _tokeniser(total, words, [one.text for one in sample])
    encoder, about, pace = _encoder(sum(per_text) / len(per_text), allowance.tier)
    longest = max(512, *(length + 2 for length in per_text))
    return Suggestion(
        {
            "tokeniser": tokeniser,
            "model": {"encoder": encoder},
            "data": {"max_length": longest, "max_tokens": max(BATCH, 2 * longest)},
            "train": _training(int(sum(per_text) * total / len(sample)), "accuracy", allowance, pace),
        },
        f"{counted(total, 'text')} of {words:.1f} words, {counted(len({one.label for one in sample}), 'label')}.",
        (Reason("tokeniser", why), Reason("model", f"{about}, and attention that pools, {allowance}")),
        allowance.size,
        lengths=(max(sum(per_text) // len(per_text), 1),),
    )


def _tokeniser(total: int, words: float, texts: list[str]) -> tuple[dict[str, Any], str, list[int]]:
    """With an upper estimate of the tokens of each text."""
    if words < 1.5 or total < 2_000:
        reason = "single words" if words < 1.5 else "too few texts to learn subwords from"
        return {"kind": "character"}, f"{reason}, so characters", [len(text) for text in texts]
    size = 8_000 if total >= 20_000 else 4_000
    lengths = [max(len(text.split()), len(text) // 2) for text in texts]
    return {"kind": "sentencepiece", "vocab_size": size}, f"{size:,} subwords", lengths


def _encoder(tokens: float, tier: int) -> tuple[dict[str, Any], str, float]:
    """With the seconds of one core that a step takes."""
    if tokens <= 150:
        if tier == 2:
            return {"kind": "rnn", "hidden_dim": 256}, "a bidirectional GRU, 256 wide", 0.2
        return {"kind": "rnn"}, "a bidirectional GRU, 128 wide", 0.06
    if tokens <= 600:
        return {"kind": "cnn"}, "texts of some length, so two convolutions, 256 wide", 0.06
    return {"kind": "ran"}, "long texts, so a recurrent attention network, window by window", 0.15


def _training(tokens: int, measure: str, allowance: Allowance, pace: float) -> dict[str, Any]:
    # Some thirty epochs of small data, four or so of a million words.
    epochs = 30 if tokens < 100_000 else 10 if tokens < 1_000_000 else 4
    steps = allowance.steps(min(max(tokens * epochs // BATCH, 400), 20_000), pace=pace)
    interval = max(steps // 20, 50)
    return {
        "steps": steps,
        "learning_rate": 2e-3,
        "schedule": {"kind": "cosine", "warmup": min(200, steps // 10)},
        "validate_every": interval,
        "save_every": interval,
        "metric": measure,
        "better": "higher",
        "patience": 6,
    }
