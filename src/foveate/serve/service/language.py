"""Names and codes of languages."""

from collections.abc import Iterable

NAMES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}
_CODES = {english.lower(): code for code, english in NAMES.items()}


def name_of(code: str) -> str:
    """The English name of a language; an unknown code is its own name."""
    return NAMES.get(code, code)


def code_of(name: str) -> str:
    """The code of a language that a client names by its code, with or without a region, or in English.

    >>> code_of("fr_FR"), code_of("French"), code_of("auto")
    ('fr', 'fr', 'auto')
    """
    return _CODES.get(name.lower(), name.replace("_", "-").partition("-")[0].lower())


def code_among(codes: Iterable[str], name: str) -> str:
    """The model's own code, such as `pt_BR`, where a client writes it; otherwise `code_of`.

    >>> code_among(["pt_BR", "fr"], "pt-br"), code_among(["pt_BR", "fr"], "fr-CA")
    ('pt_BR', 'fr')
    """
    own = {code.replace("_", "-").lower(): code for code in codes}
    return own.get(name.replace("_", "-").lower(), code_of(name))


def pair_of(name: str) -> tuple[str, str] | None:
    """The languages in the name of a run such as `en-fr`.

    >>> pair_of("en-fr"), pair_of("my-run")
    (('en', 'fr'), None)
    """
    source, _, target = name.partition("-")
    return (source, target) if source in NAMES and target in NAMES else None
