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


def machinery(kind: str, question: Question, language: str) -> Any:
    from weblate.machinery.libretranslate import LibreTranslateTranslation
    from weblate.machinery.openai import OpenAITranslation

    if kind == "libretranslate":
        machine = LibreTranslateTranslation({"url": question.address, "key": question.key or ""})
        assert sorted(machine.download_languages()) == ["de", "en", "fr", "ru"]
        return machine
    access = {"key": question.key or "none", "base_url": f"{question.address}/v1"}
    model = "en-fr" if language == "fr" else f"all:{language}"
    return OpenAITranslation({**access, "model": "custom", "custom_model": model, "persona": "", "style": ""})


def translations(kind: str, question: Question, language: str, texts: list[str]) -> list[str]:
    machine = machinery(kind, question, language)
    answers = machine.download_multiple_translations("en", language, [(text, None) for text in texts])
    return [answers[text][0]["text"] for text in texts]


if __name__ == "__main__":
    question = Question.read()
    stand_ins()
    for language, written in question.letters.items():
        assert translations(sys.argv[2], question, language, [question.text]) == [written]
    tell(translations(sys.argv[2], question, "fr", question.texts))
