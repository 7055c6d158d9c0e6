"""Tag: one label for each word of a sentence, such as its part of speech."""

import argparse

from foveate.tasks.entry import Entry, Verb


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--columns", action="store_true", help="print a tab-separated line for each word")


TASK = Entry(
    name="tag",
    home=__name__,
    summary="one label for each word of a sentence",
    files={
        "data": "lines of word/tag, or one word, a tab and its tag on each line (.gz and .xz too)",
        "valid_data": "labelled validation examples; by default some training examples are held out",
    },
    tests={"data": "labelled test examples"},
    lengths={"length": "words to tag (default 30)"},
    verb=Verb(
        name="tag",
        summary="label every word with a trained model",
        input="sentences to tag; by default the lines of standard input",
        options=options,
        epilog="""
examples:
  foveate tag run/ "I saw a saw"
  foveate tag run/ < sentences.txt > tagged.txt
  foveate tag run/ "I saw a saw" --columns

Words are separated by white space: separate punctuation as the training data do. Prints one line for each line of
input; with --columns one line for each word, with its tag and probability, and an empty line after each sentence.
""",
    ),
)
