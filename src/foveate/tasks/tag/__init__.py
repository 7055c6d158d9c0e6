"""Tag: a label for every word, from its context. Parts of speech, names, parts of addresses."""

import argparse

from foveate.tasks.entry import Entry, Verb


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--columns", action="store_true", help="a line for each word, with tabs")


TASK = Entry(
    name="tag",
    home=__name__,
    summary="a label for every word",
    files={
        "data": "lines of word/tag, or a word, a tab and its tag a line (.gz and .xz too)",
        "valid_data": "labelled validation examples; without, some examples are held out",
    },
    tests={"data": "labelled examples to measure on"},
    lengths={"length": "words to tag"},
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

Words stand between white space: separate punctuation as the training data do. One line of output for each line of
input; with --columns a line for each word: word, tag and probability, and an empty line after each sentence.
""",
    ),
)
