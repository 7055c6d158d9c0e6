"""A translator behind an address."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

from foveate.data.tokeniser import LanguageTokeniser, Tokeniser
from foveate.decode import BeamConfig, DecodeConfig, GreedyConfig
from foveate.errors import DataError, UsageError
from foveate.inspect import Trace
from foveate.suggestion import did_you_mean
from foveate.tasks.run_model import require_text
from foveate.tasks.served import Answered, Served, Tell, require_settings, whole
from foveate.tasks.translate.paragraph import Paragraph, ParagraphTranslator
from foveate.tasks.translate.translation import Translation
from foveate.tasks.translate.translation_flight import TranslationFlight
from foveate.tasks.translate.translation_trace import trace_of
from foveate.tasks.translate.use import Translator

DIVIDER = re.compile(r"=+[A-Z_]+=+")
"""A line by which clients divide the parts of one message, such as `==WEBLATE_PART==`: it is not translated."""
WIDEST = 16
"""The largest beam of a request."""
LONGEST = 1000
"""The most tokens of a sentence. The model reads a sentence at once, which takes a time that grows with the square of
its tokens and in which nothing else is answered.
"""
STEPS = 4
"""The tokens that texts in flight get between two looks at what has come and what nobody waits for."""


class ServedTranslator(Served):
    """Translates texts line by line, and lines of several sentences sentence by sentence where the model learned so.
    Empty lines and dividers stay as they are.
    """

    verb = "translate"
    settings: tuple[str, ...] = ("beam", "alternatives")
    reader: Translator

    def __init__(self, reader: Translator, folder: Path) -> None:
        self.directions: tuple[str, ...] = ()
        self._readers: dict[str, ParagraphTranslator] = {}
        tokeniser = reader.source_tokeniser
        if isinstance(tokeniser, LanguageTokeniser):
            self.directions, self.settings = tokeniser.directions, (*self.settings, "to")
            self.sample = (self.sample[0], {"to": tokeniser.targets[0]})
            for language in tokeniser.targets:
                self._readers[language] = ParagraphTranslator(reader.into(language), folder, note=lambda sentence: None)
            reader = reader.into(tokeniser.targets[0])  # to count tokens, of which every language has the same
        super().__init__(reader)
        self.paragraphs = ParagraphTranslator(reader, folder, note=lambda sentence: None)

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        """`{"text": …, "finished": …, "alternatives": […]}`: these are further hypotheses of a text of one sentence."""
        require_settings(settings, self.settings)
        paragraphs = self.into(settings)
        more = 0 if settings.get("alternatives") in (None, 0) else whole(settings, "alternatives", 0, WIDEST - 1)
        config = _wide(self.reader.config, settings, more)
        lines = [text.split("\n") for text in texts]
        spoken = [line for text in lines for line in text if is_spoken(line)]
        self.require_short([sentence for line in spoken for sentence in paragraphs.sentences(line)])
        done = iter(paragraphs.translate(spoken, config=config))
        return [self.joined([(line, next(done) if is_spoken(line) else None) for line in text], more) for text in lines]

    def into(self, settings: Mapping[str, Any]) -> ParagraphTranslator:
        """The translator into the language of a request. Raises UsageError for one that is missing or unknown."""
        if not self._readers:
            return self.paragraphs
        language, known = settings.get("to"), ", ".join(self._readers)
        if language is None:
            raise UsageError(f"This run writes several languages: name one of them as `to`. It writes {known}.")
        if not isinstance(language, str) or language not in self._readers:
            guess = did_you_mean(str(language), self._readers)
            raise UsageError(f"to is the language to write, one of {known}, got {language!r}.{guess}")
        return self._readers[language]

    def explain(self, text: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        if not self._readers:
            return super().explain(text, settings)
        own = copy(self)
        own.reader = cast(Translator, self.into(settings).translator)
        own._readers, own.pattern = {}, self.pattern  # the sites are those of every language
        return own.explain(text, {name: value for name, value in settings.items() if name != "to"})

    def flight(self) -> "ServedFlight | None":
        try:
            flight = ServedFlight(self)
        except UsageError:  # states of this model cannot be joined
            return None
        wide = isinstance(self.reader.config, BeamConfig) and self.reader.config.beam > 1
        return flight if wide or flight.has_steps_in_c() else None  # one row costs less than its Python

    def traced(self, text: str, settings: Mapping[str, Any]) -> tuple[Trace, dict[str, Any]]:
        require_text(text)
        self.require_short([text])
        target, read = settings.get("target"), self.tokens(text)
        self.require_small(settings, {"source": read})
        if target is None:
            translation = self.reader.translate(text)
        elif isinstance(target, str):
            _require_few(self.reader.target_tokeniser, target)
            translation = self.reader.forced(text, target)
        else:
            raise UsageError(f"target is a text, got {target!r}.")
        written = _written(translation)
        self.require_small(settings, {"source": read, "read": written, "target": written})
        trace = trace_of(self.reader, translation)
        return trace, {"text": translation.text, "log_probability": translation.hypotheses[0].log_probability}

    @property
    def vocabulary(self) -> Tokeniser:
        return self.reader.source_tokeniser

    def tokens(self, text: str) -> int:
        return len(self.reader.source_tokeniser.encode(text))

    def require_short(self, sentences: Sequence[str]) -> None:
        """Raises DataError for a sentence with too many tokens."""
        positions = self.reader.model.max_length
        for sentence in sentences:
            if positions is not None and len(sentence.encode()) >= positions:
                self.reader.encode(sentence, "A sentence")
            _require_few(self.reader.source_tokeniser, sentence)

    def joined(self, lines: Sequence[tuple[str, Paragraph | None]], more: int = 0) -> Answered:
        """The answer to a text from its lines and their translations; None for a line that stays as it is."""
        parts = [part for _, done in lines if done is not None for part in done.parts]
        value = {
            "text": "\n".join(_within(line, done) for line, done in lines),
            "finished": all(part.finished for part in parts),
        }
        if more:
            value["alternatives"] = list(parts[0].texts[1 : more + 1]) if len(lines) == len(parts) == 1 else []
        read = sum(self.tokens(part.source) for part in parts)
        return Answered(value, read, sum(map(_written, parts)))


def _require_few(tokeniser: Tokeniser, sentence: str) -> None:
    """Raises DataError for a sentence with too many tokens: time and memory grow with their square."""
    if len(sentence.encode()) > LONGEST and (tokens := len(tokeniser.encode(sentence))) > LONGEST:
        raise DataError(
            f"A sentence has {tokens:,} tokens, and at most {LONGEST:,} are allowed: {sentence[:40]!r} … "
            "Divide it by a full stop or a line break."
        )


class ServedFlight:
    """Translations in flight: the sentences of a question may be complete at different times."""

    def __init__(self, served: ServedTranslator) -> None:
        """Raises UsageError for a translator whose model or engine decodes whole batches only."""
        self.served = served
        self._flight = TranslationFlight(served.reader)
        self._questions: dict[int, _Question] = {}

    @property
    def busy(self) -> bool:
        return bool(self._questions)

    def has_steps_in_c(self) -> bool:
        """As of `Flight`."""
        return self._flight.flight.has_steps_in_c()

    def serves(self, kind: str, settings: Mapping[str, Any]) -> bool:
        return kind in ("answer", "stream") and settings.keys() <= {"to"}

    def admit(
        self, number: int, texts: Sequence[str], settings: Mapping[str, Any] | None = None, tell: Tell | None = None
    ) -> None:
        settings = settings or {}
        require_settings(settings, self.served.settings)
        sentences = self.served.into(settings).sentences
        lines = [[(line, sentences(line) if is_spoken(line) else []) for line in text.split("\n")] for text in texts]
        flat = [sentence.strip() for text in lines for _, parts in text for sentence in parts]
        self.served.require_short(flat)
        self._flight.admit([(number, place) for place in range(len(flat))], flat, to=settings.get("to"))
        self._questions[number] = _Question(lines, [None] * len(flat), tell)

    def drop(self, number: int) -> None:
        question = self._questions.pop(number, None)
        if question is not None:
            self._flight.drop([(number, place) for place in range(len(question.parts))])

    def tick(self) -> list[tuple[int, list[Answered]]]:
        for name, translation in self._flight.tick(STEPS):
            number, place = cast(tuple[int, int], name)
            self._questions[number].parts[place] = translation
        for question in self._questions.values():
            question.tell_lines()
        complete = [number for number, question in self._questions.items() if None not in question.parts]
        return [(number, self._answered(self._questions.pop(number))) for number in complete]

    def _answered(self, question: "_Question") -> list[Answered]:
        parts = iter(cast(list[Translation], question.parts))
        return [
            self.served.joined([(line, _paragraph(line, cut, islice(parts, len(cut)))) for line, cut in text])
            for text in question.lines
        ]


@dataclass
class _Question:
    lines: list[list[tuple[str, list[str]]]]
    """The lines of each text with their sentences; none for a line that is not translated."""
    parts: list[Translation | None]
    """The translations of all sentences, as far as they are complete."""
    tell: Tell | None
    line: int = 0
    """The next line to be told, and its first sentence."""
    part: int = 0

    def tell_lines(self) -> None:
        """Tell the lines of a text that streams, as far as all lines before them are complete, too."""
        while self.tell is not None and self.line < len(self.lines[0]):
            line, cut = self.lines[0][self.line]
            parts = self.parts[self.part : self.part + len(cut)]
            if None in parts:
                return
            paragraph = _paragraph(line, cut, cast(list[Translation], parts))
            self.tell("\n" * (self.line > 0) + _within(line, paragraph))
            self.line, self.part = self.line + 1, self.part + len(cut)


def _paragraph(line: str, sentences: Sequence[str], parts: Iterable[Translation]) -> Paragraph | None:
    """The translation of a line; None for one that stays as it is."""
    return Paragraph(line, tuple(parts)) if sentences else None


def _within(line: str, done: Paragraph | None) -> str:
    """The translation of a line between the white space around it, such as its indentation and the line ends of
    Windows; a line that is not translated as it is.
    """
    if done is None:
        return line
    start, end = len(line) - len(line.lstrip()), len(line.rstrip())
    return line[:start] + done.text + line[end:]


def is_spoken(line: str) -> bool:
    """Whether a line is translated: it is neither empty nor a divider."""
    return bool(line.strip()) and not DIVIDER.fullmatch(line.strip())


def _written(part: Translation) -> int:
    return len(part.hypotheses[0].tokens) if part.hypotheses else 0


def _wide(config: DecodeConfig, settings: Mapping[str, Any], more: int) -> DecodeConfig:
    """The configuration with the beam of a request, which is wide enough for its alternatives."""
    usual = config.beam if isinstance(config, BeamConfig) else 1
    beam = max(whole(settings, "beam", usual, WIDEST), more + 1)
    if beam == usual and not more:
        return config
    common = {name: getattr(config, name) for name in ("max_length", "min_length", "no_repeat_ngram", "forbid")}
    if beam == 1:
        return GreedyConfig(**common)
    wide = config if isinstance(config, BeamConfig) else BeamConfig(**common)
    return replace(wide, beam=beam, num_best=more + 1)
