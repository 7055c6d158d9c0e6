"""Translation in flight: texts join a batch that is being translated, and leave it when they are complete."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from foveate.data.batch import Batch
from foveate.data.text import require_texts
from foveate.decode import DecodeConfig, Flight, Hypothesis, Limits
from foveate.decode.flight import require_names
from foveate.errors import UsageError
from foveate.tasks.translate.engine import length_limits
from foveate.tasks.translate.translation import Translation
from foveate.tasks.translate.use import Translator


class TranslationFlight:
    """`Translator.translate` for texts that arrive at any time, with the same results.

    `admit` puts texts under names of the caller's into the queue, `tick` decodes one token of all texts in flight and
    returns those that are complete, `drop` forgets texts. The model must not change while texts are in flight.

    >>> from foveate import Translator
    >>> flight = TranslationFlight(Translator.load("en-fr"))
    >>> flight.admit(["first"], ["Good morning!"])
    >>> while not (complete := flight.tick()):
    ...     pass
    >>> [(name, translation.text) for name, translation in complete]
    [('first', 'Bonjour !')]
    """

    def __init__(self, translator: Translator, config: DecodeConfig | None = None, **places: Any) -> None:
        """`config` is by default the translator's; `places` are `capacity`, `gather` and `patience` of a `Flight`.

        Raises UsageError for a translator with another engine than ours.
        """
        if str(translator.engine) != "own":
            raise UsageError(
                f"Texts in flight are decoded by our own engine, and engine {translator.engine} decodes whole batches. "
                "Load the translator without `engine`."
            )
        self.translator, self.config = translator, translator.config if config is None else config
        model: Any = translator.model

        def start(sources: Sequence[list[int]], beam: int) -> Any:
            return model.start(Batch.of(sources), beam)

        native = getattr(model, "begin_flight", None)
        if native is not None:  # boarding costs little more than the encoder: benchmarks/README.md, "In flight"
            places = {"gather": 4, "patience": 2, **places}
        self.flight = Flight[list[int]](model, start, self.config, native=native, **places)
        self._texts: dict[Hashable, str] = {}
        self._empty: list[Hashable] = []

    @property
    def busy(self) -> bool:
        """Whether texts wait or are in flight."""
        return bool(self._texts)

    def admit(
        self,
        names: Sequence[Hashable],
        texts: Sequence[str],
        limits: Sequence[Limits] | None = None,
        *,
        to: str | None = None,
    ) -> None:
        """Queue texts. Their limits are within those of `translate`; `to` is the language that a model of several
        languages writes, of these texts alone.

        Raises UsageError for a name that is taken, for impossible limits and for a language that the model does not
        write, DataError for a text with more tokens than the model has positions; then none of the texts is admitted.
        """
        require_texts(texts)
        limits = [Limits()] * len(names) if limits is None else limits
        require_names(names, texts, limits, taken=self._texts)
        translator = self.translator if to is None else self.translator.into(to)
        sources = [translator.encode(text, f"Text {name!r}") for name, text in zip(names, texts, strict=True)]
        allowed = length_limits(self.translator.model, sources, self.config)
        own = [
            replace(
                each,
                max_length=most if each.max_length is None else min(most, each.max_length),
                size=each.size or len(source),
            )
            for each, most, source in zip(limits, allowed, sources, strict=True)
        ]
        real = [place for place, source in enumerate(sources) if source]
        parts = ([values[place] for place in real] for values in (names, sources, own))
        self.flight.admit(*parts)  # type: ignore[arg-type]
        self._texts.update(zip(names, texts, strict=True))
        self._empty += [name for name, source in zip(names, sources, strict=True) if not source]

    def drop(self, names: Sequence[Hashable]) -> None:
        """Forget texts, wherever they are. Unknown names are ignored."""
        self.flight.drop(names)
        for name in names:
            self._texts.pop(name, None)
        self._empty = [name for name in self._empty if name in self._texts]

    def tick(self, steps: int = 1) -> list[tuple[Hashable, Translation]]:
        """Decode one token of every text in flight, or up to `steps` of them until a text is complete, after some that
        wait were started. Returns those that are complete, by their names; an empty text has no hypotheses.

        Raises what `translate` raises if one of the texts has no hypothesis. The flight cannot go on then.
        """
        complete: list[tuple[Hashable, list[Hypothesis]]] = [(name, []) for name in self._empty]
        self._empty = []
        complete += [(arrival.name, arrival.hypotheses) for arrival in self.flight.tick(steps)]
        return [(name, self.translator.written(self._texts.pop(name), hypotheses)) for name, hypotheses in complete]
