"""Repairs and checks of lines from packages: accelerator keys, markup, placeholders, numbers and language."""

import html
import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prepare import Line

TAG = re.compile(r"</?[A-Za-z][^<>]*>")
PLACEHOLDER = re.compile(r"%(?:\d+\$)?[-+ #0]*\d*(?:\.\d+)?(?:l{0,2}|h|z)[sdiufgxXc]|%\d+|%\(\w+\)s|\{\w*\}|\$\w+")
NUMBER = re.compile(r"\d+")
LEFT_OVER = re.compile(r"&\w+;|\\[(\[]|[<�]")
"""Entities that a page does not define, accents of roff, the rest of a tag, and characters in a wrong encoding."""
KEY = re.compile(r"(?<!\w)[_&~](?=\w)|(?<=\w)[_&~](?=\w)")
ENGLISH = re.compile(r"\b(?:the|of|and|to|in|is|that|it|for|with|you|are|this|be|as|from|or|by|not|can|will|has|if)\b")
FRENCH = re.compile(
    r"\b(?:le|la|les|de|des|du|et|un|une|est|en|que|qui|dans|pour|par|sur"
    r"|pas|vous|au|aux|ce|ne|il|elle|avec|ou|se|sont)\b"
)


def repaired(line: "Line") -> "Line":
    """The line without markup and without the characters that mark an accelerator key.

    >>> KEY.sub("", "_Save the file")
    'Save the file'
    """
    english, french = (html.unescape(TAG.sub("", text)) for text in (line.english, line.french))
    if all(len(KEY.findall(text)) == 1 and "/" not in text for text in (english, french)):
        english, french = (KEY.sub("", text) for text in (english, french))
    return replace(line, english=" ".join(english.split()), french=" ".join(french.split()).replace("’", "'"))


def sound(line: "Line") -> bool:
    """Whether the sides have letters of Latin script, the same placeholders and numbers, and the right languages."""
    for text in (line.english, line.french):
        letters = [character for character in text if character.isalpha()]
        if len(letters) < 2 or sum(character > "ɏ" for character in letters) > 0.2 * len(letters):
            return False
        if len(letters) < 0.5 * len(text.replace(" ", "")) or LEFT_OVER.search(text):
            return False
    for pattern in (PLACEHOLDER, NUMBER):
        if sorted(pattern.findall(line.english)) != sorted(pattern.findall(line.french)):
            return False
    return (
        line.english != line.french
        and in_language(line.english, ENGLISH, FRENCH)
        and in_language(line.french, FRENCH, ENGLISH)
    )


def in_language(text: str, own: re.Pattern[str], other: re.Pattern[str]) -> bool:
    """Whether a text has at least as many frequent words of its language as of the other.

    >>> in_language("La liste des paquets", FRENCH, ENGLISH), in_language("The list of packages", FRENCH, ENGLISH)
    (True, False)
    """
    text = text.casefold()
    return len(own.findall(text)) >= len(other.findall(text))
