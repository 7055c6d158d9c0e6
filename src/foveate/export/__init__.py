"""Models for other engines: files that they load, and the engines themselves as ways to decode."""

from foveate.export.ctranslate2 import QUANTISATIONS, CTranslate2Engine, Quantisation, save_ctranslate2, vocabulary
from foveate.export.ctranslate2 import refusals as ctranslate2_refusals

__all__ = [
    "QUANTISATIONS",
    "CTranslate2Engine",
    "Quantisation",
    "ctranslate2_refusals",
    "save_ctranslate2",
    "vocabulary",
]
