"""The answers of `foveate translate`, the same whatever computes them. No torch here: a short answer needs none."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from foveate.errors import UsageError
from foveate.storage.shipped import run_folder
from foveate.tasks.answering import Answering
from foveate.tasks.option import decode_config, require_used
from foveate.tasks.stranger import Strangers
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.paragraph import LineTranslator, Paragraph, ParagraphTranslator
from foveate.tasks.translate.translation import Translation
from foveate.voice import say, screen

if TYPE_CHECKING:
    from foveate.inspect.alignment import Alignment


def require_consistent(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options that exclude each other, or would change nothing."""
    if arguments.n_best and arguments.split:
        raise UsageError("--n-best prints hypotheses of whole lines, which --split takes apart. Leave one of them out.")
    if arguments.ensemble and arguments.engine not in ("auto", "own"):
        raise UsageError(f"--ensemble decodes with our own engine. Leave out --engine {arguments.engine}.")
    if not arguments.align:
        require_used(arguments, dict.fromkeys(("layer", "head", "when"), "--align"), (), "without")


class TranslationAnswering(Answering):
    """A translation of each line, or its best hypotheses."""

    def __init__(
        self, translator: LineTranslator, arguments: argparse.Namespace, note: Callable[[str], None] = say
    ) -> None:
        self.translator, self.arguments = translator, arguments
        self.config = decode_config(translator.config, arguments)
        split = not arguments.n_best if arguments.split is None else arguments.split
        advice = None if arguments.split else note
        self.paragraphs = ParagraphTranslator(translator, run_folder(arguments.run), split=split, note=advice)
        self.strangers = Strangers(translator.source_tokeniser, say)
        self.done = self.unfinished = 0

    def translated(self, texts: Sequence[str], first: int) -> list[Paragraph]:
        """The translations of some texts, before which there were `first` others."""
        return self.paragraphs.translate(texts, config=self.config, first=first)

    def aligned(self, translation: Translation) -> "Alignment":
        """The alignment by the attention that options name."""
        return aligned(self.translator, translation, self.arguments)

    def lines(self, texts: Sequence[str], first: int) -> Iterator[str]:
        self.strangers.note(texts)
        for number, paragraph in enumerate(self.translated(texts, first), start=first + 1):
            self.done += 1
            self.unfinished += not paragraph.finished
            if self.arguments.n_best:
                (translation,) = paragraph.parts
                for text, hypothesis in zip(translation.texts, translation.hypotheses, strict=True):
                    yield f"{number}\t{hypothesis.score:.4f}\t{self.strangers.broken(text)}"
            else:
                yield self.strangers.broken(paragraph.text)
            for translation in paragraph.parts if self.arguments.align else ():
                if translation.hypotheses:
                    _draw(self.aligned(translation))

    def remark(self) -> str:
        if not self.unfinished:
            return ""
        return f"{self.unfinished} of {self.done} translations reached their length limit before an end."


def aligned(translator: LineTranslator, translation: Translation, arguments: argparse.Namespace) -> "Alignment":
    """The alignment by the attention that options name."""
    choice = Head.wanted(arguments.layer, arguments.head, arguments.when, translator.head)
    (alignment,) = translator.align([translation], choice)
    return alignment


def _draw(alignment: "Alignment") -> None:
    from foveate.inspect import terminal

    print(terminal(alignment, **screen()), end="\n\n", flush=True)
