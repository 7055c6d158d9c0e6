"""The text of tokens that come one after another, told as soon as it is sure, at a cost that does not grow with it."""

from collections.abc import Callable, Sequence

CONTEXT, WINDOW = 8, 32
"""The text of a token depends on a few tokens around it: so many are decoded again with it, and at most so many."""
UNSURE = 3
"""The most characters that stand for the bytes of one that is not complete."""
BROKEN = "\ufffd"


class RunningText:
    """Tells the text of tokens in parts, which together are the text of all.

    No character is told before its last byte has come: an incomplete one is decoded as �, and so are bytes that never
    become one, which are told when more text follows or the tokens end.

    >>> from foveate.data.tokeniser import ByteTokeniser
    >>> tokeniser = ByteTokeniser()
    >>> running = RunningText(tokeniser.decode, tokeniser.encode("a caf"))
    >>> [running.add(token) for token in tokeniser.encode("é!")], running.end()
    (['', 'é', '!'], '')
    """

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        before: Sequence[int] = (),
        *,
        is_partial: Callable[[int], bool] = lambda token: False,
    ) -> None:
        """`decode` returns the text of consecutive tokens; `before` are the tokens of the text that is gone on from.
        The text after a token that `is_partial` waits for a token that is not.
        """
        self._decode, self._is_partial = decode, is_partial
        self._tokens = self._latest(before)
        self._place = len(decode(self._tokens))
        """The characters of these tokens that were told before."""

    def add(self, token: int) -> str:
        """The text that is sure after one more token, beyond what was told."""
        self._tokens.append(token)
        return "" if self._is_partial(token) else self._news(UNSURE)

    def end(self) -> str:
        """The rest of the text."""
        return self._news(0)

    def _news(self, unsure: int) -> str:
        text = self._decode(self._tokens)
        broken = min(len(text) - len(text.rstrip(BROKEN)), unsure)
        news = text[self._place : len(text) - broken]
        self._place += len(news)
        if len(self._tokens) > WINDOW:
            self._forget(text)
        return news

    def _forget(self, text: str) -> None:
        """Leave early tokens out, unless the text of the others would be another one without them."""
        latest = self._latest(self._tokens)
        shorter = self._decode(latest)
        place = len(shorter) - (len(text) - self._place)
        if place >= 0 and text.endswith(shorter):
            self._tokens, self._place = latest, place

    def _latest(self, tokens: Sequence[int]) -> list[int]:
        """The last tokens, from one on that stands for characters of its own."""
        start = max(0, len(tokens) - CONTEXT)
        while start and self._is_partial(tokens[start]):
            start -= 1
        return list(tokens[start:])
