"""What a model has never seen in a text, said once."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

MOST = 8
"""Words or characters that a sentence names."""
BROKEN = "\ufffd"
"""Stands for bytes that are no letter."""


@runtime_checkable
class Reader(Protocol):
    """A tokeniser, or a tagger."""

    def strange(self, text: str) -> list[str]: ...


class Strangers:
    """Names what the vocabulary of a model lacks, text by text; what was named once is not named again."""

    def __init__(self, reader: Reader, say: Callable[[str], None]) -> None:
        self.reader, self.say = reader, say
        self.named = set[str]()

    def note(self, texts: Sequence[str]) -> None:
        """Say what is strange in some texts."""
        for text in texts:
            unknown = [each for each in self.reader.strange(text) if each not in self.named]
            if unknown:
                self.named.update(unknown)
                self.say(warning(unknown, self._smaller(text)))

    def broken(self, text: str) -> str:
        """What a model wrote, with a word about bytes in it that are no letters."""
        if BROKEN in text and BROKEN not in self.named:
            self.named.add(BROKEN)
            self.say(f"Where {BROKEN} stands, the model wrote a part of a letter, or what its vocabulary lacks.")
        return text

    def _smaller(self, text: str) -> str:
        """The text in small letters, where these are known."""
        lower = text.lower()
        return lower if lower != text and not self.reader.strange(lower) else ""


def warning(unknown: Sequence[str], smaller: str = "") -> str:
    """A sentence about what is strange.

    >>> warning(["H", "E"], "hello")
    "The model has never seen 'H', 'E': what it says about them is a guess. It knows small letters: 'hello'."
    """
    shown = ", ".join(map(repr, unknown[:MOST])) + (f" and {len(unknown) - MOST} more" if len(unknown) > MOST else "")
    hint = f" It knows small letters: {smaller[:60]!r}." if smaller else ""
    what = "them" if len(unknown) > 1 else "it"
    return f"The model has never seen {shown}: what it says about {what} is a guess.{hint}"
