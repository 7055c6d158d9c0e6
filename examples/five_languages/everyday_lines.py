"""Makes everyday sentences in English, German, Persian, Russian and Chinese, by a small grammar and a list of phrases.

The packages of this example have hardly any sentences such as "the black cat is sleeping in the garden". Words with
their forms, and the phrases, are in `everyday.json`; they were written for this project. The sentences are additional
training text and are not used for tests.

    >>> everyday("zh", most=2000)[-1]
    ('He has two sisters.', '他有两个姐妹。')
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORDS: dict[str, list[str]] = json.loads((Path(__file__).parent / "everyday.json").read_text("utf-8"))
COLUMNS = {"de": 1, "fa": 2, "ru": 3, "zh": 4}
"""The place of a language in a line of `everyday.json`; English is first."""
SHOWN = {"He gave the book to his son."}
"""Sentences whose pictures are shown as examples, so that the model may not have read them."""
SILENT = {"گربه", "پرنده", "خانه", "دوچرخه", "پنجره", "نامه", "رایانه"}
"""Persian words whose last letter is a vowel, so that an attribute begins with ی."""
HIS = {"همسایه": "همسایه\u200cاش"}
THE = {"m": "der", "f": "die", "n": "das"}
Pair = tuple[str, str]


def everyday(code: str, most: int = 8000, seed: int = 1) -> list[Pair]:
    """The different pairs among `most` random ones of English and a language, then each phrase eight times; none if
    `most` is 0 or the language is another one.
    """
    if not most or code not in COLUMNS:
        return []
    chance, made = random.Random(seed), dict[Pair, None]()
    patterns = (is_so, is_doing, has, where, does, does_not, asks, counts, goes, gave, black_one)
    for _ in range(most):
        english, other = chance.choice(patterns)(Speaker(chance, code))
        pair = capital(english), capital(other.replace("_", " "))
        if pair[0] not in SHOWN:
            made[pair] = None
    rows = [line.split(" | ") for line in WORDS["phrases"]]
    return [*made, *((row[0], row[COLUMNS[code]]) for row in rows for _ in range(8))]


@dataclass(frozen=True)
class Speaker:
    """Random words with their forms in one language."""

    chance: random.Random
    code: str

    def word(self, kind: str) -> tuple[list[str], list[str]]:
        """The columns of a word in English and in the language."""
        cells = [cell.strip() for cell in self.chance.choice(WORDS[kind]).split("|")]
        separator = ", " if kind == "places" else None
        return cells[0].split(), cells[COLUMNS[self.code]].split(separator)

    def say(self, *, de: str, fa: str, ru: str, zh: str) -> str:
        return {"de": de, "fa": fa, "ru": ru, "zh": zh}[self.code]

    def each(self, **make: Callable[[], str]) -> str:
        """The text that the function of the language makes."""
        return make[self.code]()


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def of(gender: str, m: str, f: str, n: str) -> str:
    return {"m": m, "f": f, "n": n}[gender]


def ezafe(noun: str, attribute: str) -> str:
    """A Persian noun with what belongs to it."""
    return f"{noun}\u200cی {attribute}" if noun in SILENT else f"{noun}{'ی' if noun == 'چاقو' else ''} {attribute}"


def is_so(say: Speaker) -> Pair:
    """The house is old."""
    (english, _), noun = say.word("things")
    quality, so = say.word("qualities")
    return f"the {english} is {quality[0]}.", say.each(
        de=lambda: f"{THE[noun[0]]} {noun[1]} ist {so[0]}.",
        fa=lambda: f"{noun[0]} {so[0]} است.",
        ru=lambda: f"{noun[1]} {so['mfn'.index(noun[0])]}.",
        zh=lambda: f"这{noun[0]}{noun[1]}" + (f"是{so[0]}的。" if so[0].endswith("色") else f"很{so[0]}。"),
    )


def is_doing(say: Speaker) -> Pair:
    """The teacher is working in the library."""
    (english, _), who = say.word("people")
    doing, does = say.word("doings")
    (place,), here = say.word("places")
    return f"the {english} is {doing[0]} in the {place}.", say.each(
        de=lambda: f"{THE[who[0]]} {who[1]} {does[0]} {here[0]}.",
        fa=lambda: f"{who[0]} در {here[0]} {' '.join(does)}.",
        ru=lambda: f"{who[1]} {does[0]} {here[0]}.",
        zh=lambda: f"{who[0]}在{here[0]}里{does[0]}。",
    )


def subject(say: Speaker) -> tuple[str, int, list[str]]:
    """The English subject, its number from 0, and its words in the language."""
    number = say.chance.randrange(len(WORDS["subjects"]))
    cells = WORDS["subjects"][number].split(" | ")
    return cells[0].split()[0], number, cells[COLUMNS[say.code]].split()


def verb(say: Speaker, kinds: slice | int, number: int) -> tuple[str, str, str, list[str]]:
    """A verb of English with and without the ending of its subject, and its form and all forms in the language."""
    chosen = WORDS["verbs"][kinds] if isinstance(kinds, slice) else [WORDS["verbs"][kinds]]
    cells = [cell.strip() for cell in say.chance.choice(chosen).split("|")]
    forms = cells[COLUMNS[say.code]].split()
    base, third = cells[0].split()
    return third if number in (2, 3) else base, base, forms[0 if say.code == "zh" else number] if forms else "", forms


def has(say: Speaker) -> Pair:
    """She has a bicycle."""
    who, number, other = subject(say)
    verbs, _, form, _ = verb(say, -2, number)
    (english, _), noun = say.word("things")
    article = "an" if english[0] in "aeiou" else "a"
    return f"{who} {verbs} {article} {english}.", say.each(
        de=lambda: f"{other[0]} {form} {of(noun[0], 'einen', 'eine', 'ein')} {noun[1]}.",
        fa=lambda: f"{other[0]} یک {noun[0]} {form}.",
        ru=lambda: f"у {other[1]} есть {noun[1]}.",
        zh=lambda: f"{other[0]}有一{noun[0]}{noun[1]}。",
    )


def where(say: Speaker) -> Pair:
    """Where is my key?"""
    (english, _), noun = say.word("things")
    mine = say.chance.random() < 0.5
    return f"where is {'my' if mine else 'the'} {english}?", say.each(
        de=lambda: f"wo ist {of(noun[0], 'mein', 'meine', 'mein') if mine else THE[noun[0]]} {noun[1]}?",
        fa=lambda: f"{ezafe(noun[0], 'من') if mine else noun[0]} کجاست؟",
        ru=lambda: f"где {of(noun[0], 'мой ', 'моя ', 'моё ') if mine else ''}{noun[1]}?",
        zh=lambda: f"{'我的' if mine else ''}{noun[1]}在哪里？",
    )


def this(say: Speaker, noun: list[str]) -> str:
    """This thing, as an object."""
    return say.each(
        de=lambda: f"{of(noun[0], 'diesen', 'diese', 'dieses')} {noun[1]}",
        fa=lambda: f"این {noun[0]} را",
        ru=lambda: f"{of(noun[0], 'этот', 'эту', 'это')} {noun[2]}",
        zh=lambda: f"这{noun[0]}{noun[1]}",
    )


def does(say: Speaker) -> Pair:
    """We buy this car."""
    who, number, other = subject(say)
    verbs, _, form, _ = verb(say, slice(0, -2), number)
    (english, _), noun = say.word("things")
    what = this(say, noun)
    return f"{who} {verbs} this {english}.", say.say(
        de=f"{other[0]} {form} {what}.",
        fa=f"{other[0]} {what} {form}.",
        ru=f"{other[0]} {form} {what}.",
        zh=f"{other[0]}{form}{what}。",
    )


def does_not(say: Speaker) -> Pair:
    """They do not want this hat."""
    who, number, other = subject(say)
    _, base, form, forms = verb(say, slice(0, -2), number)
    (english, _), noun = say.word("things")
    what = this(say, noun)
    no = say.chance.choice([" not", "n't"])
    negated = form.replace("می\u200c", "نمی\u200c").replace("دوست_", "دوست_ن")
    return f"{who} {'does' if number in (2, 3) else 'do'}{no} {base} this {english}.", say.say(
        de=f"{other[0]} {form} {what} nicht.",
        fa=f"{other[0]} {what} {negated}.",
        ru=f"{other[0]} не {form} {what}.",
        zh=f"{other[0]}{forms[-1]}{what}。",
    )


def asks(say: Speaker) -> Pair:
    """Do you see this tree?"""
    _, base, form, _ = verb(say, slice(0, -2), 1)
    (english, _), noun = say.word("things")
    what = this(say, noun)
    return f"do you {base} this {english}?", say.say(
        de=f"{form} Sie {what}?", fa=f"آیا {what} {form}؟", ru=f"вы {form} {what}?", zh=f"你{form}{what}吗？"
    )


def counts(say: Speaker) -> Pair:
    """There are three chairs in the kitchen."""
    number, many = say.word("numbers")
    (_, plural), noun = say.word("things")
    (place,), here = say.word("places")
    return f"there are {number[0]} {plural} in the {place}.", say.each(
        de=lambda: f"{here[0]} sind {many[0]} {noun[2]}.",
        fa=lambda: f"در {here[0]} {many[0]} {noun[0]} هست.",
        ru=lambda: f"{here[0]} {many[noun[0] == 'f']} {noun[3]}.",
        zh=lambda: f"{here[0]}里有{many[0]}{noun[0]}{noun[1]}。",
    )


def goes(say: Speaker) -> Pair:
    """Today we are going to the market."""
    who, number, other = subject(say)
    _, _, form, _ = verb(say, -1, number)
    (place,), there = say.word("places")
    (when,), then = say.word("whens")
    are = WORDS["subjects"][number].split(" | ")[0].split()[1]
    english = say.chance.choice(
        [f"{when} {who} {are} going to the {place}.", f"{who} {are} going to the {place} {when}."]
    )
    return english, say.each(
        de=lambda: f"{other[0]} {form} {then[0]} {there[1]}.",
        fa=lambda: f"{other[0]} {then[0]} به {there[0]} {form}.",
        ru=lambda: f"{then[0]} {other[0]} {form} {there[1]}.",
        zh=lambda: f"{then[0]}{other[0]}{form}{there[0]}。",
    )


def gave(say: Speaker) -> Pair:
    """The king gave the letter to his daughter."""
    english, who = say.word("people")
    (relative,), whom = say.word("relatives")
    (thing, _), noun = say.word("things")
    named = say.chance.random() < 0.5
    she = english[1] == "she"
    showed = say.chance.random() < 0.3
    him = "her" if she else "his"
    subject_ = f"the {english[0]}" if named else english[1]
    return f"{subject_} {'showed' if showed else 'gave'} the {thing} to {him} {relative}.", say.each(
        de=lambda: (
            f"{f'{THE[who[0]]} {who[1]}' if named else 'sie' if she else 'er'} {'zeigte' if showed else 'gab'} "
            f"{'ihr' if she and not (named and who[0] == 'n') else 'sein'}{'er' if whom[0] == 'f' else 'em'} {whom[1]} "
            f"{of(noun[0], 'den', 'die', 'das')} {noun[1]}."
        ),
        fa=lambda: (
            f"{who[0] if named else 'او'} {noun[0]} را به {HIS.get(whom[0], f'{whom[0]}ش')} "
            f"{'نشان داد' if showed else 'داد'}."
        ),
        ru=lambda: (
            f"{who[1] if named else 'она' if she else 'он'} {'показал' if showed else 'дал'}{'а' if she else ''} "
            f"{noun[2]} {'своей' if whom[0] == 'f' else 'своему'} {whom[1]}."
        ),
        zh=lambda: (
            f"{who[0] if named else '她' if she else '他'}把{noun[1]}给{'' if showed else '了'}"
            f"{'她' if she else '他'}的{whom[0]}{'看了' if showed else ''}。"
        ),
    )


def black_one(say: Speaker) -> Pair:
    """I see the black horse."""
    who, number, other = subject(say)
    verbs, _, form, _ = verb(say, slice(0, -2), number)
    (english, _), noun = say.word("things")
    quality, so = say.word("qualities")
    return f"{who} {verbs} the {quality[0]} {english}.", say.each(
        de=lambda: f"{other[0]} {form} {of(noun[0], f'den {so[1]}en', f'die {so[1]}e', f'das {so[1]}e')} {noun[1]}.",
        fa=lambda: f"{other[0]} {ezafe(noun[0], so[0])} را {form}.",
        ru=lambda: f"{other[0]} {form} {of(noun[0], so[0], so[3], so[2])} {noun[2]}.",
        zh=lambda: f"{other[0]}{form}那{noun[0]}{so[0]}的{noun[1]}。",
    )
