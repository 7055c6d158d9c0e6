"""Notes about words and characters that a model has never seen. No torch here: a short answer needs none."""

from collections.abc import Callable, Sequence
from typing import Any

from foveate.suggestion import listing

MOST = 8
"""The largest number of words or characters that one note lists."""
BROKEN = "\ufffd"
"""The replacement character for invalid UTF-8."""


class Strangers:
    """Reports words or characters that the vocabulary of a model lacks, each of them once."""

    def __init__(self, vocabulary: Any, say: Callable[[str], None]) -> None:
        """`vocabulary` has a method `strange(text)`, as tokenisers, taggers and classifiers do."""
        self.vocabulary, self.say = vocabulary, say
        self.named = set[str]()

    def note(self, texts: Sequence[str]) -> None:
        """Report unknown words or characters in texts, and whether the vocabulary has them in lower case."""
        for text in texts:
            unknown = [each for each in self.vocabulary.strange(text) if each not in self.named]
            if unknown:
                self.named.update(unknown)
                lower = text.lower()
                smaller = lower if lower != text and not self.vocabulary.strange(lower) else ""
                self.say(warning(unknown, smaller, spelt=getattr(self.vocabulary, "spells_in_bytes", False)))

    def broken(self, text: str) -> str:
        """The text that a model generated, unchanged; reports invalid UTF-8 or unknown tokens in it."""
        if BROKEN in text and BROKEN not in self.named:
            self.named.add(BROKEN)
            self.say(f"{BROKEN} marks incomplete characters, or tokens that the vocabulary lacks.")
        return text


def warning(unknown: Sequence[str], smaller: str = "", *, spelt: bool = False) -> str:
    """A note about unknown words or characters, or about characters that are spelt in bytes.

    >>> warning(["H", "E"], "hello")
    "The model's vocabulary lacks 'H', 'E': what it says about them is a guess. It knows small letters: 'hello'."
    >>> warning(["%"], spelt=True)
    "The model's vocabulary lacks '%' and spells it in bytes: what it says about it may be a guess."
    """
    hint = f" It knows small letters: {smaller[:60]!r}." if smaller else ""
    what = "them" if len(unknown) > 1 else "it"
    start = f"The model's vocabulary lacks {listing(map(repr, unknown), MOST)}"
    if spelt:
        return f"{start} and spells {what} in bytes: what it says about {what} may be a guess.{hint}"
    return f"{start}: what it says about {what} is a guess.{hint}"
