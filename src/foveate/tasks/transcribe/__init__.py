"""Transcribe: the text of recordings, or of any long rows of vectors."""

import argparse

from foveate.tasks.entry import Entry, Verb, labelled_files


def options(parser: argparse.ArgumentParser) -> None:
    from foveate.tasks.option import count, decode_arguments, rate_argument

    parser.add_argument(
        "--words-with-times", action="store_true", help="print a line for each word: word, start, end, tab-separated"
    )
    parser.add_argument(
        "--stream", action="store_true", help="print the text while the sound arrives, as soon as it cannot change"
    )
    parser.add_argument(
        "--format",
        choices=["text", "json", "ctm", "textgrid"],
        help="write the times of words and letters: text draws a bar for each word",
    )
    parser.add_argument("--n-best", type=count, metavar="N", help="print the N best texts with their scores")
    rate_argument(parser)
    decode_arguments(
        parser,
        "beam=8, kind=ctc (joint, beam or greedy), and with kind=joint ctc_weight=0.5",
        "texts that the search keeps at a time",
    )


TASK = Entry(
    name="transcribe",
    home=__name__,
    summary="text of recordings",
    **labelled_files("recordings with their texts: a table of path, tab and text"),
    lengths={
        "source_length": "vectors of a recording (default 500)",
        "target_length": "tokens of its text (default 30)",
    },
    reads_columns=False,
    verb=Verb(
        name="transcribe",
        summary="write down recordings with a trained model",
        input="recordings, folders of recordings, - for the sound of standard input, which is the default",
        placeholder="FILE",
        options=options,
        epilog="""
examples:
  foveate transcribe asr/ one.wav two.flac
  foveate transcribe asr/ one.wav --words-with-times
  foveate transcribe asr/ one.wav --format textgrid > one.TextGrid
  foveate transcribe asr/ one.wav --n-best 4 --beam 8
  foveate transcribe asr/ one.wav --stream --set "visibility=chunk(8, left=4)"
  ffmpeg -i talk.mp4 -f wav - | foveate transcribe asr/
  arecord -f S16_LE -r 16000 -t raw | foveate transcribe asr/ --rate 16000 --stream      a microphone

Prints one line for each file: its text, without the name of the file; an empty line for a file that cannot be read.
With --words-with-times: a line for each word with its start and end in seconds, tab-separated, and an empty line after
each file. With --n-best: number of the file, score and text, tab-separated.
""",
    ),
)
