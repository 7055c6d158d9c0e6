"""Links the words of your own text by an IBM model, for guided attention without links by people.

    python examples/alignment/ibm.py pairs.tsv > pairs.links
    foveate train translate --source pairs.tsv --links pairs.links --out run/

It reads tab-separated pairs with spaces between words, and prints a line such as `0-0 1-2` for each.
"""

import argparse
from collections.abc import Sequence

from foveate.data.text import read_pairs
from foveate.inspect.aligner import align


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", help="tab-separated source and target")
    pairs = [(pair.source.split(), pair.target.split()) for pair in read_pairs(parser.parse_args(argv).pairs)]
    for links in align(pairs, pairs):
        print(" ".join(f"{source}-{target}" for source, target in sorted(links)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
