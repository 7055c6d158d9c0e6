"""foveate fill"""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foveate.tasks.masked_language_model.use import Filler


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import count, machine_arguments

    parser.epilog = """
examples:
  foveate fill run/ "To be, or not to ___, that is the question"
  foveate fill run/ "To be, or not to ___" --best 5
  foveate fill run/ < texts.txt > filled.txt

A gap is one token of the model: a letter, or a piece of a word. One line of output for each line of input; with --best
a line for each gap follows: its number, then what may stand there, each after its probability, with tabs between them.
Models of pairs, and BERTs of Hugging Face, also read two texts with a tab between them.
"""
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="texts with gaps; by default the lines of standard input"
    )
    parser.add_argument("--best", type=count, metavar="N", help="show the N best for every gap")
    parser.add_argument("--gap", default="___", metavar="TEXT", help="how a gap is written (default ___)")
    parser.add_argument("--look", action="store_true", help="draw what each gap looked at")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.options import chunks
    from foveate.cli.setup import prepare_machine, say
    from foveate.cli.strange import Strangers
    from foveate.cli.voice import shown
    from foveate.errors import UsageError
    from foveate.inspect.alignment import readable
    from foveate.inspect.caption import printable
    from foveate.tasks.masked_language_model.use import Filler

    if not arguments.gap:
        raise UsageError("--gap is what gaps are written as: it cannot be empty.")
    prepare_machine(arguments, quiet=True)
    filler = Filler.load(arguments.run, note=say)
    strangers = Strangers(filler.tokeniser, say)
    for chunk in chunks(arguments.text):
        for text in chunk:
            strangers.note(filler.parts(text, arguments.gap))
            filled = filler.fill(text, best=arguments.best or 1, gap=arguments.gap)
            print(shown(filled.text), flush=True)
            for number, choices in enumerate(filled.choices if arguments.best else (), start=1):
                print(
                    number,
                    *(f"{share:.4f} {printable(readable([piece])[0])}" for piece, share in choices),
                    sep="\t",
                    flush=True,
                )
            if arguments.look:
                _draw(filler, text, arguments.gap)
    return 0


def _draw(filler: "Filler", text: str, gap: str) -> None:
    import shutil

    from foveate.cli.setup import colour_wanted
    from foveate.inspect import terminal

    seen = filler.align(text, gap=gap)
    if seen is not None:
        print(terminal(seen, colour=colour_wanted(), width=shutil.get_terminal_size((100, 40)).columns), flush=True)
