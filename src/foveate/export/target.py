"""What models can be exported to."""

from typing import Literal, get_args

Target = Literal["ctranslate2", "onnx"]
Quantisation = Literal["float32", "int8", "int16", "float16", "bfloat16"]
"""How CTranslate2 stores weights."""
TARGETS: tuple[str, ...] = get_args(Target)
QUANTISATIONS: tuple[str, ...] = get_args(Quantisation)
