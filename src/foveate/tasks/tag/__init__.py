"""Tag: one label for each word of a sentence, such as its part of speech, or for each frame of a recording."""

import argparse

from foveate.tasks.entry import Entry, Verb, labelled_files


def options(parser: argparse.ArgumentParser) -> None:
    from foveate.tasks.option import corpus_arguments, rate_argument

    parser.add_argument("--columns", action="store_true", help="print a tab-separated line for each word or frame")
    parser.add_argument(
        "--format",
        choices=["audacity", "textgrid", "ctm", "json"],
        help="the label track of a recording: Audacity's (the default), Praat's TextGrid, NIST's CTM, or JSON",
    )
    rate_argument(parser)
    corpus_arguments(parser)


TASK = Entry(
    name="tag",
    home=__name__,
    summary="one label for each word of a sentence, or for each frame of a recording",
    **labelled_files(
        "lines of word/tag, or one word, a tab and its tag on each line (.gz and .xz too); or lines of a "
        "recording, a tab and its label track (Audacity, TextGrid, CTM, HTK)"
    ),
    lengths={"length": "words to tag (default 30)"},
    verb=Verb(
        name="tag",
        summary="label every word, or every frame of a recording, with a trained model",
        run="the run folder, or a model that comes with foveate: us-address",
        input="sentences to tag, or recordings, - for one from standard input; by default the lines of standard input",
        options=options,
        epilog="""
examples:
  foveate tag us-address "1600 Pennsylvania Avenue NW, Washington, DC 20500"      needs no training
  foveate tag run/ "I saw a saw"
  foveate tag run/ < sentences.txt > tagged.txt
  foveate tag run/ "I saw a saw" --columns
  foveate tag phones/ talk.wav --format textgrid > talk.TextGrid
  ffmpeg -i talk.mp4 -f wav - | foveate tag phones/ -

Words are separated by white space: separate punctuation as the training data do. Prints one line for each line of
input; with --columns one line for each word, with its tag and probability, and an empty line after each sentence.

Of a recording, prints one line for each segment: start, end, label, in seconds; with --columns one line for each frame,
with its time, label and probability. Several recordings have a line with # and the name before each.
""",
    ),
)
