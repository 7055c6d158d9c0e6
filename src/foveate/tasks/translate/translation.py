"""The result of a translator."""

import re
from dataclasses import dataclass

from foveate.data.tokeniser import BOS, EOS, Tokeniser
from foveate.search import DecodeConfig, Hypothesis

END = "</s>"
BREAK = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Translation:
    """The hypotheses for one input, the best first."""

    source: str
    texts: tuple[str, ...]
    hypotheses: tuple[Hypothesis, ...]

    @property
    def text(self) -> str:
        """The best hypothesis; empty for an empty input."""
        return self.texts[0] if self.texts else ""

    @property
    def finished(self) -> bool:
        """False if the best hypothesis reached the length limit."""
        return not self.hypotheses or self.hypotheses[0].finished


@dataclass(frozen=True)
class Forced:
    """The input of a teacher-forced pass over a translation, and the names of the tokens in an alignment."""

    source: list[int]
    """With its end."""
    target: list[int]
    """With its begin, and its end if the translation has one."""
    columns: list[str]
    rows: list[str]

    @classmethod
    def of(cls, translation: Translation, source_tokeniser: Tokeniser, target_tokeniser: Tokeniser) -> "Forced":
        best = translation.hypotheses[0].tokens if translation.hypotheses else ()
        end = [EOS] if translation.finished else []
        known = target_tokeniser.encode(translation.text) == list(best)
        names = target_tokeniser.labels(translation.text) if known else target_tokeniser.pieces(best)
        return cls(
            source=[*source_tokeniser.encode(translation.source), EOS],
            target=[BOS, *best, *end],
            columns=[*source_tokeniser.labels(translation.source), END],
            rows=[*names, *(END for _ in end)],
        )


def one_line(text: str) -> str:
    """A generated text with spaces for line breaks and tabs, which a model that spells in bytes can write: a line has
    one line of translation.
    """
    return BREAK.sub(" ", text)


def length_limit(length: int, config: DecodeConfig) -> int:
    """The most tokens of a hypothesis with its end: twice as many as its source has, and ten, but at least one more
    than the configuration wants.
    """
    return min(max(2 * length + 10, config.min_length + 1), config.max_length)
