"""Translates a text again with words or heads switched off, for the viewer."""

from collections.abc import Sequence
from functools import cached_property

from foveate.inspect import Trace
from foveate.inspect.ablation import switched_off
from foveate.inspect.answer_switch import Ablation, hidden, looking, shares
from foveate.tasks.translate.use import Translation, Translator, trace_of


class TranslationAblator:
    """Translates a source again with switches; a translation that is `forced` stays, and only its cost changes."""

    track = "source"

    def __init__(self, translator: Translator, translation: Translation, trace: Trace, *, forced: bool = False) -> None:
        self.translator, self.first, self.whole, self.forced = translator.by_steps(), translation, trace, forced

    @cached_property
    def _before(self) -> float:
        return self.translator.score(self.first)

    def __call__(
        self, *, heads_off: Sequence[tuple[str, int]], tokens_off: Sequence[int], site: str, head: int | None
    ) -> Ablation:
        translator, before = self.translator, self._before
        off = hidden(self.whole, self.track, tokens_off)
        with switched_off(translator.model, heads=heads_off, keys=off, sites=looking(self.whole, self.track)):
            written = self.first if self.forced else translator.translate(self.first.source)
            now = translator.score(self.first)
            trace = trace_of(translator, written, stored="float32")
        return Ablation(
            tokens_off=off,
            tracks=trace.tracks,
            weights=shares(trace, site, head, heads_off),
            log_probability=now,
            log_probability_before=before,
        )
