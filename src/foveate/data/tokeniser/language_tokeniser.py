"""Tells a model which language to write, by a tag before its source."""

import re
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, ClassVar, Literal

from foveate.data.tokeniser.tokeniser import Tokeniser, require_known
from foveate.errors import DataError, UsageError
from foveate.suggestion import did_you_mean

DIRECTION = re.compile(r"[^\W\d_]\w*-[^\W\d_]\w*")


def require_direction(text: str, where: str) -> str:
    """A direction such as `en-fa`. Raises DataError for another text; `where` names its place."""
    if not DIRECTION.fullmatch(text):
        raise DataError(
            f"{where}: {text!r} is not a direction. Write the codes of both languages with a hyphen, as in en-fa; a "
            "code has letters, digits and underscores."
        )
    return text


class LanguageTokeniser(Tokeniser):
    """The ids of another tokeniser, and behind them a tag for each language that a model writes.

    The tag is the first id of a source, so that one model translates in several directions (Johnson et al. 2017,
    "Google's Multilingual Neural Machine Translation System", section 3). `into` chooses it:

    >>> from foveate.data.tokeniser.character import CharacterTokeniser
    >>> tokeniser = LanguageTokeniser(CharacterTokeniser.train(["abc"]), ["en-de", "de-en", "en-fa"])
    >>> tokeniser.targets, tokeniser.vocab_size
    (('de', 'en', 'fa'), 10)
    >>> persian = tokeniser.into("fa")
    >>> persian.encode("cab"), persian.pieces(persian.encode("cab"))
    ([9, 6, 4, 5], ['<2fa>', 'c', 'a', 'b'])

    A target has no tag: its tokeniser has the ids only because both sides may share their embeddings.
    """

    kind: ClassVar[str] = "languages"

    def __init__(
        self, inner: Tokeniser, directions: Sequence[str], *, side: Literal["source", "target"] = "source"
    ) -> None:
        """Raises DataError for a text that is not a direction such as `en-fa`."""
        self.inner, self.side = inner, side
        self.num_tags = int(side == "source")
        self.spells_in_bytes = inner.spells_in_bytes
        self.directions = tuple(sorted({require_direction(text, "directions") for text in directions}))
        self.targets = tuple(sorted({direction.partition("-")[2] for direction in self.directions}))
        self.vocab_size = inner.vocab_size + len(self.targets)
        self.to: str | None = None
        """The language of the next translations."""
        self._chosen: dict[str, LanguageTokeniser] = {}

    def into(self, language: str) -> "LanguageTokeniser":
        """This tokeniser, whose sources are translated into a language. Raises UsageError for one without a tag."""
        if language not in self._chosen:
            if language not in self.targets:
                written = language.partition("-")[2]
                raise UsageError(
                    f"The model does not write {language!r}, but {', '.join(self.targets)}."
                    + (f" Name the language alone: {written}." if written in self.targets else "")
                    + did_you_mean(language, self.targets)
                )
            chosen = copy(self)
            chosen.to = language
            self._chosen[language] = chosen
        return self._chosen[language]

    def number(self, direction: str) -> int:
        """The place of a direction among all. Raises UsageError for one that is not there."""
        if direction not in self.directions:
            raise UsageError(f"The model does not translate {direction}, but {', '.join(self.directions)}.")
        return self.directions.index(direction)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, those of a source after the tag. Raises UsageError before a language is chosen."""
        if self.side == "target":
            return self.inner.encode(text)
        tag = self._tag()
        ids = self.inner.encode(text)
        return [tag, *ids] if ids else []

    def _tag(self) -> int:
        if self.to is None:
            raise UsageError(
                f"This model writes several languages: {', '.join(self.targets)}. Name one with --to, or in Python "
                f"with translator.into({self.targets[0]!r})."
            )
        return self.inner.vocab_size + self.targets.index(self.to)

    def decode(self, ids: Iterable[int]) -> str:
        known = require_known(ids, self.vocab_size)
        return self.inner.decode([token for token in known if token < self.inner.vocab_size])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        known, size = require_known(ids, self.vocab_size), self.inner.vocab_size
        names = iter(self.inner.pieces([token for token in known if token < size]))
        return [next(names) if token < size else f"<2{self.targets[token - size]}>" for token in known]

    def content(self) -> dict[str, Any]:
        inner = {"kind": self.inner.kind, "content": self.inner.content()}
        return {"inner": inner, "directions": list(self.directions), "side": self.side}

    def surfaces(self, text: str) -> list[str]:
        return self._after_tag("", self.inner.surfaces(text))

    def labels(self, text: str) -> list[str]:
        return self._after_tag(f"<2{self.to}>", self.inner.labels(text))

    def _after_tag(self, tag: str, parts: list[str]) -> list[str]:
        return [tag, *parts] if parts and self.side == "source" else parts

    def unknown(self, token: int) -> bool:
        return token < self.inner.vocab_size and self.inner.unknown(token)

    def strange(self, text: str) -> list[str]:
        return self.inner.strange(text)


def translating(tokeniser: Tokeniser, language: str) -> LanguageTokeniser:
    """A source's tokeniser for translations into a language. Raises UsageError for a model of one direction."""
    if not isinstance(tokeniser, LanguageTokeniser):
        raise UsageError(
            "This model translates in one direction only, so that no language is chosen: leave out "
            f"--to {language}, or in Python into({language!r})."
        )
    return tokeniser.into(language)
