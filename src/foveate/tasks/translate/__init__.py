"""Translate: sequences to sequences, such as sentences, spellings and pronunciations, or formats of dates."""

import argparse

from foveate.tasks.entry import Entry, Verb


def options(parser: argparse.ArgumentParser) -> None:
    from foveate.tasks.option import corpus_arguments, count, decode_arguments, head_arguments, language_argument

    parser.add_argument("--align", action="store_true", help="draw the attention from target to source words")
    parser.add_argument("--n-best", type=count, metavar="N", help="print the N best hypotheses with their scores")
    parser.add_argument(
        "--engine",
        choices=["auto", "own", "ctranslate2", "ctranslate2-int8", "onnx"],
        default="auto",
        help="the engine that decodes; auto: the fastest exact one; ctranslate2-int8: fastest, with rounded weights",
    )
    parser.add_argument(
        "--ensemble",
        action="append",
        default=[],
        metavar="RUN",
        help="decode with this run, too: each token is chosen by the mean of the probabilities; may be repeated",
    )
    parser.add_argument(
        "--split",
        action=argparse.BooleanOptionalAction,
        help="translate each sentence of a line by itself; the default for models trained on single sentences, except "
        "with --n-best",
    )
    language_argument(parser)
    decode_arguments(parser)
    head_arguments(parser)
    corpus_arguments(parser)


def quick(arguments: argparse.Namespace) -> bool:
    from foveate.tasks.translate.quick_answer import answer

    return answer(arguments)


TASK = Entry(
    name="translate",
    home=__name__,
    summary="sequences to sequences",
    files={
        "source": "source lines, or tab-separated pairs (.gz and .xz too)",
        "target": "target lines, one for each source line",
        "valid_source": "validation pairs; by default some training pairs are held out",
        "valid_target": "target side of the validation pairs",
        "links": "word links such as 0-0 1-2, one line for each source line, that train the attention",
        "valid_links": "links of the validation pairs",
        "rejected": "worse translations, one line for each source line, that become less probable; an empty line: none",
    },
    tests={
        "source": "test pairs for translation; by default the validation pairs",
        "target": "target side of the test pairs",
    },
    quick=quick,
    looks=("to",),
    lengths={"source_length": "tokens of a source (default 30)", "target_length": "tokens of a target (default 30)"},
    verb=Verb(
        name="translate",
        summary="translate text with a trained model",
        run="the run folder, or a model that comes with foveate: en-fr, en-sounds",
        input="texts to translate; by default the lines of standard input",
        options=options,
        epilog="""
examples:
  foveate translate en-fr "The black cat is sleeping." --align        needs no training
  foveate translate en-sounds nation national --align                the phones of words
  foveate translate run/ "A man is riding a bicycle ." --align
  foveate translate run/ < input.txt > output.txt
  foveate translate run/ --n-best 4 --beam 8 < input.txt

Prints one line for each line of input, whose sentences are translated one by one unless --no-split is given;
with --n-best: line number, score and text, separated by tabs.
""",
    ),
)
