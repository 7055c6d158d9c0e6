"""Prefix search over labelled frames: our kernel, our plain Python and pyctcdecode, and how probable their texts are.

python benchmarks/ctc_search.py                 # about a minute; pip install --no-deps pyctcdecode pygtrie for the peer

Frames are drawn as those of a trained model: mostly blanks, and a quarter of them have a label, clear by some nats.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from unittest import mock

import race
import torch
from torch import Tensor

from foveate import native
from foveate.decode import CTCConfig, best_path, prefix_search
from foveate.nn.ctc_loss import ctc_losses

Search = Callable[[Tensor], tuple[int, ...]]
FIRST = 0x4E00
"""Labels as characters for the peer: each one stands for itself, and none is a space."""


def frames(seed: int, length: int, vocab: int, clear: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(length, vocab, generator=generator)
    logits[:, 0] += 3.0
    places = torch.randperm(length, generator=generator)[: length // 4]
    logits[places, torch.randint(1, vocab, (len(places),), generator=generator)] += clear
    return logits.log_softmax(-1)


def ours(beam: int) -> Search:
    config = CTCConfig(beam=beam)
    return lambda scores: prefix_search(scores[None], torch.tensor([len(scores)]), config)[0][0].tokens


def plain(beam: int) -> Search:
    def search(scores: Tensor) -> tuple[int, ...]:
        with mock.patch.object(native, "load", return_value=native.Kernels(None)):
            return ours(beam)(scores)

    return search


def path(scores: Tensor) -> tuple[int, ...]:
    return best_path(scores[None], torch.tensor([len(scores)]))[0].tokens


def pyctcdecode(beam: int, vocab: int, exact: bool) -> Search | None:
    """The peer with its own pruning, or without any but that of the beam."""
    try:
        from pyctcdecode import build_ctcdecoder
    except ImportError:
        return None
    decoder = build_ctcdecoder(["", *(chr(FIRST + label) for label in range(1, vocab))])
    settings = {"token_min_logp": -1e9, "beam_prune_logp": -1e9} if exact else {}

    def search(scores: Tensor) -> tuple[int, ...]:
        return tuple(ord(label) - FIRST for label in decoder.decode(scores.numpy(), beam_width=beam, **settings))

    return search


def log_probability(scores: Tensor, text: tuple[int, ...]) -> float:
    """The exact log-probability of a text, by the forward algorithm."""
    target = torch.tensor(text, dtype=torch.int64)
    return -ctc_losses(scores[None].double(), torch.tensor([len(scores)]), target, torch.tensor([len(text)])).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beam", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    beam, rows = arguments.beam, []
    for length, vocab, clear in ((125, 60, 6.0), (500, 60, 6.0), (500, 60, 3.0), (125, 1000, 8.0)):
        lattices = [frames(seed, length, vocab, clear) for seed in range(arguments.rounds)]
        searches = {
            "best path": path,
            "foveate": ours(beam),
            "foveate without a compiler": plain(beam),
            "pyctcdecode": pyctcdecode(beam, vocab, exact=False),
            "pyctcdecode, beam alone": pyctcdecode(beam, vocab, exact=True),
        }
        for name, search in searches.items():
            if search is None:
                continue
            search(lattices[0])
            times, likelihoods = [], []
            for scores in lattices:
                started = time.process_time()
                text = search(scores)
                times.append(1000 * (time.process_time() - started))
                likelihoods.append(log_probability(scores, text))
            likelihood = statistics.mean(likelihoods)
            rows.append(
                [f"{length} × {vocab}, {clear:g} nats", name, f"{statistics.median(times):.1f}", f"{likelihood:.2f}"]
            )
    print(race.table(["frames × labels", "search", "CPU ms", "mean log p(text)"], rows))
    race.save("ctc_search", {"machine": race.machine(1), "beam": beam, "rows": rows})


if __name__ == "__main__":
    main()
