"""Translate: sequences in, sequences out. Sentences, spellings and pronunciations, dates: anything written in pairs."""

import argparse

from foveate.tasks.entry import Entry, Verb
from foveate.tasks.option import count, decode_arguments, head_arguments


def options(parser: argparse.ArgumentParser) -> None:
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


TASK = Entry(
    name="translate",
    home=__name__,
    summary="sequences to sequences",
    files={
        "source": "source lines, or tab-separated pairs (.gz and .xz too)",
        "target": "target lines, partners of the source lines",
        "valid_source": "validation pairs; without, some lines are held out",
        "valid_target": "target side of the validation pairs",
        "links": "word links like 0-0 1-2, line by line of source, that attention is taught to follow",
        "valid_links": "links of the validation pairs",
    },
    tests={
        "source": "pairs to measure translations on; by default the validation pairs",
        "target": "target side of the test pairs",
    },
    lengths={"source_length": "tokens of a source", "target_length": "tokens of a target"},
    verb=Verb(
        name="translate",
        summary="translate text with a trained model",
        run="the run folder, or a model that comes with foveate: en-fr",
        input="texts to translate; by default the lines of standard input",
        options=options,
        epilog="""
examples:
  foveate translate en-fr "The black cat is sleeping." --align        needs no training
  foveate translate run/ "A man is riding a bicycle ." --align
  foveate translate run/ < input.txt > output.txt
  foveate translate run/ --n-best 4 --beam 8 < input.txt

One line of output for each line of input, whose sentences are translated one by one (--no-split: as
they stand); with --n-best: line number, score and text, separated by tabs.
""",
    ),
)
