"""The texts that end a continuation."""

from collections.abc import Sequence


class Endings:
    """Passes a text on up to the first of its ends, part by part. What may begin an end waits.

    >>> endings = Endings(["<end>"])
    >>> [endings.add(part) for part in ("one <", "two> <e", "nd> three")]
    [('one ', False), ('<two> ', False), ('', True)]
    """

    def __init__(self, ends: Sequence[str]) -> None:
        self._ends = tuple(ends)
        self._held = ""

    def add(self, part: str) -> tuple[str, bool]:
        """The text that is certainly before an end, beyond what was passed on, and whether the end has come."""
        if not part:
            return "", False
        text = self._held + part
        places = [(place + len(end), place) for end in self._ends if (place := text.find(end)) >= 0]
        if places:  # the end that is complete first comes first, however the text is divided into parts
            self._held = ""
            return text[: min(places)[1]], True
        size = max((_overlap(text, end) for end in self._ends), default=0)
        passed, self._held = text[: len(text) - size], text[len(text) - size :]
        return passed, False

    def rest(self) -> str:
        """The text that was held back, because no end has followed."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, end: str) -> int:
    """The number of letters at the text's end that begin `end`.

    >>> _overlap("so --", "---")
    2
    """
    return next((size for size in range(min(len(end) - 1, len(text)), 0, -1) if text.endswith(end[:size])), 0)
