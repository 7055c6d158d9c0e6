"""The result of a translator."""

from dataclasses import dataclass

from foveate.search import Hypothesis


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
