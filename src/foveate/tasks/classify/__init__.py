"""Classify: one label for a whole text, a picture or a sequence of vectors."""

import argparse

from foveate.tasks.entry import Entry, Verb


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--probabilities", action="store_true", help="how probable each label is")
    parser.add_argument("--look", action="store_true", help="draw where attention pooling looked")


TASK = Entry(
    name="classify",
    home=__name__,
    summary="a label for every text",
    files={
        "data": "text, tab, label (.gz and .xz too); .npz of vectors; or a folder with a folder of pictures a label",
        "valid_data": "labelled validation examples; without, some examples are held out",
    },
    tests={"data": "labelled examples to measure on"},
    lengths={"length": "tokens to classify"},
    verb=Verb(
        name="classify",
        summary="label texts with a trained model",
        input="texts, or files of what was trained on, to classify; by default the lines of standard input",
        options=options,
        epilog="""
examples:
  foveate classify run/ "Im Anfang war das Wort"
  foveate classify run/ "Im Anfang war das Wort" --probabilities --look
  foveate classify run/ < texts.txt > labels.txt
  foveate classify shapes/ picture.png vectors.npz

One line of output for each line of input: the label; with --probabilities all labels, each after its probability.
A model of pairs reads two texts with a tab between them.
""",
    ),
)
