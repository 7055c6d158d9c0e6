"""Static vectors of words from a text, as in Word2Vec, for comparison with contextual vectors."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.config import require_counts, setting
from foveate.errors import DataError
from foveate.models.skip_gram import SkipGram, SkipGramConfig
from foveate.nn.loss import Loss
from foveate.tasks.run_model import require_seed, seeded

BEGIN, END = "<", ">"
"""Marks of a word's ends: prefixes and suffixes are other n-grams than the same letters inside a word."""


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig:
    """The settings for learning vectors from a text, which the caller splits into words."""

    model: SkipGramConfig = SkipGramConfig()
    window: int = setting(5, "words on each side that are near; each time a number up to it is drawn")
    min_count: int = setting(5, "words seen less often have no vector of their own")
    frequent: float = setting(1e-4, "words more frequent than this share are often passed over")
    buckets: int = setting(0, "vectors that n-grams of letters share; 0: none, and unknown words have no vector")
    grams: tuple[int, int] = setting((3, 5), "lengths of the shortest and the longest n-gram")
    pairs: int = setting(8192, "words that a batch begins with, each with one word near it")
    seed: int = setting(0, "seed of initial weights and of all that is drawn")

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require_counts(self, "window", "min_count", "pairs")
        if self.buckets < 0:
            raise ValueError(f"buckets must be at least 0, got {self.buckets}")
        if not 0 < self.frequent <= 1:
            raise ValueError(f"frequent must be more than 0 and at most 1, got {self.frequent}")
        if not 1 <= self.grams[0] <= self.grams[1]:
            raise ValueError(f"grams must be a shortest and a longest length of at least 1, got {list(self.grams)}")


@dataclass(frozen=True)
class Lexicon:
    """The words with vectors of their own, and the pieces of any word."""

    words: tuple[str, ...]
    """The most frequent ones first."""
    buckets: int
    grams: tuple[int, int]

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def pieces(self, word: str) -> list[int]:
        """The word itself, if it is known, and its n-grams of letters, each in the bucket of its checksum.

        >>> lexicon = Lexicon(("saw",), buckets=10, grams=(3, 3))
        >>> [len(lexicon.pieces(word)) for word in ("saw", "saws", "a")]
        [4, 4, 1]
        """
        known = [self.numbers[word]] if word in self.numbers else []
        return [*known, *(len(self.words) + zlib.crc32(gram.encode()) % self.buckets for gram in self._grams(word))]

    def _grams(self, word: str) -> Iterator[str]:
        marked = f"{BEGIN}{word}{END}"
        for length in range(self.grams[0], self.grams[1] + 1) if self.buckets else ():
            yield from (marked[first : first + length] for first in range(len(marked) - length + 1))


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Words by their pieces, a word near each, and words drawn at random."""

    pieces: Int[Tensor, " all_pieces"]
    starts: Int[Tensor, " pairs"]
    near: Int[Tensor, " pairs"]
    drawn: Int[Tensor, "pairs negatives"]


class WordVectorsTask:
    """A skip-gram with its text, for training. A batch is a pure function of the seed and its number."""

    def __init__(self, config: WordVectorsConfig, sentences: Iterable[Sequence[str]]) -> None:
        """Raises DataError for a text in which no word is frequent enough."""
        rows = [list(sentence) for sentence in sentences]
        counts = Counter(word for sentence in rows for word in sentence)
        words = sorted((word for word in counts if counts[word] >= config.min_count), key=lambda w: (-counts[w], w))
        if len(words) < 2:
            raise DataError(
                f"{len(words)} words occur {config.min_count} times: there is nothing to tell apart. "
                "Give more text, or lower min_count."
            )
        self.config, self.lexicon = config, Lexicon(tuple(words), config.buckets, config.grams)
        known = [[self.lexicon.numbers[word] for word in sentence if word in self.lexicon.numbers] for sentence in rows]
        self.text = np.concatenate([np.array(row, dtype=np.int64) for row in known])
        self.sentence = np.repeat(np.arange(len(known)), [len(row) for row in known])
        shares = np.bincount(self.text) / len(self.text)
        self.kept = np.minimum(np.sqrt(config.frequent / shares), 1.0)
        noise = shares**0.75
        self.noise = np.cumsum(noise / noise.sum())
        self.rows = [np.array(self.lexicon.pieces(word)) for word in words]
        self.model: SkipGram = seeded(lambda: config.model.build(len(words) + config.buckets, len(words)), config.seed)

    @property
    def steps_per_epoch(self) -> int:
        return max(len(self.text) // self.config.pairs, 1)

    def batch(self, step: int) -> PairBatch:
        """Positions drawn from the text; frequent words are often skipped, as words and as neighbours."""
        config, draw = self.config, np.random.default_rng([self.config.seed, step])
        place = draw.integers(len(self.text), size=config.pairs)
        far = draw.integers(1, draw.integers(1, config.window + 1, size=config.pairs) + 1)
        near = place + far * draw.choice([-1, 1], size=config.pairs)
        inside = (near >= 0) & (near < len(self.text))
        near = np.where(inside, near, place)
        inside &= self.sentence[near] == self.sentence[place]
        for side in (place, near):
            inside &= draw.random(config.pairs) < self.kept[self.text[side]]
        # A batch without any pair would have no loss: the first pair stands in, be it a word beside itself.
        inside[0] |= not inside.any()
        words, others = self.text[place[inside]], self.text[near[inside]]
        rows = [self.rows[word] for word in words]
        starts = np.cumsum([0, *map(len, rows)])[:-1]
        drawn = np.searchsorted(self.noise, draw.random((len(words), config.model.negatives)), side="right")
        drawn = np.minimum(drawn, len(self.lexicon.words) - 1)
        return PairBatch(*(torch.from_numpy(part) for part in (np.concatenate(rows), starts, others, drawn)))

    def loss(self, batch: PairBatch) -> Loss:
        return Loss(self.model(batch.pieces, batch.starts, batch.near, batch.drawn), len(batch.near))

    def validate(self) -> dict[str, float]:
        """The loss of pairs of a step that training never reaches."""
        batch = self.batch(1 << 62)
        return {"loss": float(self.loss(batch).total) / len(batch.near)}

    def describe(self, batch: PairBatch) -> str:
        """The first neighbours of a batch."""
        return f"pairs with {', '.join(self.lexicon.words[word] for word in batch.near[:8].tolist())}"

    def vectors(self) -> "WordVectors":
        """The learnt vectors."""
        return WordVectors(self.model, self.lexicon)


class WordVectors:
    """A vector for each word: the same wherever it stands."""

    def __init__(self, model: SkipGram, lexicon: Lexicon) -> None:
        self.model, self.lexicon = model.eval(), lexicon

    @torch.inference_mode()
    def vector(self, word: str) -> Float[Tensor, " dim"]:
        """Raises DataError for an unknown word without pieces."""
        pieces = self.lexicon.pieces(word)
        if not pieces:
            raise DataError(
                f"{word!r} has no vector: it was not seen often enough. Vectors with buckets know any word."
            )
        return self.model.vectors(torch.tensor(pieces), torch.tensor([0]))[0]

    @torch.inference_mode()
    def nearest(self, word: str, count: int = 5) -> list[tuple[str, float]]:
        """The other known words whose vectors point the same way as a word's, with the cosines, the nearest first."""
        cosines = self._directions @ torch.nn.functional.normalize(self.vector(word), dim=0)
        if word in self.lexicon.numbers:
            cosines[self.lexicon.numbers[word]] = -torch.inf
        best = cosines.topk(min(count, len(cosines) - (word in self.lexicon.numbers)))
        return [
            (self.lexicon.words[at], value)
            for at, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    @cached_property
    def _directions(self) -> Float[Tensor, "words dim"]:
        """The vectors of all known words, of length 1."""
        vectors = torch.stack([self.vector(word) for word in self.lexicon.words])
        return torch.nn.functional.normalize(vectors, dim=-1)
