"""Training pairs with random names, numbers, paths, options and placeholders, from which a model learns to copy."""

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prepare import Line

KINDS = {
    "placeholder": r"%(?:\d\$)?[sd](?!\w)|%\d(?!\d)|\{\w*\}|\$\w+",
    "option": r"(?<![\w-])--?[a-z][\w-]*",
    "path": r"(?<![\w/.])~?(?:/[\w.+-]*\w){2,}",
    "identifier": r"(?<![\w./-])[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*(?:[_\d]|[a-z][A-Z]|[A-Z]{3})\w*(?![\w./-])",
    "name": r"(?<![\w./-])[A-Z][a-z]{2,}(?![\w/-])",
    "number": r"(?<![\w.,$%-])\d{1,6}(?:[.,]\d{1,3})?(?![\w$%])",
}
"""Patterns of the words that are replaced if they are equal on both sides."""
TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in KINDS.items()))
VOWELS, CONSONANTS = "aeiouy", "bcdfghjklmnpqrstvwxz"
ONSETS = ["br", "ch", "cl", "dr", "fl", "gr", "kr", "ph", "pl", "sch", "sh", "st", "sz", "th", "tr", "vl", "zh"]
CODAS = ["", "", "", "l", "m", "n", "nd", "ng", "r", "rd", "ck", "s", "ss", "st", "t", "tz", "x"]
DIRECTORIES = ["etc", "home", "opt", "srv", "tmp", "usr", "var"]
ENDINGS = ["", "", ".c", ".cfg", ".conf", ".log", ".png", ".py", ".sh", ".txt", ".xml"]


def with_copies(line: "Line", seed: int = 0, share: float = 0.4, words: Sequence[str] = ()) -> "Line | None":
    """The line with other names and numbers that are the same on both sides, for a share of the lines that have some.

    A function of its arguments. Every word that is replaced occurs once on each side, and its replacement begins with a
    vowel if it did, so that articles remain right. Zero and one remain, because of plurals. Half of the names are
    made of `words`, if there are any, so that a model learns that Fountain and OnlineFountain can be names.
    """
    random = Random(f"{seed}\t{line.english}\t{line.translation}")
    if random.random() >= share:
        return None
    sides = [TOKEN.finditer(text) for text in (line.english, line.translation)]
    english, other = ([(match[0], match.lastgroup or "") for match in side] for side in sides)
    common = [token for token in english if english.count(token) == other.count(token) == 1]
    changes = {word: replacement(word, kind, random, words) for word, kind in common if word not in ("0", "1")}
    if not changes or len(changes) > 6:
        return None

    def changed(text: str) -> str:
        return TOKEN.sub(lambda match: changes.get(match[0], match[0]), text)

    return replace(line, english=changed(line.english), translation=changed(line.translation))


def replacement(word: str, kind: str, random: Random, words: Sequence[str]) -> str:
    """A random word of the same kind."""
    if kind == "placeholder":
        return random.choice(["%s", "%d", "%1$s", "%2$s", "%1", "%2", "{}", "{0}", f"{{{small(random)}}}", "$1", "$2"])
    if kind == "option":
        return f"--{small(random)}" if word.startswith("--") else f"-{random.choice(VOWELS + CONSONANTS)}"
    if kind == "path":
        folders = [random.choice(DIRECTORIES), *(small(random) for _ in range(random.randint(1, 2)))]
        return "/" + "/".join(folders) + random.choice(ENDINGS)
    if kind == "number":
        whole, mark, rest = re.fullmatch(r"(\d+)([.,]?)(\d*)", word).groups()  # type: ignore[union-attr]
        digits = "".join(random.choice("0123456789") for _ in rest)
        return f"{random.randint(2, 10 ** random.randint(1, max(2, len(whole))) - 1)}{mark}{digits}"
    vowel = word[0].lower() in VOWELS + "h"
    real = bool(words) and random.random() < 0.5
    first = existing(random, vowel, words) if real else spoken(random, vowel)
    if kind == "name":
        return first.capitalize()
    rest = [random.choice(words) if real else small(random) for _ in range(random.randint(1, 2))]
    if word.isupper():
        return random.choice([first[:6], "_".join([first[:4], rest[0]]), f"{first[:3]}{random.randint(2, 99)}"]).upper()
    capitals = "".join(random.choice(CONSONANTS) for _ in range(random.randint(2, 3))).upper()
    return random.choice(
        [
            "_".join([first, *rest]),
            "".join(part.capitalize() for part in (first, *rest)),
            first + "".join(part.capitalize() for part in rest),
            first.capitalize() + capitals,
            f"{first}{random.randint(2, 99)}",
            f"lib{first}" if word[0] == "l" else f"{first}-{rest[0]}",
        ]
    )


def existing(random: Random, vowel: bool, words: Sequence[str]) -> str:
    """One of the words that begins with a vowel or with a consonant; a word of syllables if there is hardly one."""
    for _ in range(20):
        word = random.choice(words)
        if (word[0] in VOWELS + "h") is vowel:
            return word
    return spoken(random, vowel)


def small(random: Random) -> str:
    """A random word that begins with either."""
    return spoken(random, random.random() < 0.3)


def spoken(random: Random, vowel: bool) -> str:
    """A word of one to three random syllables, which begins with a vowel or with a consonant."""
    syllables = []
    for place in range(random.choice([1, 2, 2, 3])):
        onset = random.choice(ONSETS) if random.random() < 0.2 else random.choice(CONSONANTS)
        onset = "" if vowel and place == 0 else onset
        syllables.append(onset + random.choice(VOWELS[:5] * 3 + "y") + random.choice(CODAS))
    word = "".join(syllables)
    return word if len(word) > 2 else word + random.choice(CONSONANTS)
