"""Caption: a sentence about a picture, and where each of its words looks."""

import argparse

from foveate.tasks.entry import Entry, Verb, labelled_files


def options(parser: argparse.ArgumentParser) -> None:
    from foveate.tasks.option import count, decode_arguments

    parser.add_argument("--n-best", type=count, metavar="N", help="print the N best captions with their scores")
    parser.add_argument(
        "--sample", action="store_true", help="draw the words of the caption; --set seed=3 draws other words"
    )
    parser.add_argument(
        "--glimpses",
        type=int,
        metavar="SEED",
        help="draw the places that hard attention looks at, as in training; by default those with the largest weights",
    )
    decode_arguments(parser)


TASK = Entry(
    name="caption",
    home=__name__,
    summary="captions of pictures",
    **labelled_files(
        "pictures with their captions: a table of path, tab and caption; a picture may have several lines",
        valid="validation captions; by default some training pictures are held out with all their captions",
        test="test pictures with their captions",
    ),
    lengths={
        "source_length": "patches of a picture (default 64)",
        "target_length": "tokens of its caption (default 12)",
    },
    reads_columns=False,
    verb=Verb(
        name="caption",
        summary="describe pictures with a trained model",
        input="pictures, or folders of pictures; by default lines of standard input name them",
        placeholder="FILE",
        options=options,
        epilog="""
examples:
  foveate caption captioner/ one.png two.png
  foveate caption captioner/ one.png --n-best 4 --beam 8
  foveate caption captioner/ one.png --sample --set temperature=0.7
  foveate look captioner/ one.png                            where each word of the caption looks

Prints one line for each picture: its caption. With --n-best: number of the picture, score and caption, tab-separated.
""",
    ),
)
