"""Copies a translator, and lets its vocabulary split pieces that the training text hardly has.

    python examples/english_french/rare_pieces.py run/ data/ --out split/

The vocabulary was learnt from the first text. Pieces that are rare in a later one, such as "'{2}'.", have vectors that
were hardly trained, so that the translator cannot copy them. `data/` is what `prepare.py` has written.
"""

import argparse
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from foveate.data.text import read_pairs
from foveate.data.tokeniser import SentencePieceTokeniser, load_tokeniser
from foveate.errors import DataError
from foveate.storage.checkpoint import load_weights, save_final
from foveate.storage.run import create_run, read_run


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a translator")
    parser.add_argument("data", type=Path, help="folder with train.tsv")
    parser.add_argument("--min-count", type=int, default=100, metavar="N", help="how often a piece must occur (100)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the copy")
    arguments = parser.parse_args(argv)
    saved = read_run(arguments.run)
    arguments.out.mkdir(parents=True)
    lines = [*chain.from_iterable((pair.source, pair.target) for pair in read_pairs(arguments.data / "train.tsv"))]
    digests, copies = {}, {}
    for name, digest in saved.tokenisers.items():
        if digest not in copies:
            tokeniser = load_tokeniser(arguments.run / name)
            if not isinstance(tokeniser, SentencePieceTokeniser):
                raise DataError(f"{arguments.run / name} has no pieces of words that could be split.")
            copies[digest] = tokeniser.without_rare_pieces(lines, arguments.min_count)
        copies[digest].save(arguments.out / name)
        digests[name] = copies[digest].digest()
    create_run(arguments.out, saved.task, saved.config, digests)
    tensors, which = load_weights(arguments.run)
    save_final(arguments.out, tensors, {"weights": which})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
