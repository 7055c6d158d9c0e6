"""Makes everyday English and French sentences, by a small grammar and a list of phrases that were written for this
project.

Verses, manuals and menus have few sentences such as "the black cat sleeps on the chair". The grammar includes articles,
agreement, elision and the position of adjectives. Its sentences are additional training data and are not used for
tests. It has statements, questions and negations, the past, plans, hours and numbers. The words are in `everyday.json`:
nouns with their gender, adjectives in both genders, verbs in five persons, participles and infinitives.

    >>> sentences(most=2000)[-1]
    ('Thank you very much.', 'Merci beaucoup.')
"""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORDS: dict[str, Any] = json.loads((Path(__file__).parent / "everyday.json").read_text("utf-8"))


def sentences(most: int = 15000, seed: int = 1) -> list[tuple[str, str]]:
    """The different pairs among `most` random ones by the grammar, then each phrase 20 times."""
    chance = random.Random(seed)
    patterns = (_is, _does, _has, _where, _there_is, _goes, _counts, _mood, _asks, _lacks, _did, _will, _hour, _feels)
    made: dict[tuple[str, str], None] = {}
    for _ in range(most):
        english, french = chance.choice(patterns)(chance)
        made[_capital(english), _capital(french)] = None
    phrases = [(english, french) for english, french in WORDS["phrases"] for _ in range(20)]
    return [*made, *phrases]


def _is(chance: random.Random) -> tuple[str, str]:
    english, french = _noun_phrase(chance, "nouns")
    mood, *forms = _adjective(chance, "after")
    very, tres = chance.choice([("", ""), ("very ", "très "), ("not ", ""), ("too ", "trop ")])
    verb = "n'est pas" if very == "not " else "est"
    return f"{english[0]} is {very}{mood}.", f"{french} {verb} {tres}{forms[english[1] == 'f']}."


def _does(chance: random.Random) -> tuple[str, str]:
    who, qui = _noun_phrase(chance, "people")
    english, french = chance.choice(WORDS["doings"])
    where, ou = _noun_phrase(chance, "places", articles=["the"])
    return f"{who[0]} {english} in {where[0]}.", f"{qui} {french} dans {ou}."


def _has(chance: random.Random) -> tuple[str, str]:
    (who, rest), (verb, forms) = chance.choice(WORDS["subjects"]), chance.choice(WORDS["verbs"])
    qui, number = rest.rsplit(" ", 1)
    base, third = verb.split()
    does = third if number == "2" else base
    if base == "look_for":
        does = WORDS["going"][int(number)][0].replace("going", "looking for")
    what, quoi = _noun_phrase(chance, "nouns")
    return f"{who} {does} {what[0]}.", _elided(f"{qui} {forms.split()[int(number)]} {quoi}.")


def _where(chance: random.Random) -> tuple[str, str]:
    what, quoi = _noun_phrase(chance, "nouns", articles=["the", "my", "your", "his"])
    begin, debut, end, fin = chance.choice([("Where is", "Où est", "?", " ?"), ("This is", "C'est", ".", ".")])
    return f"{begin} {what[0]}{end}", f"{debut} {quoi}{fin}"


def _there_is(chance: random.Random) -> tuple[str, str]:
    what, quoi = _noun_phrase(chance, "nouns", articles=["a"])
    where, ou = _noun_phrase(chance, "places", articles=["the", "my", "this"])
    return f"There is {what[0]} in {where[0]}.", f"Il y a {quoi} dans {ou}."


def _goes(chance: random.Random) -> tuple[str, str]:
    who, rest = chance.choice(WORDS["subjects"])
    qui, number = rest.rsplit(" ", 1)
    verb, verbe = WORDS["going"][int(number)]
    (place, lieu) = chance.choice(WORDS["places"])
    lieu, gender = lieu.split()
    when, quand = chance.choice([*WORDS["when"], *((f"On {day}", jour.capitalize()) for day, jour in WORDS["days"])])
    to = f"à l'{lieu}" if _vowel(lieu) else f"{'à la' if gender == 'f' else 'au'} {lieu}"
    return f"{when} {who} {verb} to the {place}.", f"{quand}, {qui} {verbe} {to}."


def _counts(chance: random.Random) -> tuple[str, str]:
    (number, nombre), (what, rest) = chance.choice(WORDS["numbers"]), chance.choice(WORDS["nouns"])
    quoi, gender = rest.split()
    colour, *forms = _adjective(chance, "after")
    quoi, couleur = _plural(quoi), _plural(forms[gender == "f"])
    (who, rest), (verb, verbs) = chance.choice(WORDS["subjects"]), WORDS["verbs"][1]
    qui, person = rest.rsplit(" ", 1)
    have = verb.split()[person == "2"]
    if chance.random() < 0.5:
        return f"there are {number} {colour} {_english_plural(what)} here.", f"il y a {nombre} {quoi} {couleur} ici."
    avoir = verbs.split()[int(person)]
    return f"{who} {have} {number} {_english_plural(what)}.", _elided(f"{qui} {avoir} {nombre} {quoi}.")


def _mood(chance: random.Random) -> tuple[str, str]:
    mood, *forms = _adjective(chance, "moods")
    several = _plural(forms[0])
    who, qui, verb, verbe, form = chance.choice(
        [
            ("I", "je", "am", "suis", forms[0]),
            ("he", "il", "is", "est", forms[0]),
            ("she", "elle", "is", "est", forms[1]),
            ("we", "nous", "are", "sommes", several),
            ("they", "ils", "are", "sont", several),
        ]
    )
    very, tres = chance.choice([("", ""), ("very ", "très "), ("not ", ""), ("always ", "toujours ")])
    if very == "not ":
        verbe = f"n'{verbe} pas" if verbe == "est" else f"ne {verbe} pas"
    return f"{who} {verb} {very}{mood}.", f"{qui} {verbe} {tres}{form}."


def _asks(chance: random.Random) -> tuple[str, str]:
    verb, forms = chance.choice(WORDS["verbs"])
    what, quoi = _noun_phrase(chance, "nouns")
    base = verb.split()[0]
    ask = "are you looking for" if base == "look_for" else f"do you {base}"
    return f"{ask} {what[0]}?", f"{forms.split()[1]}-vous {quoi} ?"


def _lacks(chance: random.Random) -> tuple[str, str]:
    (who, rest), (verb, forms) = chance.choice(WORDS["subjects"]), chance.choice(WORDS["verbs"])
    qui, number = rest.rsplit(" ", 1)
    what, quoi = _noun_phrase(chance, "nouns", articles=["the", "my", "your", "this"])
    form = forms.split()[int(number)]
    no = "n'" if _vowel(form) else "ne "
    do = chance.choice(["does not", "doesn't"] if number == "2" else ["do not", "don't"])
    return f"{who} {do} {verb.split()[0].replace('_', ' ')} {what[0]}.", f"{qui} {no}{form} pas {quoi}."


def _did(chance: random.Random) -> tuple[str, str]:
    (who, rest), (verb, verbe) = chance.choice(WORDS["subjects"]), chance.choice(WORDS["past"])
    qui, number = rest.rsplit(" ", 1)
    have = WORDS["verbs"][1][1].split()[int(number)]
    what, quoi = _noun_phrase(chance, "nouns")
    when, quand = chance.choice([("", ""), (" yesterday", " hier"), (" this morning", " ce matin")])
    return f"{who} {verb} {what[0]}{when}.", _elided(f"{qui} {have} {verbe} {quoi}{quand}.")


def _will(chance: random.Random) -> tuple[str, str]:
    (who, rest), (verb, verbe) = chance.choice(WORDS["subjects"]), chance.choice(WORDS["infinitives"])
    qui, number = rest.rsplit(" ", 1)
    go, va = WORDS["going"][int(number)]
    what, quoi = _noun_phrase(chance, "nouns")
    return f"{who} {go} to {verb} {what[0]}.", f"{qui} {va} {verbe} {quoi}."


def _hour(chance: random.Random) -> tuple[str, str]:
    number, nombre = chance.choice([pair for pair in WORDS["numbers"] if pair[0] not in ("twelve", "twenty")])
    return chance.choice(
        [
            (f"it is {number} o'clock.", f"il est {nombre} heures."),
            (f"it is half past {number}.", f"il est {nombre} heures et demie."),
            (f"the train leaves at {number} o'clock.", f"le train part à {nombre} heures."),
            (f"we eat at {number} o'clock.", f"nous mangeons à {nombre} heures."),
            (f"I am {number} years old.", f"j'ai {nombre} ans."),
            (f"I have {number} brothers.", f"j'ai {nombre} frères."),
        ]
    )


def _feels(chance: random.Random) -> tuple[str, str]:
    (who, rest), (feeling, noun) = chance.choice(WORDS["subjects"]), chance.choice(WORDS["feelings"])
    qui, number = rest.rsplit(" ", 1)
    be = WORDS["going"][int(number)][0].removesuffix(" going")
    have = WORDS["verbs"][1][1].split()[int(number)]
    if chance.random() < 0.3:
        return f"{who} {be} not {feeling}.", f"{qui} n'{have} pas {noun}."
    return f"{who} {be} {feeling}.", _elided(f"{qui} {have} {noun}.")


def _noun_phrase(chance: random.Random, nouns: str, articles: list[str] | None = None) -> tuple[tuple[str, str], str]:
    """((English, gender), French), such as (("the black cat", "m"), "le chat noir")."""
    english, rest = chance.choice(WORDS[nouns])
    noun, gender = rest.split()
    article = chance.choice(articles or ["the", "the", "a", "my", "your", "this"])
    place = chance.choice(["none", "before", "after", "after"])
    if place == "none":
        words, mots = english, noun
    else:
        adjective, *forms = _adjective(chance, "before" if place == "before" else "after")
        form = forms[gender == "f"]
        words, mots = f"{adjective} {english}", f"{form} {noun}" if place == "before" else f"{noun} {form}"
    if article == "a" and words.startswith("other "):
        return (f"an{words}", gender), f"{_article(article, gender, mots)}{mots}"
    if article == "a" and words[0].lower() in "aeiou" and not words.startswith("European"):
        article = "an"
    return (f"{article} {words}", gender), f"{_article(article, gender, mots)}{mots}"


def _article(english: str, gender: str, following: str) -> str:
    feminine, vowel = gender == "f", _vowel(following)
    if english == "the":
        return "l'" if vowel else "la " if feminine else "le "
    if english in ("a", "an"):
        return "une " if feminine else "un "
    if english == "this":
        return "cette " if feminine else "cet " if vowel else "ce "
    if english == "your":
        return "votre "
    first = {"my": "m", "his": "s"}[english]
    return f"{first}{'a' if feminine and not vowel else 'on'} "


def _adjective(chance: random.Random, table: str) -> tuple[str, str, str]:
    english, forms = chance.choice(WORDS[table])
    masculine, feminine = forms.split()
    return english, masculine, feminine


def _plural(word: str) -> str:
    if word in WORDS["plurals"]:
        return WORDS["plurals"][word]
    if word.endswith(("s", "x", "z")):
        return word
    return word + "s"


def _english_plural(word: str) -> str:
    return WORDS["english_plurals"].get(word, word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s"))


def _elided(french: str) -> str:
    return f"j'{french[3:]}" if french.startswith("je ") and _vowel(french[3:]) else french


def _vowel(word: str) -> bool:
    return word[0].lower() in "aeiouéêèîœ" or word.startswith(("homme", "hôtel", "hôpital"))


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def bare_forms(words: Sequence[str]) -> list[str]:
    """Lower-case words, without punctuation and without elided articles before an apostrophe.

    >>> bare_forms(["L'homme", "est", "fatigué."])
    ['homme', 'est', 'fatigué']
    """
    return [re.sub(r"\W", "", word.casefold().rpartition("'")[2]) for word in words]
