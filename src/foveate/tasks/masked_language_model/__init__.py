"""Masked language modelling: a text with gaps, each filled from all that stands around it."""

import argparse

from foveate.tasks.entry import Entry, Verb
from foveate.tasks.option import count


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--best", type=count, metavar="N", help="show the N best for every gap")
    parser.add_argument("--gap", default="___", metavar="TEXT", help="how a gap is written (default ___)")
    parser.add_argument("--look", action="store_true", help="draw what each gap looked at")


TASK = Entry(
    name="masked_language_model",
    home=__name__,
    summary="text with gaps",
    files={
        "text": "text to learn from (.gz and .xz too)",
        "valid_text": "validation text; without, the last lines are held out",
    },
    tests={"text": "text to measure language models on"},
    reads_columns=False,
    verb=Verb(
        name="fill",
        summary="fill the gaps of texts with a trained masked language model",
        input="texts with gaps; by default the lines of standard input",
        options=options,
        epilog="""
examples:
  foveate fill run/ "To be, or not to ___, that is the question"
  foveate fill run/ "To be, or not to ___" --best 5
  foveate fill run/ < texts.txt > filled.txt

A gap is one token of the model: a letter, or a piece of a word. One line of output for each line of input; with --best
a line for each gap follows: its number, then what may stand there, each after its probability, with tabs between them.
Models of pairs, and BERTs of Hugging Face, also read two texts with a tab between them.
""",
    ),
)
