"""Exports models to other engines, and decodes with these engines."""

from foveate.export.ctranslate2 import CTranslate2Engine, save_ctranslate2, vocabulary
from foveate.export.ctranslate2 import refusals as ctranslate2_refusals
from foveate.export.onnx import OnnxEngine, max_length, onnx_engine, save_onnx
from foveate.export.onnx import refusals as onnx_refusals

__all__ = [
    "CTranslate2Engine",
    "OnnxEngine",
    "ctranslate2_refusals",
    "max_length",
    "onnx_engine",
    "onnx_refusals",
    "save_ctranslate2",
    "save_onnx",
    "vocabulary",
]
