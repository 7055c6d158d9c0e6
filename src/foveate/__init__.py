"""Foveate: attention models to train, run fast and look inside.

Names are imported on first use, so that `import foveate` is quick and does not import torch.

>>> import foveate
>>> print(foveate.causal().picture(3, 3))
# . .
# # .
# # #
"""

import sys

# `python -m foveate` puts the working folder first on the path, where somebody's json.py would replace Python's.
_run_by_name = sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].removeprefix("-m") in ("foveate", "foveate.cli")
if _run_by_name and not sys.flags.safe_path:
    del sys.path[0]

import importlib  # noqa: E402
from typing import Any  # noqa: E402

__version__ = "0.1.0"

# The types of these names are in __init__.pyi.
_HOMES = {
    "foveate.attention": (
        "Additive",
        "Attention",
        "AttentionRecord",
        "Dot",
        "General",
        "Positions",
        "ScaledDot",
        "Softmax",
        "Visibility",
        "causal",
        "everything",
        "padding",
        "record",
        "window",
    ),
    "foveate.nn": ("MultiHeadAttention",),
    "foveate.models": (
        "BERTConfig",
        "BahdanauConfig",
        "FixedContextConfig",
        "GPTConfig",
        "LanguageModel",
        "LuongConfig",
        "RecurrentLanguageModelConfig",
        "Seq2Seq",
        "TransformerConfig",
    ),
    "foveate.comparison": ("compare",),
    "foveate.lesson": ("train_translator",),
    "foveate.tasks.classify.task": ("ClassifyConfig", "ClassifyTask"),
    "foveate.tasks.classify.use": ("TextClassifier",),
    "foveate.tasks.embedder": ("Embedder",),
    "foveate.tasks.masked_language_model.use": ("Filler",),
    "foveate.tasks.language_model.use": ("Generator",),
    "foveate.tasks.language_model.task": ("LanguageModelTask", "LanguageModelTaskConfig"),
    "foveate.tasks.masked_language_model.task": ("MaskedLanguageModelConfig", "MaskedLanguageModelTask"),
    "foveate.tasks.tag.task": ("TagConfig", "TagTask"),
    "foveate.tasks.tag.use": ("SentenceTagger",),
    "foveate.tasks.translate.task": ("TranslateConfig", "TranslateTask"),
    "foveate.tasks.translate.translation": ("Translation",),
    "foveate.tasks.translate.use": ("Translator",),
    "foveate.tasks.word_vectors": ("WordVectors",),
    "foveate.train": ("TrainConfig", "fit"),
    "foveate.inspect": ("Alignment",),
    "foveate.machine": ("tune",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = (
    "attention",
    "comparison",
    "config",
    "data",
    "decode",
    "errors",
    "export",
    "hugging_face",
    "inspect",
    "light",
    "machine",
    "metrics",
    "models",
    "nn",
    "search",
    "serve",
    "storage",
    "tasks",
    "train",
)

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"foveate.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'foveate' has no attribute {name!r}. It has: {', '.join(__all__)}.")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
