"""What leaving out padding is worth: an encoder of our own blocks, trained on tokens and on padded sentences.

python benchmarks/packing.py --threads 1                                 # about three minutes
"""

import argparse
import functools
import statistics
import time
from collections.abc import Callable

import ours
import race
import torch
from contract import Size
from corpus import VERSES, Corpus, read
from torch import Tensor, nn

from foveate.attention import Positions
from foveate.nn.packing import Packing
from foveate.nn.transformer_block import EncoderBlock


def encoder(size: Size) -> nn.ModuleList:
    torch.manual_seed(0)
    return nn.ModuleList(EncoderBlock(ours.config(size).block) for _ in range(size.layers)).train()


def step(layers: nn.ModuleList, x: Tensor, lengths: Tensor, packed: bool, precision: str) -> None:
    """Forward and backward over one batch of embedded sentences."""
    packing = Packing(lengths, x.shape[1])
    at = Positions.of(x.shape[1], x.shape[1], key_lengths=lengths)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        hidden = packing.pack(x) if packed else x
        for layer in layers:
            hidden = layer(hidden, at=at, packing=packing if packed else None)
    hidden.float().sum().backward()


def seconds(job: Callable[[], None]) -> float:
    started = time.process_time()
    job()
    return time.process_time() - started


def batches(corpus: Corpus, count: int, bucketed: bool) -> list[Tensor]:
    """The true target lengths of training batches, which are sorted by source first."""
    stream = corpus.batches(padded_targets=2048, bucketed=bucketed)
    return [torch.tensor([len(corpus.targets[row]) for row in next(stream)]) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    size = Size()
    corpus, layers, rows = read(VERSES, vocab=size.vocab), encoder(size), []
    for bucketed in (True, False):
        lengths = batches(corpus, arguments.rounds, bucketed)
        waste = 1 - sum(int(part.sum()) for part in lengths) / sum(len(part) * int(part.max()) for part in lengths)
        for precision in ("float32", "bfloat16"):
            gains = []
            with ours.switches():
                for part in (lengths[0], *lengths):
                    x = torch.randn(len(part), int(part.max()), size.model_dim)
                    padded, packed = (
                        seconds(functools.partial(step, layers, x, part, way, precision)) for way in (False, True)
                    )
                    gains.append(padded / packed)
            name = "buckets" if bucketed else "unsorted"
            rows.append([name, f"{waste:.0%}", precision, f"{statistics.median(gains[1:]):.2f}"])
    print(race.table(["batches", "padding", "precision", "packed × padded"], rows))
    race.save("packing", {"machine": race.machine(arguments.threads), "rows": rows})


if __name__ == "__main__":
    main()
