"""Runs a translator again with words or heads switched off."""

from collections.abc import Sequence
from dataclasses import replace

from foveate.errors import UsageError
from foveate.inspect import Trace
from foveate.inspect.ablation import switched_off
from foveate.inspect.rerun import Rerun
from foveate.tasks.translate.translation import Translation
from foveate.tasks.translate.translation_trace import reread, trace_of
from foveate.tasks.translate.use import Translator


class TranslationRerunner:
    """Runs a translator again and compares the result with its first translation."""

    def __init__(self, translator: Translator, translation: Translation, trace: Trace) -> None:
        self.translator, self.first = translator.by_steps(), translation
        self.reading = [site.name for site in trace.sites if site.key == "source"]

    def __call__(
        self,
        source: str,
        target: str | None,
        *,
        heads_off: Sequence[tuple[str, int]],
        tokens_off: Sequence[int],
    ) -> Rerun:
        if not source.strip():
            raise UsageError("The text is empty: there is nothing to run.")
        length = len(self.translator.source_tokeniser.encode(source)) + 1
        hidden = [token for token in tokens_off if token < length]
        if len(set(hidden)) == length:
            raise UsageError("All tokens are off: leave one on.")
        translator, first = self.translator, replace(self.first, source=source)
        with switched_off(translator.model, heads=heads_off, keys=hidden, sites=self.reading):
            done = translator.translate(source) if target is None else translator.forced(source, target)
            log_probability = translator.score(first)
            trace = trace_of(translator, done)
        output, before = (tuple(reread(translator, each)[2]) for each in (done, first))
        return Rerun(
            trace=trace,
            output=output,
            before=before,
            log_probability=log_probability,
            log_probability_before=translator.score(first),
        )
