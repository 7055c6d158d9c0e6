"""Language modelling: one text, in which every token is predicted from those before it."""

import argparse

from foveate.tasks.entry import Entry, Verb
from foveate.tasks.option import count, decode_arguments


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=count, default=1, metavar="N", help="continuations of each prompt (default 1)")
    parser.add_argument("--length", type=count, metavar="N", help="tokens to write at most")
    parser.add_argument(
        "--lines", type=count, metavar="N", help="stop after so many lines; by default only at --length"
    )
    decode_arguments(parser)


TASK = Entry(
    name="language_model",
    home=__name__,
    summary="text that goes on",
    files={
        "text": "text to learn from (.gz and .xz too)",
        "valid_text": "validation text; without, the last lines are held out",
    },
    tests={"text": "text to measure language models on"},
    reads_columns=False,
    verb=Verb(
        name="generate",
        summary="go on from a prompt with a trained language model",
        input="texts to go on from; by default the lines of standard input",
        placeholder="PROMPT",
        options=options,
        epilog="""
examples:
  foveate generate run/ "ROMEO:"
  foveate generate run/ "ROMEO:" --count 3 --length 400 --set temperature=0.6 --set seed=7
  foveate generate run/ "It is a truth" --lines 1 --set kind=greedy
  foveate generate run/ < prompts.txt                            a prompt on each line

Prompts are printed with what follows them, one empty line between two.
""",
    ),
)
