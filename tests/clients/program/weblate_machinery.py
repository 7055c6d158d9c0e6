"""Weblate's own modules for LibreTranslate and for OpenAI.

A Weblate that runs needs a database, a queue and libraries of the system. What these two modules ask of the rest for a
translation is settings, a cache and a request, which are Weblate's and Django's own; the others have stand-ins.
"""

import sys
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from django.conf import settings
from question import Question, tell

OTHERS = (
    *("checks.utils", "glossary.models", "lang.models"),
    *("utils.celery", "utils.errors", "utils.forms", "utils.version"),
)


def stand_ins() -> None:
    settings.configure(
        CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
        USE_I18N=False,
        SITE_DOMAIN="weblate.example",
        ENABLE_HTTPS=True,
    )
    for name in OTHERS:
        module = ModuleType(f"weblate.{name}")
        module.__getattr__ = lambda attribute: MagicMock()  # type: ignore[method-assign]
        sys.modules[module.__name__] = module
    sys.modules["weblate.utils.version"].USER_AGENT = "Weblate"  # type: ignore[attr-defined]


def machinery(kind: str, question: Question) -> Any:
    from weblate.machinery.libretranslate import LibreTranslateTranslation
    from weblate.machinery.openai import OpenAITranslation

    if kind == "libretranslate":
        machine = LibreTranslateTranslation({"url": question.address, "key": question.key or ""})
        assert sorted(machine.download_languages()) == ["en", "fr"]
        return machine
    access = {"key": question.key or "none", "base_url": f"{question.address}/v1"}
    return OpenAITranslation({**access, "model": "custom", "custom_model": "en-fr", "persona": "", "style": ""})


if __name__ == "__main__":
    question = Question.read()
    stand_ins()
    texts = [(text, None) for text in question.texts]
    answers = machinery(sys.argv[2], question).download_multiple_translations("en", "fr", texts)
    tell([answers[text][0]["text"] for text in question.texts])
