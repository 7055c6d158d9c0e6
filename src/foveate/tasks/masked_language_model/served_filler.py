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
    settings = ("best", "gap", "texts")
    sample = (f"This sentence has a {GAP}.", {})
    reader: Filler

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        """`{"text": …, "gaps": [[{"piece": …, "probability": …}, …], …]}`, the best candidates first. With the setting
        `texts` each candidate also has its `token` and the `text` with it, which is for texts of one gap.
        """
        require_settings(settings, self.settings)
        gap = settings.get("gap", GAP)
        if not isinstance(gap, str) or not gap:
            raise UsageError(f"gap is the sign of a gap in the text, got {gap!r}.")
        best = whole(settings, "best", 5, MOST)
        return numbered(texts, lambda text: self._filled(text, best, gap, bool(settings.get("texts"))))

    def _filled(self, text: str, best: int, gap: str, with_texts: bool) -> Answered:
        one = self.reader.fill(text, best=best, gap=gap)
        gaps: list[list[dict[str, Any]]] = [
            [{"piece": piece, "probability": share} for piece, share in row] for row in one.choices
        ]
        if with_texts:
            if len(gaps) != 1:
                raise UsageError(f"texts are for one gap, and there are {len(gaps)}. Leave the setting out.")
            for candidate, token in zip(gaps[0], one.tokens[0], strict=True):
                candidate |= {"token": token, "text": self.reader.filled(text, [token], gap=gap)}
        return Answered({"text": one.text, "gaps": gaps}, self.tokens(text), len(gaps))

    def strange(self, text: str, settings: Mapping[str, Any]) -> list[str]:
        between = self.reader.parts_to_read(text, settings.get("gap") or GAP)
        return super().strange("\n".join(between), settings)

    def summary(self, text: str) -> dict[str, Any]:
        return super().summary(text) if any(sign in text for sign in self.reader.signs(GAP)) else {"text": text}
