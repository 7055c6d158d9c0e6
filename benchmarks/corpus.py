"""The corpus that every engine gets: real verses, one joint vocabulary, token ids common to all.

python benchmarks/corpus.py examples/data/verses.tsv.xz      # prints its sizes
"""

import argparse
import io
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sentencepiece
from contract import BOS, EOS, PAD, UNKNOWN

VERSES = Path(__file__).parent.parent / "examples" / "data" / "verses.tsv.xz"
COLUMNS = (2, 3)
"""English (World) and French (Segond) of the six-language verses; column 0 is the key."""


@dataclass(frozen=True)
class Corpus:
    """Pairs as ids. Sources are `tokens + EOS`, targets `BOS + tokens + EOS`."""

    sources: list[list[int]]
    targets: list[list[int]]
    vocab: int

    def __len__(self) -> int:
        return len(self.sources)

    def real_targets(self, rows: np.ndarray) -> int:
        """Target tokens to predict, padding and BOS not counted: the unit of throughput."""
        return sum(len(self.targets[row]) - 1 for row in rows)

    def batches(self, *, padded_targets: int = 2048, seed: int = 0, bucketed: bool = True) -> Iterator[np.ndarray]:
        """Row numbers, epoch after epoch without end: at most `padded_targets` target positions with padding.

        Bucketed as fairseq does it: shuffled, sorted by target, then stably by source, cut, and the batches shuffled.
        Only full batches are given, so that all steps are alike.
        """
        random = np.random.default_rng(seed)
        while True:
            order = random.permutation(len(self))
            if bucketed:
                order = order[np.argsort([len(self.targets[row]) for row in order], kind="stable")]
                order = order[np.argsort([len(self.sources[row]) for row in order], kind="stable")]
            batches = list(self._cut(order, padded_targets))
            for batch in random.permutation(len(batches)):
                yield batches[batch]

    def _cut(self, order: np.ndarray, padded_targets: int) -> Iterator[np.ndarray]:
        first, longest = 0, 0
        for last, row in enumerate(order):
            widened = max(longest, len(self.targets[row]) - 1)
            if widened * (last - first + 1) > padded_targets:
                yield order[first:last]
                first, widened = last, len(self.targets[row]) - 1
            longest = widened


def read(path: Path = VERSES, *, columns: Sequence[int] = COLUMNS, vocab: int = 8000) -> Corpus:
    """Two columns of a .tsv or .tsv.xz through one byte-pair vocabulary, trained here on the same lines:
    deterministic, a few seconds."""
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    sides = [[row[column] for row in rows] for column in columns]
    pieces = _train([*sides[0], *sides[1]], vocab)
    sources, targets = (pieces.encode(side) for side in sides)
    return Corpus([[*row, EOS] for row in sources], [[BOS, *row, EOS] for row in targets], vocab)


def _train(lines: list[str], vocab: int) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=vocab,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=UNKNOWN,
        byte_fallback=True,
        num_threads=1,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def describe(corpus: Corpus, batches: list[np.ndarray]) -> str:
    """Lengths, and what padding costs in these batches."""
    lengths = [np.array([len(row) - skip for row in side]) for side, skip in ((corpus.sources, 0), (corpus.targets, 1))]
    quantiles = ["/".join(str(int(q)) for q in np.percentile(side, [5, 50, 95])) for side in lengths]
    shares = [
        1 - sum(int(side[rows].sum()) for rows in batches) / sum(len(rows) * int(side[rows].max()) for rows in batches)
        for side in lengths
    ]
    real = sum(corpus.real_targets(rows) for rows in batches) / len(batches)
    return (
        f"{len(corpus)} pairs, vocabulary {corpus.vocab}; "
        f"tokens (5/50/95 %): source {quantiles[0]}, target {quantiles[1]}; {real:.0f} real target tokens a batch, "
        f"padding {shares[0]:.0%} of source and {shares[1]:.0%} of target positions"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=VERSES)
    parser.add_argument("--columns", nargs=2, type=int, default=COLUMNS)
    arguments = parser.parse_args()
    corpus = read(arguments.path, columns=arguments.columns)
    stream = corpus.batches()
    print(describe(corpus, [next(stream) for _ in range(50)]))
