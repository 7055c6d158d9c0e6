"""Classify: one label for a whole text, a picture, a recording or a sequence of vectors."""

import argparse

from foveate.tasks.entry import Entry, Verb, labelled_files


def options(parser: argparse.ArgumentParser) -> None:
    from foveate.tasks.option import corpus_arguments, rate_argument

    parser.add_argument("--probabilities", action="store_true", help="print the probability of each label")
    parser.add_argument("--look", action="store_true", help="draw the weights of attention pooling")
    rate_argument(parser)
    corpus_arguments(parser)


TASK = Entry(
    name="classify",
    home=__name__,
    summary="one label for each text, picture, recording or sequence of vectors",
    **labelled_files(
        "lines of text, tab and label (.gz and .xz too); lines of a picture, a recording or an .npy file of "
        "vectors, tab and label; .npz with arrays inputs and labels, or x and y of pictures; an IDX file of pictures; "
        "or a folder with one folder of pictures or recordings for each label"
    ),
    lengths={"length": "tokens to classify (default 30)"},
    verb=Verb(
        name="classify",
        summary="label texts with a trained model",
        input="texts to classify, or files such as those of training, - for a recording from standard input; by "
        "default the lines of standard input",
        options=options,
        epilog="""
examples:
  foveate classify run/ "Im Anfang war das Wort"
  foveate classify run/ "Im Anfang war das Wort" --probabilities --look
  foveate classify run/ < texts.txt > labels.txt
  foveate classify shapes/ picture.png vectors.npz
  foveate classify languages/ talk.wav talk.wav:12.5-20
  ffmpeg -i talk.mp4 -f wav - | foveate classify languages/ -

Prints one line for each input: its label, or with --probabilities all labels, each preceded by its probability; an
empty line for a file that cannot be read.
A model of text pairs reads two texts separated by a tab.
""",
    ),
)
