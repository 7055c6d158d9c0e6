"""foveate export"""

import argparse

from foveate.voice import say


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate export run/ --to ctranslate2 model/ --quantisation int8
  foveate export run/ --to onnx model/

OUT receives the model, its vocabularies, and export.json, which describes inputs and outputs. CTranslate2 supports
translation models; ONNX supports every text model whose parts can be expressed by its operators.
"""
    parser.add_argument(
        "run", metavar="RUN", help="the run folder, or a model that comes with foveate: en-fr, en-sounds, us-address"
    )
    parser.add_argument(
        "--to", choices=["ctranslate2", "onnx"], required=True, help="the engine that will load the model"
    )
    parser.add_argument("out", metavar="OUT", help="the folder to write; an earlier export is replaced")
    parser.add_argument(
        "--quantisation",
        choices=["float32", "int8", "int16", "float16", "bfloat16"],
        default="float32",
        help="how CTranslate2 stores weights; anything but float32 changes scores a little",
    )


def run(arguments: argparse.Namespace) -> int:
    from foveate.tasks.exported import export

    written = export(arguments.run, arguments.out, to=arguments.to, quantisation=arguments.quantisation, note=say)
    size = sum(path.stat().st_size for path in written.iterdir())
    print(f"{written}: {size / 1e6:,.1f} MB for {arguments.to}")
    return 0
