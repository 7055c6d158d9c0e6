"""Lines of several sentences are translated sentence by sentence, because most models were trained on single ones."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from foveate.data.tokeniser import LanguageTokeniser, Tokeniser
from foveate.errors import DataError, SetupError
from foveate.search import DecodeConfig
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.translation import Translation

if TYPE_CHECKING:
    from foveate.inspect.alignment import Alignment

SEVERAL = re.compile(r"[.!?…。！？؟۔।][\"'”’»)\]]*\s+\S|[。！？].")
"""A text that does not match has one sentence at most, so no package is needed."""
UNSPACED = re.compile(r"[。！？][\"'”’»)\]」』]*$")
"""The end of a sentence of a script without spaces."""
JUDGED = 200
"""The number of training examples that decide whether a model was trained on several sentences at a time."""
MANY = 0.1


@dataclass(frozen=True)
class Paragraph:
    """A text and the translations of its sentences, which form one line again."""

    source: str
    parts: tuple[Translation, ...]

    @property
    def text(self) -> str:
        """The translations one after another, with a space between them unless their script has none."""
        text = ""
        for part in self.parts:
            gap = " " if text and part.text and not UNSPACED.search(text) else ""
            text += gap + part.text
        return text.strip()

    @property
    def finished(self) -> bool:
        """False if any of the translations reached the length limit."""
        return all(part.finished for part in self.parts)


@runtime_checkable
class LineTranslator(Protocol):
    """A translator, with torch or without."""

    source_tokeniser: Tokeniser
    config: DecodeConfig
    head: Head

    def translate(
        self,
        texts: list[str],
        *,
        config: DecodeConfig | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[Translation]: ...

    def align(self, translations: list[Translation], head: Head | None = None) -> list["Alignment"]: ...


class ParagraphTranslator:
    """Translates texts of several sentences one by one, if the model was trained on single sentences."""

    def __init__(
        self,
        translator: LineTranslator,
        run: Path | str | None = None,
        *,
        split: bool = True,
        note: Callable[[str], None] | None = None,
    ) -> None:
        """`run` is the model's folder, whose training data tell how it has learned. Without the package that knows
        sentences, `note` receives a sentence about it and texts stay whole; without `note` that is an error.
        """
        self.translator, self.run, self.split, self.note = translator, run, split, note

    def translate(self, texts: Sequence[str], *, config: DecodeConfig | None = None, first: int = 0) -> list[Paragraph]:
        """As `Translator.translate`, with a paragraph for each text; a text that is not split is one of one part."""
        cut = [self.sentences(text) for text in texts]
        flat = [sentence.strip() for sentences in cut for sentence in sentences]
        numbers = [first + place for place, sentences in enumerate(cut) for _ in sentences]
        done = iter(self.translator.translate(flat, config=config, numbers=numbers))
        return [
            Paragraph(text, tuple(islice(done, len(sentences)))) for text, sentences in zip(texts, cut, strict=True)
        ]

    def sentences(self, text: str) -> list[str]:
        """The parts of a text that are translated one by one."""
        if not self.split or not SEVERAL.search(text):
            return [text]
        try:
            return [text] if self.reads_paragraphs else sentences(text, self.languages)
        except SetupError as error:
            if self.note is None:
                raise
            self.split = False
            self.note(f"A line of several sentences is translated as it stands. {error}")
            return [text]

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages that may be read: English, unless the model says which it reads."""
        tokeniser = self.translator.source_tokeniser
        if not isinstance(tokeniser, LanguageTokeniser):
            return ("en",)
        pairs = [direction.split("-") for direction in tokeniser.directions]
        return tuple(source for source, target in pairs if tokeniser.to in (None, target))

    @cached_property
    def reads_paragraphs(self) -> bool:
        """Whether the training data hold several sentences on many of their lines."""
        lines = [] if self.run is None else list(islice(_training_lines(self.translator, Path(self.run)), JUDGED))
        return sum(len(sentences(line, self.languages)) > 1 for line in lines) > MANY * len(lines)


def sentences(text: str, languages: Sequence[str] = ("en",)) -> list[str]:
    """The sentences of a text, each with the white space behind it, so that they are the text again when joined. It is
    in one of some languages: the one whose abbreviations make the fewest sentences.

    >>> sentences("Mr. Smith sleeps. Why? It is 3.5 a.m.")
    ['Mr. Smith sleeps. ', 'Why? ', 'It is 3.5 a.m.']
    >>> sentences("Use System.Out in Java. It prints a line.")
    ['Use System.Out in Java. ', 'It prints a line.']
    >>> sentences("Er kommt am 3. Mai. Warum?", ["en", "de"])
    ['Er kommt am 3. Mai. ', 'Warum?']

    Raises SetupError without the package sentencex, which knows the abbreviations of many languages.
    """
    if not SEVERAL.search(text):
        return [text]
    try:
        from sentencex import segment
    except ImportError:
        raise SetupError(
            "To translate a line of several sentences one by one, foveate needs sentencex: "
            "`pip install sentencex`. Or translate it as it stands, with --no-split."
        ) from None
    parts: list[str] = []
    for part in min((list(segment(code, text)) for code in languages), key=len):
        inside = parts and parts[-1] == parts[-1].rstrip() and not UNSPACED.search(parts[-1])  # such as System.Out
        if parts and (inside or not part.strip()):
            parts[-1] += part
        else:
            parts.append(part)
    return parts if "".join(parts) == text else [text]


def _training_lines(translator: LineTranslator, run: Path) -> Iterator[str]:
    """Source lines from all parts of a run's training data; none if the run has no data."""
    folder = run / "data" / "train"
    if not folder.exists():
        return
    from foveate.data.parallel import ParallelData  # imports torch

    try:
        data = ParallelData.open(folder)
    except DataError:
        return
    for place in range(0, len(data), max(1, len(data) // JUDGED)):
        yield translator.source_tokeniser.decode(data.source[place].tolist())
