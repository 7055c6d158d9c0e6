"""foveate look"""

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import decode_arguments, head_arguments, machine_arguments

    parser.epilog = """
examples:
  foveate look run/ "A man is riding a bicycle ."
  foveate look run/ "A man is riding a bicycle ." --out alignment.svg --words
  foveate look run/ "…" --target "…" --out links.pharaoh

By default the alignment is drawn in the terminal. The ending of --out chooses: .svg .png .txt .pharaoh
"""
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument("text", metavar="TEXT", help="the source text")
    parser.add_argument(
        "--target", metavar="TEXT", help="align with this target instead of the model's own translation"
    )
    parser.add_argument("--out", metavar="FILE", help="write a picture or links instead of drawing in the terminal")
    parser.add_argument("--words", action="store_true", help="merge pieces of words into words")
    decode_arguments(parser)
    head_arguments(parser)
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    import shutil

    from foveate.cli.setup import colour_wanted, decode_config, prepare_machine, say
    from foveate.errors import UsageError
    from foveate.inspect import terminal, write
    from foveate.tasks.translator import Head, Translator

    prepare_machine(arguments, quiet=True)
    translator = Translator.load(arguments.run, precision=arguments.precision, note=say)
    if arguments.target is None:
        (translation,) = translator.translate([arguments.text], config=decode_config(translator.config, arguments))
    else:
        translation = translator.forced(arguments.text, arguments.target)
    if not translation.hypotheses:
        raise UsageError("The text is empty: there is nothing to look at.")
    (alignment,) = translator.align([translation], Head(layer=arguments.layer, head=arguments.head))
    alignment = alignment.words() if arguments.words else alignment
    if arguments.out is None:
        print(terminal(alignment, colour=colour_wanted(), width=shutil.get_terminal_size((100, 40)).columns))
        return 0
    links = str(arguments.out).lower().endswith(".pharaoh")
    say(f"Wrote {write(alignment.without_specials() if links else alignment, arguments.out)}.")
    return 0
