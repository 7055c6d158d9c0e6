"""A model that fills gaps, behind an address."""

from collections.abc import Mapping, Sequence
from typing import Any

from foveate.errors import UsageError
from foveate.tasks.masked_language_model.use import GAP, Filler
from foveate.tasks.served import Answered, Served, numbered, require_settings, whole

MOST = 100
"""The most candidates for a gap."""


class ServedFiller(Served):
    """Fills the gaps of texts."""

    verb = "fill"
    settings = ("best", "gap")
    sample = (f"This sentence has a {GAP}.", {})
    reader: Filler

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        """`{"text": …, "gaps": [[{"piece": …, "probability": …}, …], …]}`, the best candidates first."""
        require_settings(settings, self.settings)
        gap = settings.get("gap", GAP)
        if not isinstance(gap, str) or not gap:
            raise UsageError(f"gap is the sign of a gap in the text, got {gap!r}.")
        best = whole(settings, "best", 5, MOST)
        fillings = numbered(texts, lambda text: self.reader.fill(text, best=best, gap=gap))
        return [
            Answered(
                {
                    "text": one.text,
                    "gaps": [[{"piece": piece, "probability": share} for piece, share in row] for row in one.choices],
                },
                self.tokens(text),
                len(one.choices),
            )
            for text, one in zip(texts, fillings, strict=True)
        ]

    def summary(self, text: str) -> dict[str, Any]:
        return super().summary(text) if any(sign in text for sign in self.reader.signs(GAP)) else {"text": text}
