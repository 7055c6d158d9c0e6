"""BLEU, chrF and TER of translations, by sacrebleu, so that they can be compared with published scores."""

from collections.abc import Sequence
from typing import Any

from foveate.errors import DataError, SetupError, UsageError
from foveate.metrics.named_score import Score, require_pairs


def corpus_bleu(
    hypotheses: Sequence[str], *references: Sequence[str | None], tokenise: str = "13a", lowercase: bool = False
) -> Score:
    """BLEU = brevity penalty · exp(mean of the logs of the 1- to 4-gram precisions), over the whole corpus.

    Each list has a reference for each hypothesis; after the first list, None where there is no other reference.
    `tokenise` is sacrebleu's: 13a, intl, zh, ja-mecab, ko-mecab, char, flores200, none … Give detokenised text.

    >>> print(corpus_bleu(["the cat sat on the mat"], ["the cat sat on a mat"]))
    BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2... = 53.73

    Reference: Papineni et al. 2002; Post 2018 (sacreBLEU). Raises `DataError` for unequal counts or empty references.
    """
    metrics = _sacrebleu()
    names = metrics.BLEU.TOKENIZERS
    if tokenise not in names:
        raise UsageError(f"BLEU: unknown tokeniser {tokenise!r}. Choose one of: {', '.join(names)}.")
    try:
        metric = metrics.BLEU(tokenize=tokenise, lowercase=lowercase)
    except (ImportError, RuntimeError) as error:
        raise SetupError(
            f"BLEU: sacrebleu cannot use its tokeniser {tokenise!r}: {' '.join(str(error).split())}"
        ) from error
    name = "BLEU" if tokenise == "13a" else f"BLEU ({tokenise})"
    return _scored(name, metric, hypotheses, references, higher_is_better=True)


def corpus_chrf(hypotheses: Sequence[str], *references: Sequence[str | None], word_order: int = 0) -> Score:
    """chrF2: the F-score, recall weighing twice, of character n-grams up to 6; chrF2++ with `word_order=2`.

    It does not depend on a tokeniser, and is therefore fairer to languages without spaces or with rich morphology.

    Reference: Popović 2015, 2017. Raises `DataError` for unequal counts or empty references.
    """
    metric = _sacrebleu().CHRF(word_order=word_order)
    return _scored("chrF2" + "+" * word_order, metric, hypotheses, references, higher_is_better=True)


def corpus_ter(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """TER: the edits (insert, delete, replace, move a phrase) that make the hypotheses the references, per 100 words.

    Reference: Snover et al. 2006. Raises `DataError` for unequal counts or empty references.
    """
    return _scored("TER", _sacrebleu().TER(), hypotheses, references, higher_is_better=False)


def _scored(
    name: str,
    metric: Any,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str | None]],
    *,
    higher_is_better: bool,
) -> Score:
    if not references:
        raise DataError(f"{name}: there are no references. Pass one list of lines, or several.")
    for number, stream in enumerate(references):
        require_pairs(name, hypotheses, stream)
        _require_text(name, stream if number else [text or "" for text in stream])
    value = metric.corpus_score(list(hypotheses), [list(stream) for stream in references]).score
    return Score(
        name=name, value=float(value), signature=str(metric.get_signature()), higher_is_better=higher_is_better
    )


def _require_text(name: str, references: Sequence[str | None]) -> None:
    """Raise DataError for an empty reference, which sacrebleu would silently exclude from chrF."""
    empty = [line for line, text in enumerate(references, start=1) if text is not None and not text.strip()]
    if empty:
        lines = ", ".join(str(line) for line in empty[:5]) + (" …" if len(empty) > 5 else "")
        raise DataError(
            f"{name}: {len(empty)} of {len(references)} references are empty (line {lines}). "
            "Remove these lines from the source, the references and the hypotheses."
        )


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError as error:
        raise SetupError("BLEU, chrF and TER need sacrebleu: pip install 'foveate[eval]'") from error
    return metrics
