"""Word alignments from a model's attention to given translations, and their scores against links by people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from foveate.attention import record
from foveate.data.batch import Batch
from foveate.data.batching import groups
from foveate.data.text import Pair
from foveate.data.tokeniser import BOS, EOS
from foveate.errors import DataError
from foveate.inspect.alignment import Alignment
from foveate.inspect.link import require_words, text_spans
from foveate.metrics import Links, Score, link_scores
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.head import choose, crossings
from foveate.tasks.translate.translation_trace import require_alone
from foveate.tasks.translate.use import Translator


@dataclass(frozen=True)
class _Encoded:
    """A pair as tokens, and the spans of its words."""

    number: int
    source: list[int]
    target: list[int]
    spans: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]

    @property
    def size(self) -> int:
        """The number of tokens of both sides with begin and ends."""
        return len(self.source) + len(self.target) + 3


def every_head(translator: Translator) -> list[Head]:
    """All choices for an alignment: each layer's mean and heads, while producing and while consuming."""
    require_alone(translator)
    with torch.inference_mode(), record(translator.model) as recording:
        translator.model(Batch.of([[EOS]]), Batch.of([[BOS, EOS]]))
    layers = [site.shape[1] for site in crossings(recording)]
    choices = [
        (layer, head) for layer, heads in enumerate(layers) for head in (None, *range(heads if heads > 1 else 0))
    ]
    return [Head(layer, head, when) for layer, head in choices for when in ("producing", "consuming")]


def word_alignments(
    translator: Translator, pairs: Sequence[Pair], heads: Sequence[Head] = (Head(),)
) -> list[tuple[Alignment, ...]]:
    """One alignment for each pair and head, between words separated by spaces, without the end symbols.

    Pieces become words by summing over source pieces and averaging over target pieces. Raises DataError for words that
    the tokeniser runs together and for texts longer than the model; UsageError for heads that are not there and for an
    ensemble.
    """
    require_alone(translator)
    encoded = [_encode(translator, pair, number) for number, pair in enumerate(pairs)]
    results: list[tuple[Alignment, ...]] = [()] * len(pairs)
    complete = [row for row in encoded if row.source and row.target and all(row.spans)]
    for group in ([complete[index] for index in part] for part in groups([row.size for row in complete])):
        for row, maps in zip(group, _maps(translator, group, heads), strict=True):
            results[row.number] = tuple(_words(pairs[row.number], row, weights) for weights in maps)
    nothing = tuple(Alignment.of((), (), np.zeros((0, 0))) for _ in heads)
    return [alignments or nothing for alignments in results]


def score_heads(
    translator: Translator, pairs: Sequence[Pair], gold: Sequence[Links], heads: Sequence[Head], *, where: str = "gold"
) -> list[list[Score]]:
    """Alignment error rate, precision and recall of every head's links: each target word's largest weight.

    Raises DataError for a gold link to a word that its pair does not have; `where` names the links' file.
    """
    for number, (pair, links) in enumerate(zip(pairs, gold, strict=True), start=1):
        require_words(links.possible, (pair.source, pair.target), f"{where}:{number}")
    alignments = word_alignments(translator, pairs, heads)
    return [link_scores([each[place].hard() for each in alignments], gold) for place in range(len(heads))]


def best_head(
    translator: Translator, pairs: Sequence[Pair], gold: Sequence[Links], heads: Sequence[Head] | None = None
) -> Head:
    """The head with the smallest error; report its error on other pairs than these."""
    heads = every_head(translator) if heads is None else heads
    scores = score_heads(translator, pairs, gold, heads)
    return heads[min(range(len(heads)), key=lambda place: scores[place][0].value)]


def _encode(translator: Translator, pair: Pair, number: int) -> _Encoded:
    tokenisers = (translator.source_tokeniser, translator.target_tokeniser)
    texts = (pair.source, pair.target)
    source, target = (tokeniser.encode(text) for tokeniser, text in zip(tokenisers, texts, strict=True))
    limit = translator.model.max_length
    if limit is not None and max(len(source), len(target)) + 1 > limit:
        raise DataError(f"Line {pair.line} has more tokens than the model has positions, {limit}. Split it.")
    try:
        left, right = (
            text_spans(tokeniser.pieces(ids), text, tokeniser.num_tags)
            for tokeniser, ids, text in zip(tokenisers, (source, target), texts, strict=True)
        )
    except DataError as error:
        raise DataError(f"Line {pair.line}: {error}") from error
    return _Encoded(number, source, target, (left, right))


@torch.inference_mode()
def _maps(translator: Translator, group: Sequence[_Encoded], heads: Sequence[Head]) -> Iterator[list[np.ndarray]]:
    """For each pair and head, the rows of the target's tokens over the source's tokens."""
    source = Batch.of([[*row.source, EOS] for row in group])
    target = Batch.of([[BOS, *row.target, EOS] for row in group])
    with record(translator.model) as recording:
        translator.model(source, target)
    sites = crossings(recording, (target.length - 1, source.length))
    maps = [choose(sites, head).float().numpy() for head in heads]
    for place, row in enumerate(group):
        yield [
            weights[place, first : first + len(row.target), : len(row.source)]
            for weights, first in zip(maps, (int(head.when == "consuming") for head in heads), strict=True)
        ]


def _words(pair: Pair, row: _Encoded, weights: np.ndarray) -> Alignment:
    """Merge pieces to words; pieces outside of words are left out."""
    columns = np.stack([weights[:, begin:end].sum(1) for begin, end in row.spans[0]], axis=1)
    rows = np.stack([columns[begin:end].mean(0) for begin, end in row.spans[1]])
    return Alignment.of(pair.source.split(), pair.target.split(), rows)
