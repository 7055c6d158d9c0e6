"""The answer of `foveate translate` without torch, where it is exactly the one that torch would give."""

import argparse
import itertools
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from foveate.data.text import read_lines
from foveate.errors import FoveateError
from foveate.tasks.answering import print_answers
from foveate.tasks.option import decode_config, is_piped
from foveate.tasks.translate.paragraph import LineTranslator, Paragraph
from foveate.tasks.translate.translation import Translation
from foveate.tasks.translate.translation_answering import TranslationAnswering, require_consistent
from foveate.voice import say

if TYPE_CHECKING:
    from foveate.inspect.alignment import Alignment

WORK = 1e10
"""Multiplications up to which numpy's answer comes before torch is imported: about 280 tokens for the model that comes
with foveate and four hypotheses."""
LINES = 64
"""The most texts: more of them are translated together, and the first are printed before the last are read."""


def answer(arguments: argparse.Namespace) -> bool:
    """Translate and print the texts of the command; false where torch has to, with nothing printed.

    If torch is not installed, the amount has no limit, and rounding may decide between two hypotheses.
    """
    if arguments.modules or arguments.ensemble or arguments.precision != "float32" or arguments.engine != "auto":
        return False
    require_consistent(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(arguments.threads or 1))  # numpy reads it when it is imported
    from foveate.light.light_search import CLOSE
    from foveate.light.weight import NotSupportedError
    from foveate.tasks.translate.light_translator import LightTranslator

    alone = find_spec("torch") is None
    notes: list[str] = []
    try:
        translator = LightTranslator.load(arguments.run, note=notes.append, close=0.0 if alone else CLOSE)
    except NotSupportedError:
        return False
    if arguments.to is not None:
        translator = translator.into(arguments.to)
    texts = arguments.inputs
    if is_piped(texts):
        lines = read_lines("-")
        texts = list(lines if alone else itertools.islice(lines, LINES + 1))
        arguments.inputs = itertools.chain(texts, lines)  # for torch
    try:
        work = translator.work(texts, decode_config(translator.config, arguments))
        if not alone and (len(texts) > LINES or work > WORK):
            return False
        answering = _Prepared(translator, arguments, texts, notes.append)
    except (NotSupportedError, FoveateError):  # torch answers, or says what is wrong
        return False
    for sentence in notes:
        say(sentence)
    print_answers(answering, arguments)
    return True


class _Prepared(TranslationAnswering):
    """Answers that are complete before the first is printed, so that torch may still give all of them."""

    def __init__(
        self,
        translator: LineTranslator,
        arguments: argparse.Namespace,
        texts: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        super().__init__(translator, arguments, note)
        self.answers = super().translated(texts, 0)
        parts = (part for paragraph in self.answers for part in paragraph.parts if part.hypotheses)
        self.alignments = iter([super(_Prepared, self).aligned(part) for part in parts] if arguments.align else [])

    def translated(self, texts: Sequence[str], first: int) -> list[Paragraph]:
        return self.answers[first : first + len(texts)]

    def aligned(self, translation: Translation) -> "Alignment":
        """The next one: they are asked for in the order of the translations."""
        return next(self.alignments)
