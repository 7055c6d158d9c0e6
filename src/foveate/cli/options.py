"""Options that several commands take. No torch here: `--help` has to be quick."""

import argparse
from collections.abc import Iterator

CHUNK = 512
"""Lines that are read before they are worked on: enough to batch, few enough to pipe."""


def count(text: str) -> int:
    """The type of an argument that says how many."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def machine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads", type=count, metavar="N", help="threads for tensor arithmetic; by default all cores"
    )
    parser.add_argument(
        "--no-tune", action="store_true", help="do not measure and turn on this machine's fast switches"
    )


def decode_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--precision",
        choices=["float32", "bfloat16"],
        default="float32",
        help="bfloat16: weights of half the size, faster on machines that know it, scores a little less exact",
    )
    parser.add_argument("--beam", type=count, metavar="N", help="hypotheses kept side by side; 1 is greedy")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="A=B",
        help="one setting of decoding, for example length_penalty.alpha=0.6, no_repeat_ngram=3 or kind=sample",
    )


def head_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--layer", type=int, metavar="N", help="layer to show, from 0; by default the one before the last"
    )
    parser.add_argument("--head", type=int, metavar="N", help="head to show, from 0; by default the mean of all")
    parser.add_argument(
        "--when",
        choices=["producing", "consuming"],
        help="show what was looked at to produce a word, or with it as the decoder's next input. Without --layer, "
        "--head and --when: what the model was trained or chosen to align with",
    )


def chunks(texts: list[str]) -> Iterator[list[str]]:
    """The texts of the command line, or the lines of standard input, some at a time."""
    from foveate.data.text import read_lines

    chunk: list[str] = []
    for text in texts or read_lines("-"):
        chunk.append(text)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
