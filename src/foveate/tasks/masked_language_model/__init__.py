"""Masked language modelling: the hidden tokens of a text are predicted from the tokens on both sides."""

import argparse

from foveate.tasks.entry import Entry, Verb, text_files


def options(parser: argparse.ArgumentParser) -> None:
    from foveate.tasks.option import corpus_arguments, count

    parser.add_argument("--best", type=count, metavar="N", help="print the N most probable tokens for each gap")
    parser.add_argument("--gap", default="___", metavar="TEXT", help="the text that marks a gap (default ___)")
    parser.add_argument("--look", action="store_true", help="draw the attention of each gap")
    corpus_arguments(parser)


TASK = Entry(
    name="masked_language_model",
    home=__name__,
    summary="fill gaps in a text",
    **text_files(),
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

A gap stands for one token of the model: a letter, or a piece of a word. Prints one line for each line of input; with
--best a line for each gap follows: its number, then tokens that fit, each preceded by its probability, separated by
tabs. Models of text pairs, and BERTs of Hugging Face, also read two texts separated by a tab.
""",
    ),
)
