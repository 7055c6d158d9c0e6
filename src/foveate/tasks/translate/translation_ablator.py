"""Translates a text again with words or heads switched off, for the viewer."""

from foveate.inspect import Trace
from foveate.inspect.answer_switch import ModelAblator
from foveate.tasks.translate.translation import Translation
from foveate.tasks.translate.translation_trace import trace_of
from foveate.tasks.translate.use import Translator


class TranslationAblator(ModelAblator):
    """Translates a source again with switches; a translation that is `forced` stays, and only its cost changes."""

    def __init__(self, translator: Translator, translation: Translation, trace: Trace, *, forced: bool = False) -> None:
        self.translator, self.first, self.forced = translator.by_steps(), translation, forced
        super().__init__(self.translator.model, "source", trace)

    def read(self) -> Trace:
        written = self.first if self.forced else self.translator.translate(self.first.source)
        return trace_of(self.translator, written, stored="float32")

    def score(self) -> float:
        return self.translator.score(self.first)
