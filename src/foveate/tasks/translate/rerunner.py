"""A translation model behind the viewer, which can run again with another text or without some heads or tokens."""

from collections.abc import Sequence

from foveate.errors import UsageError
from foveate.inspect import Trace
from foveate.inspect.ablation import switched_off
from foveate.inspect.rerun import Rerun
from foveate.tasks.translate.use import END, Translation, Translator, trace_of


class TranslationRerunner:
    """Runs a translator again and compares the result with its first translation."""

    def __init__(self, translator: Translator, translation: Translation, trace: Trace) -> None:
        self.translator, self.first = translator, translation
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
        output = self.first.text
        with switched_off(self.translator.model, heads=heads_off, keys=hidden, sites=self.reading):
            done = self._translated(source, target)
            cost = self._probability(source, output)
            trace = trace_of(self.translator, done)
        return Rerun(
            trace=trace,
            output=self._pieces(done),
            before=self._pieces(self.first),
            log_probability=cost,
            log_probability_before=self._probability(source, output),
        )

    def _translated(self, source: str, target: str | None) -> Translation:
        return self.translator.translate([source])[0] if target is None else self.translator.forced(source, target)

    def _probability(self, source: str, target: str) -> float:
        return float(self.translator.forced(source, target).hypotheses[0].log_probability)

    def _pieces(self, translation: Translation) -> tuple[str, ...]:
        best = translation.hypotheses[0]
        end = [END] if best.finished else []
        return (*self.translator.target_tokeniser.pieces(best.tokens), *end)
