"""Made-up batches of a configured size, one function for each task: what `plan` measures a step with."""

from collections.abc import Iterator

import torch

from foveate.data.batch import Batch
from foveate.data.labelled import Tagged
from foveate.data.tokeniser import SPECIALS, ByteConfig, TokeniserConfig
from foveate.data.word import WordBatch
from foveate.errors import UsageError
from foveate.models import Seq2Seq
from foveate.nn.loss import cross_entropy
from foveate.tasks.classify.task import ClassifyConfig
from foveate.tasks.language_model.task import LanguageModelTask, LanguageModelTaskConfig
from foveate.tasks.masked_language_model.task import (
    GapBatch,
    MaskedLanguageModelConfig,
    MaskedLanguageModelTask,
    gap_logits,
)
from foveate.tasks.plan import Probe
from foveate.tasks.tag.task import TagConfig, Vocabulary
from foveate.tasks.translate.task import TranslateConfig, build_model

VOCABULARY = 8000
"""Assumed where a tokeniser takes its size from the data."""
LABELS = 10
"""Assumed: how many there are is for the data to say."""


def translation_probe(config: TranslateConfig, *, lengths: tuple[int, int], vocab: int | None = None) -> Probe:
    """Pairs of the given lengths, as many as the token budget allows.

    Raises UsageError when the model has too few positions for these lengths, or a vocabulary has no room for text.
    """
    sides = (config.source_tokeniser, config.source_tokeniser if config.joint_vocabulary else config.target_tokeniser)
    sizes = [vocabulary(side, vocab) for side in sides]
    model = build_model(config, *sizes)
    _require_fit(model.max_length, max(lengths[0], lengths[1] + 1), "--source-length and --target-length")
    rows = max(config.data.max_tokens // sum(lengths), 1)
    source, target = made_up(rows, lengths[0], sizes[0]), made_up(rows, lengths[1] + 1, sizes[1])
    return Probe(
        model=model,
        loss=lambda: cross_entropy(model(source, target), Seq2Seq.predicted(target)),
        vocabulary=f"vocabularies {sizes[0]:,} and {sizes[1]:,}",
        batch=f"{rows} pairs of {lengths[0]} and {lengths[1]} tokens",
        tokens=rows * lengths[1],
        unit="target tokens",
    )


def language_model_probe(config: LanguageModelTaskConfig, *, vocab: int | None = None) -> Probe:
    """Rows of the text's blocks."""
    size, rows, length = vocabulary(config.tokeniser, vocab), config.data.rows, config.data.block_length
    model, text = LanguageModelTask.initial(config, size), made_up(rows, length + 1, size)
    return Probe(
        model=model,
        loss=lambda: model.loss(text),
        vocabulary=f"a vocabulary of {size:,}",
        batch=f"{rows} rows of {length} tokens",
        tokens=rows * length,
        unit="tokens",
    )


def masked_language_model_probe(config: MaskedLanguageModelConfig, *, vocab: int | None = None) -> Probe:
    """Rows of the text's blocks, with gaps."""
    size, rows, length = vocabulary(config.tokeniser, vocab), config.data.rows, config.data.block_length
    model = MaskedLanguageModelTask.initial(config, size)
    text = made_up(rows, length, size).ids.numpy()
    batch = GapBatch.of(list(text), vocab_size=size, config=config.gaps, seed=(config.seed,))
    return Probe(
        model=model,
        loss=lambda: cross_entropy(gap_logits(model, batch), batch.answer),
        vocabulary=f"a vocabulary of {size:,} and the gap",
        batch=f"{rows} rows of {length} tokens with {len(batch.answer):,} gaps",
        tokens=rows * length,
        unit="tokens",
    )


def tag_probe(config: TagConfig, *, length: int, vocab: int | None = None) -> Probe:
    """Sentences of so many made-up words, as many as the token budget allows.

    Raises UsageError when the model has too few positions.
    """
    size = vocabulary(config, vocab)

    def sentences() -> Iterator[Tagged]:
        for number in range(size - len(SPECIALS)):
            word, label = _word(number), f"label {number % LABELS}"
            yield Tagged(number, (word,) * config.min_count, (label,) * config.min_count)

    known = Vocabulary.of(sentences, config)
    model = known.model(config)
    drawn = made_up(max(config.data.max_tokens // length, 1), length, size).ids - len(SPECIALS)
    texts = [[_word(number) for number in row] for row in drawn.tolist()]
    _require_fit(model.max_length, max(map(known.length, texts)), "--length")
    different, places = drawn.unique(return_inverse=True)
    batch = WordBatch.of(list(places.numpy()), [known.form(_word(number)) for number in different.tolist()])
    labels = torch.randint(LABELS, (drawn.numel(),), generator=torch.Generator().manual_seed(0))
    return Probe(
        model=model,
        loss=lambda: cross_entropy(model(batch), labels),
        vocabulary=f"{size:,} words and {LABELS} labels",
        batch=f"{len(drawn)} sentences of {length} words",
        tokens=drawn.numel(),
        unit="words",
    )


def classify_probe(config: ClassifyConfig, *, length: int, vocab: int | None = None) -> Probe:
    """Texts of so many tokens, as many as the token budget allows. Raises UsageError for too few positions."""
    size = vocabulary(config.tokeniser, vocab)
    model = config.classifier(size, LABELS)
    _require_fit(model.max_length, length, "--length")
    texts = made_up(max(config.data.max_tokens // length, 1), length, size)
    labels = torch.randint(LABELS, (texts.size,), generator=torch.Generator().manual_seed(0))
    return Probe(
        model=model,
        loss=lambda: cross_entropy(model(texts), labels),
        vocabulary=f"a vocabulary of {size:,} and {LABELS} labels",
        batch=f"{texts.size} texts of {length} tokens",
        tokens=texts.num_tokens,
        unit="tokens",
    )


def vocabulary(tokeniser: TokeniserConfig | TagConfig, given: int | None = None) -> int:
    """How many tokens a tokeniser will know, as far as its configuration says. Raises UsageError without room."""
    fixed = ByteConfig().train([]).vocab_size if isinstance(tokeniser, ByteConfig) else None
    size = fixed or getattr(tokeniser, "vocab_size", None) or given or VOCABULARY
    if size <= len(SPECIALS):
        raise UsageError(
            f"A vocabulary of {size} has no room for text beside the {len(SPECIALS)} special tokens. Raise --vocab."
        )
    return int(size)


def made_up(rows: int, length: int, vocab: int) -> Batch:
    """Random text without padding, the same every time."""
    ids = torch.randint(len(SPECIALS), vocab, (rows, length), generator=torch.Generator().manual_seed(0))
    return Batch(ids, torch.full((rows,), length), rows * length)


def _word(number: int) -> str:
    """Some letters, as many as words have."""
    return "".join(chr(ord("a") + number // 26**place % 26) for place in range(5))


def _require_fit(positions: int | None, longest: int, options: str) -> None:
    if positions is not None and longest > positions:
        raise UsageError(
            f"The model has {positions} positions, the batch needs {longest}. Raise max_length, of "
            f"the model's positions or attention, or plan for less with {options}."
        )
