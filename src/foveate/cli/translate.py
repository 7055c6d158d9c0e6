"""foveate translate"""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foveate.tasks.translator import Translation, Translator


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import count, decode_arguments, head_arguments, machine_arguments

    parser.epilog = """
examples:
  foveate translate en-fr "The black cat is sleeping." --align        needs no training
  foveate translate run/ "A man is riding a bicycle ." --align
  foveate translate run/ < input.txt > output.txt
  foveate translate run/ --n-best 4 --beam 8 < input.txt

One line of output for each line of input; with --n-best: line number, score and text, separated by tabs.
"""
    parser.add_argument("run", metavar="RUN", help="the run folder, or a model that comes with foveate: en-fr")
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="texts to translate; by default the lines of standard input"
    )
    parser.add_argument("--align", action="store_true", help="draw where the model looked")
    parser.add_argument("--n-best", type=count, metavar="N", help="print this many hypotheses with their scores")
    parser.add_argument(
        "--engine",
        choices=["auto", "own", "ctranslate2", "ctranslate2-int8", "onnx"],
        default="auto",
        help="what decodes; auto: the fastest that is exact. ctranslate2-int8 has coarser weights and is fastest",
    )
    decode_arguments(parser)
    head_arguments(parser)
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.options import chunks, require_used
    from foveate.cli.setup import decode_config, prepare_machine, say
    from foveate.tasks.translator import Translator

    if not arguments.align:
        require_used(arguments, dict.fromkeys(("layer", "head", "when"), "--align"), (), "without")
    prepare_machine(arguments, quiet=True)
    translator = Translator.load(arguments.run, precision=arguments.precision, engine=arguments.engine, note=say)
    config = decode_config(translator.config, arguments)
    unfinished, done = 0, 0
    for chunk in chunks(arguments.text):
        for translation in translator.translate(chunk, config=config, first=done):
            done += 1
            unfinished += not translation.finished
            if arguments.n_best:
                for text, hypothesis in zip(translation.texts, translation.hypotheses, strict=True):
                    print(done, f"{hypothesis.score:.4f}", text, sep="\t", flush=True)
            else:
                print(translation.text, flush=True)
            if arguments.align and translation.hypotheses:
                _draw(translator, translation, arguments)
    if unfinished:
        say(f"{unfinished} of {done} translations reached their length limit before an end.")
    return 0


def _draw(translator: "Translator", translation: "Translation", arguments: argparse.Namespace) -> None:
    import shutil

    from foveate.cli.setup import colour_wanted
    from foveate.inspect import terminal
    from foveate.tasks.head import Head

    (alignment,) = translator.align([translation], Head.wanted(arguments.layer, arguments.head, arguments.when))
    width = shutil.get_terminal_size((100, 40)).columns
    print(terminal(alignment, colour=colour_wanted(), width=width), "\n", flush=True)
