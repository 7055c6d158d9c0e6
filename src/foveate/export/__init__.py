"""Models for other engines: files that they load, and the engines themselves as ways to decode."""

from foveate.export.ctranslate2 import QUANTISATIONS, CTranslate2Engine, Quantisation, save_ctranslate2, vocabulary
from foveate.export.ctranslate2 import refusals as ctranslate2_refusals
from foveate.export.onnx import OnnxEngine, onnx_engine, save_onnx
from foveate.export.onnx import refusals as onnx_refusals

__all__ = [
    "QUANTISATIONS",
    "CTranslate2Engine",
    "OnnxEngine",
    "Quantisation",
    "ctranslate2_refusals",
    "onnx_engine",
    "onnx_refusals",
    "save_ctranslate2",
    "save_onnx",
    "vocabulary",
]
