"""Transcribe: the text of recordings, or of any long rows of vectors."""

import argparse

from foveate.tasks.entry import Entry, Verb


def options(parser: argparse.ArgumentParser) -> None:
    from foveate.tasks.option import precision_argument

    parser.add_argument(
        "--words-with-times", action="store_true", help="print a line for each word: word, start, end, tab-separated"
    )
    precision_argument(parser)


TASK = Entry(
    name="transcribe",
    home=__name__,
    summary="text of recordings",
    files={
        "data": "recordings with their texts: a table of path, tab and text",
        "valid_data": "labelled validation examples; by default some training examples are held out",
    },
    tests={"data": "labelled test examples"},
    lengths={
        "source_length": "vectors of a recording (default 500)",
        "target_length": "tokens of its text (default 30)",
    },
    reads_columns=False,
    verb=Verb(
        name="transcribe",
        summary="write down recordings with a trained model",
        input="recordings; by default one recording from standard input",
        placeholder="FILE",
        options=options,
        epilog="""
examples:
  foveate transcribe asr/ one.wav two.flac
  foveate transcribe asr/ one.wav --words-with-times

Prints one line for each file: its text, without the name of the file. With --words-with-times: a line for
each word with its start and end in seconds, tab-separated, and an empty line after each file.
""",
    ),
)
