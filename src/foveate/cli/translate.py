"""foveate translate"""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foveate.tasks.translate.use import Translation, Translator


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import count, decode_arguments, head_arguments, machine_arguments

    parser.epilog = """
examples:
  foveate translate en-fr "The black cat is sleeping." --align        needs no training
  foveate translate run/ "A man is riding a bicycle ." --align
  foveate translate run/ < input.txt > output.txt
  foveate translate run/ --n-best 4 --beam 8 < input.txt

One line of output for each line of input, whose sentences are translated one by one (--no-split: as
they stand); with --n-best: line number, score and text, separated by tabs.
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
    parser.add_argument(
        "--split",
        action=argparse.BooleanOptionalAction,
        help="translate the sentences of a line one by one, or not; by default where a model has learned from single "
        "sentences, and not with --n-best",
    )
    decode_arguments(parser)
    head_arguments(parser)
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.options import chunks, require_used
    from foveate.cli.setup import decode_config, prepare_machine, say
    from foveate.cli.strange import Strangers
    from foveate.cli.voice import shown
    from foveate.storage.shipped import run_folder
    from foveate.tasks.translate.paragraph import ParagraphTranslator
    from foveate.tasks.translate.use import Translator

    _require_sense(arguments)
    if not arguments.align:
        require_used(arguments, dict.fromkeys(("layer", "head", "when"), "--align"), (), "without")
    prepare_machine(arguments, quiet=True)
    translator = Translator.load(arguments.run, precision=arguments.precision, engine=arguments.engine, note=say)
    config = decode_config(translator.config, arguments)
    split = not arguments.n_best if arguments.split is None else arguments.split
    paragraphs = ParagraphTranslator(
        translator, run_folder(arguments.run), split=split, note=None if arguments.split else say
    )
    strangers = Strangers(translator.source_tokeniser, say)
    unfinished, done = 0, 0
    for chunk in chunks(arguments.text):
        strangers.note(chunk)
        for paragraph in paragraphs.translate(chunk, config=config, first=done):
            done += 1
            unfinished += not paragraph.finished
            if arguments.n_best:
                (translation,) = paragraph.parts
                for text, hypothesis in zip(translation.texts, translation.hypotheses, strict=True):
                    print(done, f"{hypothesis.score:.4f}", shown(strangers.broken(text)), sep="\t", flush=True)
            else:
                print(shown(strangers.broken(paragraph.text)), flush=True)
            for translation in paragraph.parts if arguments.align else ():
                if translation.hypotheses:
                    _draw(translator, translation, arguments)
    if unfinished:
        say(f"{unfinished} of {done} translations reached their length limit before an end.")
    return 0


def _require_sense(arguments: argparse.Namespace) -> None:
    from foveate.errors import UsageError

    if arguments.n_best and arguments.split:
        raise UsageError("--n-best prints hypotheses of whole lines, which --split takes apart. Leave one of them out.")


def _draw(translator: "Translator", translation: "Translation", arguments: argparse.Namespace) -> None:
    import shutil

    from foveate.cli.setup import colour_wanted
    from foveate.inspect import terminal
    from foveate.tasks.translate.head import Head

    wanted = Head.wanted(arguments.layer, arguments.head, arguments.when, translator.head)
    (alignment,) = translator.align([translation], wanted)
    width = shutil.get_terminal_size((100, 40)).columns
    print(terminal(alignment, colour=colour_wanted(), width=width), "\n", flush=True)
