"""Scores of captions, where a picture may have several references: CIDEr-D, BLEU and chrF."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from foveate.attention.check import require_choice
from foveate.errors import DataError, UsageError
from foveate.metrics.named_score import Score, require_pairs
from foveate.metrics.translation_score import corpus_bleu, corpus_chrf
from foveate.suggestion import counted, did_you_mean

CaptionTokenise = Literal["words", "none"]
_LONGEST, _SIGMA = 4, 6.0
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
_WORD = re.compile(
    r"""-[lr][rsc]b-                            # a bracket
    |n't\b|'(?:s|m|d|ll|re|ve)\b                # the second part of isn't, it's
    |\w+?(?=n't\b)|\w+(?:[-.,&/]\w+)*           # words, also t-shirt and 1.5
    |[^\w\s.?!,:;'"`-]                          # signs, such as % and &""",
    re.VERBOSE,
)
Ngram = tuple[str, ...]


def corpus_cider(
    captions: Sequence[str], references: Sequence[Sequence[str]], *, tokenise: CaptionTokenise = "words"
) -> Score:
    """CIDEr-D = 10 · mean over pictures, references and n = 1 … 4 of
    exp(−(l − l_r)² / 72) · Σ_ω min(g_ω, r_ω) r_ω / (|g| |r|)

    g and r are the tf-idf vectors of the n-grams ω of a caption and of a reference, l and l_r their lengths. The weight
    of an n-gram is its count times the log of the number of pictures by that of the pictures whose references have it,
    so that a score holds for its corpus only. The largest value is 10. Many papers print 100 times as much.

    `references` are those of each picture, one or more. The reference implementation splits captions by the tokeniser
    of the Penn treebank and removes punctuation. `words` follows its rules for small letters, apostrophes, hyphens and
    brackets; `none` splits at white space.

    >>> references = [["a cat on a mat", "a cat"], ["a dog runs"]]
    >>> print(corpus_cider(["A cat.", "a dog"], references))
    CIDEr-D|nrefs:var|tok:words|n:4|sigma:6 = 3.59

    Reference: Vedantam et al. 2015, section 5; sums as in the authors' program. Raises DataError for unequal counts, a
    picture without references, or a single picture, in which no n-gram is rarer than another.
    """
    require_choice("tokenise", tokenise, ("words", "none"))
    if len(captions) == 1 == len(references):
        raise DataError(
            "CIDEr-D: the weights of words come from the references of several pictures, and here is one. Score a file "
            "of captions together."
        )
    values = caption_ciders(captions, references, tokenise=tokenise)
    counts = {len(one) for one in references}
    number = str(*counts) if len(counts) == 1 else "var"
    signature = f"nrefs:{number}|tok:{tokenise}|n:{_LONGEST}|sigma:{_SIGMA:g}"
    return Score(name="CIDEr-D", value=sum(values) / len(values), signature=signature, higher_is_better=True)


def caption_ciders(
    captions: Sequence[str], references: Sequence[Sequence[str]], *, tokenise: CaptionTokenise = "words"
) -> list[float]:
    """The CIDEr-D of each caption, whose mean is that of the corpus."""
    _require_references("CIDEr-D", captions, references)
    split = caption_words if tokenise == "words" else str.split
    counted_references = [[_ngrams(split(text)) for text in texts] for texts in references]
    pictures = Counter(ngram for texts in counted_references for ngram in set().union(*texts))
    every = math.log(len(references))

    def vectors(counts: Counter[Ngram]) -> list[dict[Ngram, float]]:
        weighted: list[dict[Ngram, float]] = [{} for _ in range(_LONGEST)]
        for ngram, count in counts.items():
            weighted[len(ngram) - 1][ngram] = count * (every - math.log(max(pictures[ngram], 1)))
        return weighted

    values = []
    for caption, texts in zip(captions, counted_references, strict=True):
        counts = _ngrams(split(caption))
        ours, total = vectors(counts), 0.0
        for text in texts:
            similar = [_cosine(mine, theirs) for mine, theirs in zip(ours, vectors(text), strict=True)]
            apart = _length(counts) - _length(text)
            total += sum(similar) / _LONGEST * math.exp(-(apart**2) / (2 * _SIGMA**2))
        values.append(10 * total / len(texts))
    return values


def caption_words(caption: str) -> list[str]:
    """The words of a caption in small letters, without punctuation, as the reference implementation splits them.

    >>> caption_words("A man isn't riding the child's T-shirt, is he?")
    ['a', 'man', 'is', "n't", 'riding', 'the', 'child', "'s", 't-shirt', 'is', 'he']
    """
    text = caption.lower().replace("’", "'")
    for bracket, name in _BRACKETS.items():
        text = text.replace(bracket, f" {name} ")
    return _WORD.findall(text)


def _bleu(captions: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    return corpus_bleu(captions, *_streams("BLEU", captions, references))


def _chrf(captions: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    return corpus_chrf(captions, *_streams("chrF2", captions, references))


CAPTION_METRICS: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]]], Score]] = {
    "bleu": _bleu,
    "chrf": _chrf,
    "cider": corpus_cider,
}


def caption_scores(
    captions: Sequence[str], references: Sequence[Sequence[str]], names: Sequence[str] = tuple(CAPTION_METRICS)
) -> list[Score]:
    """The named scores of captions against all references of their pictures. Raises UsageError for an unknown name."""
    require_caption_metrics(names)
    return [CAPTION_METRICS[name](captions, references) for name in names]


def require_caption_metrics(names: Sequence[str]) -> None:
    """Raises UsageError for an unknown name and SetupError for a missing package."""
    for name in names:
        if name not in CAPTION_METRICS:
            raise UsageError(
                f"There is no metric {name!r} of captions.{did_you_mean(name, CAPTION_METRICS)} Choose one of: "
                f"{', '.join(CAPTION_METRICS)}."
            )
        CAPTION_METRICS[name](["a", "b"], [["a"], ["b"]])


def _streams(
    name: str, captions: Sequence[str], references: Sequence[Sequence[str]]
) -> Iterator[tuple[str | None, ...]]:
    """The first references of all pictures, their second references, and so on, with None where there is none."""
    _require_references(name, captions, references)
    return zip_longest(*references)


def _require_references(name: str, captions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    require_pairs(name, captions, references)
    if any(isinstance(texts, str) for texts in references):
        raise DataError(f"{name}: a picture has a list of references, but got a single text. Put it in a list.")
    if bare := [number for number, texts in enumerate(references, start=1) if not texts]:
        raise DataError(f"{name}: {counted(len(bare), 'picture')} without references, such as number {bare[0]}.")


def _ngrams(words: Sequence[str]) -> Counter[Ngram]:
    return Counter(
        tuple(words[start : start + n]) for n in range(1, _LONGEST + 1) for start in range(len(words) - n + 1)
    )


def _length(counts: Counter[Ngram]) -> int:
    """The number of pairs of neighbours, as the authors' program counts: an empty caption is as long as one word."""
    return sum(count for ngram, count in counts.items() if len(ngram) == 2)


def _cosine(ours: dict[Ngram, float], theirs: dict[Ngram, float]) -> float:
    """The cosine of two vectors, to which a repeated n-gram adds no more than it has in the reference."""
    norms = math.hypot(*ours.values()) * math.hypot(*theirs.values())
    product = math.fsum(min(weight, theirs[ngram]) * theirs[ngram] for ngram, weight in ours.items() if ngram in theirs)
    return product / norms if norms else product
