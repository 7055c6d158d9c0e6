"""A tagger behind an address."""

from collections.abc import Mapping, Sequence
from typing import Any

from foveate.tasks.served import Answered, Served, require_settings
from foveate.tasks.tag.use import SentenceTagger


class ServedTagger(Served):
    """Tags the words of texts, which stand between white space."""

    verb = "tag"
    reader: SentenceTagger

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        """`{"words": […], "tags": […], "probabilities": […]}`"""
        require_settings(settings, self.settings)
        return [
            Answered(
                {"words": list(one.words), "tags": list(one.tags), "probabilities": list(one.probabilities)},
                len(one.words),
                len(one.tags),
            )
            for one in self.reader.tag(list(texts))
        ]

    @property
    def vocabulary(self) -> SentenceTagger:
        return self.reader

    def tokens(self, text: str) -> int:
        return len(text.split())
