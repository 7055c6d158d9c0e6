"""The targets of exports."""

from typing import Literal, get_args

Target = Literal["ctranslate2", "onnx"]
Quantisation = Literal["float32", "int8", "int16", "float16", "bfloat16"]
"""The number types in which CTranslate2 stores weights."""
TARGETS: tuple[str, ...] = get_args(Target)
QUANTISATIONS: tuple[str, ...] = get_args(Quantisation)
MARKS = ("export.json", "model.bin", "*.onnx")
"""Files by which a folder is known as an earlier export, which may be replaced."""
