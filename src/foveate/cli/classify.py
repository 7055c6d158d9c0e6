"""foveate classify"""

import argparse

MOST = 6
"""Pieces that are named with their weights: over a long text, no weight is dark enough for a picture."""


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import machine_arguments

    parser.epilog = """
examples:
  foveate classify run/ "Im Anfang war das Wort"
  foveate classify run/ "Im Anfang war das Wort" --probabilities --look
  foveate classify run/ < texts.txt > labels.txt

One line of output for each line of input: the label; with --probabilities all labels, each after its probability.
A model of pairs reads two texts with a tab between them.
"""
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="texts to classify; by default the lines of standard input"
    )
    parser.add_argument("--probabilities", action="store_true", help="how probable each label is")
    parser.add_argument("--look", action="store_true", help="draw where attention pooling looked")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.options import chunks
    from foveate.cli.setup import prepare_machine, say
    from foveate.cli.strange import Strangers
    from foveate.cli.voice import shown
    from foveate.tasks.classify.use import TextClassifier

    prepare_machine(arguments, quiet=True)
    classifier = TextClassifier.load(arguments.run, note=say)
    strangers = Strangers(classifier.tokeniser, say)
    for chunk in chunks(arguments.text):
        strangers.note(chunk)
        for text in classifier.classify(chunk):
            shares = (f"{share:.4f} {label}" for label, share in text.probabilities.items())
            print(shown("\t".join(shares) if arguments.probabilities else text.label), flush=True)
            if arguments.look and text.label:
                import shutil

                from foveate.cli.setup import colour_wanted
                from foveate.inspect import terminal
                from foveate.inspect.alignment import readable
                from foveate.inspect.caption import printable

                width = shutil.get_terminal_size((100, 40)).columns
                seen = classifier.align(text.text)
                print(terminal(seen, colour=colour_wanted(), width=width))
                most = sorted(
                    zip(seen.weights[0].tolist(), readable(seen.source), strict=True), key=lambda one: -one[0]
                )[:MOST]
                parts = (f"{printable(piece)} {weight:.3f}" for weight, piece in most)
                print("most:", *parts, "\n", sep="  ", flush=True)
    return 0
