"""Repairs and checks of lines from packages: accelerator keys, markup, placeholders, numbers and language."""

import html
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from language import ENGLISH, HAN, LANGUAGES, unified, units

if TYPE_CHECKING:
    from prepare import Line

TAG = re.compile(r"</?[A-Za-z][^<>]*>")
PLACEHOLDER = re.compile(r"%(?:\d+\$)?[-+ #0]*\d*(?:\.\d+)?(?:l{0,2}|h|z)[sdiufgxXc]|%\d+|%\(\w+\)s|\{\w*\}|\$\w+")
NUMBER = re.compile(r"\d+")
LEFT_OVER = re.compile(r"&\w+;|\\[(\[]|[<�]")
"""Entities that a page does not define, accents of roff, the rest of a tag, and characters in a wrong encoding."""
BRACKETED = re.compile(r"\s?\([_&~][A-Za-z]\)")
"""An accelerator key after a Chinese text, whose characters are on no keys."""
CODE = re.compile(r"\w*(?:[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]|_)\w*|(?<!\w)--?[a-z][\w-]*|(?:/[\w.-]*\w){2,}")
"""Identifiers, options and paths."""
KEY = re.compile(r"(?<!\w)[_&~](?=\w)|(?<=\w)[_&~](?=\w)")


def repaired(line: "Line", code: str) -> "Line":
    """The line without markup and without the characters that mark an accelerator key.

    >>> KEY.sub("", "_Save the file")
    'Save the file'
    """
    english, translation = (html.unescape(TAG.sub("", text)) for text in (line.english, line.translation))
    if code == "zh" and BRACKETED.search(translation):
        english, translation = KEY.sub("", english), BRACKETED.sub("", translation)
    elif all(len(KEY.findall(text)) == 1 and "/" not in text for text in (english, translation)):
        english, translation = (KEY.sub("", text) for text in (english, translation))
    return replace(line, english=" ".join(english.split()), translation=unified(" ".join(translation.split()), code))


def sound(line: "Line", code: str) -> bool:
    """Whether the sides have letters of their scripts, the same placeholders and numbers, and the right languages."""
    other = LANGUAGES[code]
    for text, language in ((line.english, ENGLISH), (line.translation, other)):
        letters = [character for character in text if character.isalpha()]
        if len(letters) < (2 if language.letters != HAN else 1) or not language.written(text):
            return False
        if len(letters) < 0.5 * len(text.replace(" ", "")) or LEFT_OVER.search(text):
            return False
    for pattern in (PLACEHOLDER, NUMBER):
        if sorted(pattern.findall(line.english)) != sorted(pattern.findall(western(line.translation))):
            return False
    return (
        line.english != line.translation
        and ENGLISH.count(line.english) >= other.count(line.english)
        and (not other.words or other.count(line.translation) >= ENGLISH.count(line.translation))
    )


def western(text: str) -> str:
    """A text with the digits 0 to 9 for those of Persian.

    >>> western("۱۲"), western("12")
    ('12', '12')
    """
    return "".join(str(int(character)) if character.isdecimal() else character for character in text)


def faithful(line: "Line", code: str) -> bool:
    """Whether a line teaches to copy identifiers and numbers, to translate all words, and not to repeat phrases."""
    english, translation = line.english, western(line.translation)
    if repeats(translation) and not repeats(english):
        return False
    if set(CODE.findall(english)) - set(CODE.findall(translation)):
        return False
    other = LANGUAGES[code]
    if other.words and other.count(translation) < ENGLISH.count(translation):
        return False
    return sorted(NUMBER.findall(english)) == sorted(NUMBER.findall(translation))


def repeats(text: str) -> bool:
    """Whether three words, or three Chinese characters, in succession occur twice.

    >>> repeats("de la même taille de la même taille"), repeats("de la même taille")
    (True, False)
    """
    words = units(text)
    triples = list(zip(words, words[1:], words[2:], strict=False))
    return len(set(triples)) < len(triples)


def stutters(text: str) -> bool:
    """Whether two or more words, or Chinese characters, occur twice in a row.

    >>> stutters("de la même taille de la même taille"), stutters("il est grand et il est petit"), stutters("oui, oui")
    (True, False, False)
    """
    words = units(text)
    return any(
        words[start : start + size] == words[start + size : start + 2 * size]
        for size in range(2, len(words) // 2 + 1)
        for start in range(len(words) - 2 * size + 1)
    )
