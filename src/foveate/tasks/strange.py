"""Notes about words or characters that a model does not know, each reported once."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

MOST = 8
"""The largest number of words or characters that one note lists."""
BROKEN = "\ufffd"
"""The replacement character for invalid UTF-8."""


@runtime_checkable
class Reader(Protocol):
    """A tokeniser, or a tagger."""

    def strange(self, text: str) -> list[str]: ...


class Strangers:
    """Reports words or characters that the vocabulary of a model lacks, each of them once."""

    def __init__(self, reader: Reader, say: Callable[[str], None]) -> None:
        self.reader, self.say = reader, say
        self.named = set[str]()

    def note(self, texts: Sequence[str]) -> None:
        """Report unknown words or characters in texts."""
        for text in texts:
            unknown = [each for each in self.reader.strange(text) if each not in self.named]
            if unknown:
                self.named.update(unknown)
                self.say(warning(unknown, self._smaller(text)))

    def broken(self, text: str) -> str:
        """The text that a model generated, unchanged; reports invalid UTF-8 or unknown tokens in it."""
        if BROKEN in text and BROKEN not in self.named:
            self.named.add(BROKEN)
            self.say(f"{BROKEN} marks incomplete characters, or tokens that the vocabulary lacks.")
        return text

    def _smaller(self, text: str) -> str:
        """The text in lower case if the vocabulary knows all of that, else an empty string."""
        lower = text.lower()
        return lower if lower != text and not self.reader.strange(lower) else ""


def warning(unknown: Sequence[str], smaller: str = "") -> str:
    """A note about unknown words or characters.

    >>> warning(["H", "E"], "hello")
    "The model has never seen 'H', 'E': what it says about them is a guess. It knows small letters: 'hello'."
    """
    shown = ", ".join(map(repr, unknown[:MOST])) + (f" and {len(unknown) - MOST} more" if len(unknown) > MOST else "")
    hint = f" It knows small letters: {smaller[:60]!r}." if smaller else ""
    what = "them" if len(unknown) > 1 else "it"
    return f"The model has never seen {shown}: what it says about {what} is a guess.{hint}"
