"""Facts about the languages that English text is translated into, for the programs of this example."""

import re
from dataclasses import dataclass

HAN = "\u3400-\u4dbf\u4e00-\u9fff"
LATIN, CYRILLIC, ARABIC = "A-Za-zÀ-ɏ", "\u0400-\u04ff", "\u0600-\u06ff\u200c"


@dataclass(frozen=True)
class Language:
    """A language with its locales, of which the first is preferred, and what tells its text from English."""

    locales: tuple[str, ...]
    letters: str
    """The script, as the inside of a character class."""
    words: str = ""
    """Frequent words, separated by `|`; none where the script is enough."""

    def written(self, text: str) -> bool:
        """Whether most letters belong to the script. Latin names may stand in any language."""
        letters = [character for character in text if character.isalpha()]
        own = len(re.findall(f"[{self.letters}]", "".join(letters)))
        return own >= (0.8 if self.letters == LATIN else 0.4) * max(len(letters), 1)

    def count(self, text: str) -> int:
        """The number of frequent words; 0 where the script is enough.

        >>> LANGUAGES["fr"].count("La liste des paquets"), ENGLISH.count("The list of packages")
        (2, 2)
        """
        return len(re.findall(rf"\b(?:{self.words})\b", text.casefold())) if self.words else 0


LANGUAGES = {
    "de": Language(
        ("de", "de_DE"),
        LATIN,
        "der|die|das|den|dem|des|und|ist|ein|eine|einen|einer|im|in|zu|von|mit|auf|für|nicht|sie|es|wird|werden|sind"
        "|oder|wenn|als|kann|an|bei|aus|nach",
    ),
    "fa": Language(("fa", "fa_IR"), ARABIC),
    "fr": Language(
        ("fr", "fr_FR"),
        LATIN,
        "le|la|les|de|des|du|et|un|une|est|en|que|qui|dans|pour|par|sur|pas|vous|au|aux|ce|ne|il|elle|avec|ou|se|sont",
    ),
    "ru": Language(("ru", "ru_RU"), CYRILLIC),
    "zh": Language(("zh_CN", "zh", "zh_Hans"), HAN),
}
"""The languages by their codes; Chinese is that of the mainland."""
ENGLISH = Language(
    ("en", "en_US", "C"),
    LATIN,
    "the|of|and|to|in|is|that|it|for|with|you|are|this|be|as|from|or|by|not|can|will|has|if",
)
_ONE_FORM: dict[str, dict[str, str | None]] = {
    "fa": {"\u0643": "\u06a9", "\u064a": "\u06cc", "\u0649": "\u06cc", "\u0640": None},
    "fr": {"’": "'"},
}


def unified(text: str, code: str) -> str:
    """A text with one form of each character: Persian with its own letters, where some files have Arabic ones, and
    without stretched lines; French with one apostrophe.

    >>> unified("L’homme", "fr"), unified("كتاب", "fa") == "کتاب"
    ("L'homme", True)
    """
    return text.translate(str.maketrans(_ONE_FORM.get(code, {})))


def extent(text: str) -> int:
    """The number of characters, of which a Chinese one counts as three, for comparing lengths of translations.

    >>> extent("Open"), extent("打开")
    (4, 6)
    """
    return len(text) + 2 * len(re.findall(f"[{HAN}]", text))


def units(text: str) -> list[str]:
    """Words in small letters without punctuation; of Chinese, the characters, because it has no spaces.

    >>> units("Open a file!"), units("打开文件 b")
    (['open', 'a', 'file'], ['打', '开', '文', '件', 'b'])
    """
    return re.findall(rf"[{HAN}]|[^\W{HAN}]+", text.casefold())
