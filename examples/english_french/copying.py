"""Training pairs with random names, numbers, paths, options and placeholders, from which a model learns to copy."""

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prepare import Line

KINDS = {
    "placeholder": r"%(?:\d\$|\(\w+\))?[sd](?!\w)|%\d(?!\d)|\$?\{\w*\}|\$\w+",
    "option": r"(?<![\w-])--?[a-z][\w-]*",
    "path": r"(?<![\w/.])~?(?:/[\w.+-]*\w){2,}",
    "identifier": r"(?<![\w./-])[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*(?:[_\d]|[a-z][A-Z]|[A-Z]{3})\w*(?![\w./-])",
    "name": r"(?<![\w./-])[A-Z][a-z]{2,}(?:-[A-Z]?[a-z]{2,})?(?![\w/-])",
    "number": r"(?<![\w.,$%-])\d{1,6}(?:[.,]\d{1,3})?(?![\w$%])",
}
"""Patterns of the words that are replaced if they are equal on both sides."""
TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in KINDS.items()))
MOST = 24
"""The largest number of words of a line that are replaced: enough for a list of protocols."""
VOWELS, CONSONANTS = "aeiouy", "bcdfghjklmnpqrstvwxz"
ONSETS = ["br", "ch", "cl", "dr", "fl", "gr", "kr", "ph", "pl", "sch", "sh", "st", "sz", "th", "tr", "vl", "zh"]
CODAS = ["", "", "", "l", "m", "n", "nd", "ng", "r", "rd", "ck", "s", "ss", "st", "t", "tz", "x"]
FOREIGN = {
    "a": "áàâãäåā",
    "c": "çćč",
    "e": "éèêëęě",
    "i": "íîï",
    "l": "ł",
    "n": "ñńň",
    "o": "óôõöøő",
    "r": "ř",
    "s": "śšş",
    "u": "úùûüůű",
    "y": "ýÿ",
    "z": "źżž",
}
"""Letters of other languages that some names have in place of a plain one."""
DIRECTORIES = ["etc", "home", "opt", "srv", "tmp", "usr", "var"]
ENDINGS = ["", "", ".c", ".cfg", ".conf", ".log", ".png", ".py", ".sh", ".txt", ".xml"]


def with_copies(line: "Line", seed: int = 0, share: float = 0.4, words: Sequence[str] = ()) -> "Line | None":
    """The line with other names and numbers that are the same on both sides, for a share of the lines that have some.

    A function of its arguments. Every word that is replaced occurs once on each side, and its replacement begins with a
    vowel if it did, so that articles remain right. Zero and one remain, because of plurals. Half of the names are
    made of `words`, if there are any, so that a model learns that Fountain and OnlineFountain can be names. Some
    abbreviations differ in one letter (FTP, FTPS, SFTP), and some names become several: Ada Lovelace; FTP, SCP, RTSP.
    """
    random = Random(f"{seed}\t{line.english}\t{line.translation}")
    if random.random() >= share:
        return None
    sides = [TOKEN.finditer(text) for text in (line.english, line.translation)]
    english, other = ([(match[0], match.lastgroup or "") for match in side] for side in sides)
    common = [token for token in english if english.count(token) == other.count(token) == 1]
    changes: dict[str, str] = {}
    for word, kind in common:
        if word not in ("0", "1"):
            changes[word] = several(word, kind, random, words, list(changes.values()))
    if not changes or len(changes) > MOST:
        return None

    def changed(text: str) -> str:
        return TOKEN.sub(lambda match: changes.get(match[0], match[0]), text)

    return replace(line, english=changed(line.english), translation=changed(line.translation))


def several(word: str, kind: str, random: Random, words: Sequence[str], earlier: Sequence[str]) -> str:
    """A random word of the same kind; for some names two of them, or a list."""
    if kind == "identifier" and word.isupper():
        names = [abbreviation(word, random, earlier)]
        while len(names) < 8 and random.random() < (0.1 if len(names) == 1 else 0.7):
            names.append(abbreviation(random.choice(CONSONANTS), random, [*earlier, *names]))
        return ", ".join(names)
    names = [replacement(word, kind, random, words)]
    if kind == "name" and random.random() < 0.2:
        names.append(replacement(random.choice("RA"), kind, random, words))
    return " ".join(names)


def abbreviation(word: str, random: Random, earlier: Sequence[str]) -> str:
    """Capital letters, which some underscores and digits follow; sometimes almost those of an earlier one."""
    like = [each for each in earlier if each.isalpha() and each.isupper()]
    vowel = word[0].lower() in VOWELS + "h"
    if like and random.random() < 0.4:
        near = random.choice(like)
        near = random.choice([f"{near}S", near[:-1] + random.choice(CONSONANTS).upper(), random.choice("SXT") + near])
        if (near[0].lower() in VOWELS + "h") is vowel and near not in earlier:
            return near
    if random.random() < 0.5:
        rest = "".join(random.choice(VOWELS + CONSONANTS * 2) for _ in range(random.randint(1, 4)))
        return (random.choice(VOWELS[:4] if vowel else CONSONANTS.replace("h", "")) + rest).upper()
    first = spoken(random, vowel)
    return random.choice(
        [
            first[:6],
            f"{first[:4]}_{small(random)}",
            f"{first[:3]}{random.randint(2, 99)}",
            f"{first[:3]}/{small(random)}",
        ]
    ).upper()


def replacement(word: str, kind: str, random: Random, words: Sequence[str]) -> str:
    """A random word of the same kind."""
    if kind == "placeholder":
        number, name = random.randint(0, 6), small(random)
        forms = ["%s", "%d", f"%{number + 1}$s", f"%{number + 1}", "{}", f"${number + 1}"]
        return random.choice([*forms, f"{{{number}}}", f"{{{number}}}", f"{{{name}}}", f"${{{name}}}", f"%({name})s"])
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
        return first.capitalize() + hyphenated(word, random)
    rest = [random.choice(words) if real else small(random) for _ in range(random.randint(1, 2))]
    capitals = "".join(random.choice(CONSONANTS) for _ in range(random.randint(2, 3))).upper()
    return random.choice(
        [
            "_".join([first, *rest]),
            "".join(part.capitalize() for part in (first, *rest)),
            first + "".join(part.capitalize() for part in rest),
            first.capitalize() + capitals,
            first[0].upper() + capitals + random.choice([small(random).capitalize(), "s"]),
            f"{first}{random.randint(2, 99)}",
            f"lib{first}" if word[0] == "l" else f"{first}-{rest[0]}",
        ]
    )


def hyphenated(word: str, random: Random) -> str:
    """A second part for a name that has one, with a capital letter if it had one (Abed-nego, Saint-Denis)."""
    _, mark, second = word.partition("-")
    part = small(random)
    return mark + (part.capitalize() if second[:1].isupper() else part) if mark else ""


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
    word = word if len(word) > 2 else word + random.choice(CONSONANTS)
    places = [place for place, letter in enumerate(word) if place and letter in FOREIGN]
    if places and random.random() < 0.08:
        place = random.choice(places)
        word = word[:place] + random.choice(FOREIGN[word[place]]) + word[place + 1 :]
    return word
