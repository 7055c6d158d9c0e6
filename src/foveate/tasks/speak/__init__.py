"""Speak: speech for a text, in the voice of the training recordings."""

import argparse

from foveate.tasks.entry import Entry, Verb, labelled_files


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="a WAV file, or for several texts a folder for 1.wav, 2.wav and so on; without it, one text is written to "
        "standard output, for a pipe",
    )


TASK = Entry(
    name="speak",
    home=__name__,
    summary="speech for texts",
    **labelled_files("recordings of one voice with their texts: a table of path, tab and text"),
    lengths={"source_length": "tokens of a text (default 30)", "target_length": "frames of its speech (default 300)"},
    reads_columns=False,
    verb=Verb(
        name="speak",
        summary="speak texts with a trained model",
        input="texts to speak; by default the lines of standard input",
        options=options,
        epilog="""
examples:
  foveate speak voice/ "seven three one" --out answer.wav
  foveate speak voice/ "seven three one" | aplay
  foveate speak voice/ --out spoken/ < texts.txt

Prints the name and the length of each file. Frames become sound by the algorithm of
Griffin and Lim, which gives an intelligible, slightly metallic voice.
""",
    ),
)
