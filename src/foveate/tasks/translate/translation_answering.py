"""The answers of `foveate translate`."""

import argparse
from collections.abc import Iterator, Sequence

from foveate.errors import UsageError
from foveate.inspect import terminal
from foveate.inspect.alignment import Alignment
from foveate.storage.shipped import run_folder
from foveate.tasks.answering import Answering
from foveate.tasks.option import decode_config, require_used
from foveate.tasks.stranger import Strangers
from foveate.tasks.translate.head import Head
from foveate.tasks.translate.paragraph import ParagraphTranslator
from foveate.tasks.translate.use import Translation, Translator
from foveate.voice import say, screen


class TranslationAnswering(Answering):
    """A translation of each line, or its best hypotheses."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Raises UsageError for options that exclude each other."""
        if arguments.n_best and arguments.split:
            raise UsageError(
                "--n-best prints hypotheses of whole lines, which --split takes apart. Leave one of them out."
            )
        if not arguments.align:
            require_used(arguments, dict.fromkeys(("layer", "head", "when"), "--align"), (), "without")
        self.arguments = arguments
        self.translator = Translator.load(
            arguments.run, precision=arguments.precision, engine=arguments.engine, note=say
        )
        self.config = decode_config(self.translator.config, arguments)
        split = not arguments.n_best if arguments.split is None else arguments.split
        folder, note = run_folder(arguments.run), None if arguments.split else say
        self.paragraphs = ParagraphTranslator(self.translator, folder, split=split, note=note)
        self.strangers = Strangers(self.translator.source_tokeniser, say)
        self.done = self.unfinished = 0

    def lines(self, texts: Sequence[str], first: int) -> Iterator[str]:
        self.strangers.note(texts)
        paragraphs = self.paragraphs.translate(texts, config=self.config, first=first)
        for number, paragraph in enumerate(paragraphs, start=first + 1):
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
                    alignment = aligned(self.translator, translation, self.arguments)
                    print(terminal(alignment, **screen()), end="\n\n", flush=True)

    def remark(self) -> str:
        if not self.unfinished:
            return ""
        return f"{self.unfinished} of {self.done} translations reached their length limit before an end."


def aligned(translator: Translator, translation: Translation, arguments: argparse.Namespace) -> Alignment:
    """The alignment by the attention that options name."""
    choice = Head.wanted(arguments.layer, arguments.head, arguments.when, translator.head)
    (alignment,) = translator.align([translation], choice)
    return alignment
