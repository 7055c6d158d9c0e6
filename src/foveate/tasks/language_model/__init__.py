"""Language modelling: each token of a text is predicted from the tokens before it."""

import argparse

from foveate.tasks.entry import Entry, Verb, text_files


def options(parser: argparse.ArgumentParser) -> None:
    from foveate.tasks.option import count, decode_arguments

    parser.add_argument("--count", type=count, default=1, metavar="N", help="continuations of each prompt (default 1)")
    parser.add_argument("--length", type=count, metavar="N", help="largest number of tokens to generate")
    parser.add_argument(
        "--lines", type=count, metavar="N", help="stop after N lines; by default only --length ends a text"
    )
    decode_arguments(parser)


TASK = Entry(
    name="language_model",
    home=__name__,
    summary="predict the next token of a text",
    **text_files(),
    reads_columns=False,
    verb=Verb(
        name="generate",
        summary="continue prompts with a trained language model",
        input="texts to continue; by default the lines of standard input",
        placeholder="PROMPT",
        options=options,
        epilog="""
examples:
  foveate generate run/ "ROMEO:"
  foveate generate run/ "ROMEO:" --count 3 --length 400 --set temperature=0.6 --set seed=7
  foveate generate run/ "It is a truth" --lines 1 --set kind=greedy
  foveate generate run/ < prompts.txt                            a prompt on each line

Prints each prompt with its continuation, separated by empty lines.
""",
    ),
)
