"""A classifier of texts behind an address."""

from collections.abc import Mapping, Sequence
from typing import Any

from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.served import Answered, Served, require_settings


class ServedClassifier(Served):
    """Labels texts."""

    verb = "classify"
    reader: TextClassifier

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        """`{"label": …, "probabilities": {label: …}}`, the most probable first; an empty text has no label."""
        require_settings(settings, self.settings)
        return [
            Answered({"label": one.label, "probabilities": one.probabilities}, self.tokens(text))
            for text, one in zip(texts, self.reader.classify(list(texts)), strict=True)
        ]
