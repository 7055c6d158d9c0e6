"""The side of masked language modelling."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from foveate.errors import DataError, FoveateError, UsageError
from foveate.inspect import terminal
from foveate.inspect.alignment import readable
from foveate.inspect.caption import printable
from foveate.nn.loss import cross_entropy
from foveate.tasks.answering import Answering, print_answers
from foveate.tasks.exported import COUNTED, Exported, Note, saver
from foveate.tasks.masked_language_model import TASK
from foveate.tasks.masked_language_model.served_filler import ServedFiller
from foveate.tasks.masked_language_model.task import (
    VALIDATED,
    GapBatch,
    MaskedLanguageModelConfig,
    MaskedLanguageModelTask,
    gap_logits,
)
from foveate.tasks.masked_language_model.use import GAP, Filler
from foveate.tasks.report_page import Sample
from foveate.tasks.run_plan import Allowance, Probe, Suggestion, beginning, made_up, vocabulary
from foveate.tasks.side import NOT_DATA, Figures
from foveate.tasks.stranger import Strangers
from foveate.tasks.text_side import TextSide, suggested, validation_lines
from foveate.tasks.text_task import TOKENISER, TextData, text_of
from foveate.voice import say, screen


class MaskedLanguageModelSide(TextSide):
    """`foveate train masked_language_model`, `foveate fill`."""

    entry, config, task = TASK, MaskedLanguageModelConfig, MaskedLanguageModelTask
    validated = VALIDATED
    not_data = NOT_DATA | {"gaps"}
    names = ("read", "gap")

    def suggest(self, config: MaskedLanguageModelConfig, allowance: Allowance) -> Suggestion:
        return suggested(config.data.text, allowance, masked=True)

    def probe(self, config: MaskedLanguageModelConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Rows of `block_length` tokens, with gaps."""
        rows, length, layout = config.data.rows, config.data.block_length, MaskedLanguageModelTask.layout(config)
        lines = partial(beginning, config.data.text, lambda path: layout.texts(layout.read(path)))
        size = vocabulary(config.tokeniser, vocab, lines)
        model = MaskedLanguageModelTask.initial(config, size)
        text = made_up(rows, length, size).ids.numpy()
        batch = GapBatch.of(list(text), config, size)
        return Probe(
            model=model,
            loss=lambda: cross_entropy(gap_logits(model, batch), batch.answer),
            vocabulary=f"a vocabulary of {size:,} and the gap",
            batch=f"{rows} rows of {length} tokens with {len(batch.answer):,} gaps",
            tokens=rows * length,
            unit="tokens",
        )

    def prepare(self, config: MaskedLanguageModelConfig, folder: Path, note: Note = lambda sentence: None) -> Any:
        task = super().prepare(config, folder, note)
        if task.report:
            note(task.report)
        return task

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> Filler:
        return Filler.load(run, note=note)

    def offered(self, model: Filler, folder: Path) -> ServedFiller:
        return ServedFiller(model)

    def in_use(self, task: MaskedLanguageModelTask) -> Filler:
        return Filler(task.model, task.data.tokeniser, task.config)

    def use(self, arguments: argparse.Namespace) -> None:
        print_answers(self.answering(arguments), arguments)

    def answering(self, arguments: argparse.Namespace) -> Answering:
        if not arguments.gap:
            raise UsageError("--gap is what gaps are written as: it cannot be empty.")
        return _Filling(self.load(arguments.run), arguments)

    def parts(self, model: Filler, text: str) -> Sequence[str]:
        return model.parts_to_read(text, GAP)

    def figures(self, model: Filler, lines: Sequence[str], arguments: argparse.Namespace) -> Figures:
        return model.evaluate(lines)

    def evaluate(self, arguments: argparse.Namespace) -> Figures:
        """Loss, perplexity and accuracy of the gaps in a text."""
        if arguments.context is not None:
            raise UsageError("--context is for models that read from left to right: this one fills gaps. Leave it out.")
        if arguments.precision != "float32":
            raise UsageError(f"--precision {arguments.precision}: gaps are scored in float32. Leave it out.")
        return super().evaluate(arguments)

    def samples(self, model: Filler, data: TextData) -> list[Sample]:
        """Validation lines, each with a gap after its first third. A line that is spelt longer with its gap, as broken
        characters are, may have no positions.
        """
        samples: list[Sample] = []
        for line in validation_lines(data, model.model.max_length):
            tokens = data.tokeniser.encode(line)
            parts = [tokens[: len(tokens) // 3], tokens[len(tokens) // 3 + 1 :]]
            question = GAP.join(text_of(data.tokeniser, part) for part in parts)
            with suppress(DataError):
                samples.append((question, line, model.fill(question).text, model.align(question)))
        return samples

    def trial(self, model: Filler) -> str:
        return f'"… {GAP} …"'

    def usual_metrics(self, task: MaskedLanguageModelTask) -> tuple[str, ...]:
        return ("accuracy", "perplexity")

    def count(self, batch: Any) -> int:
        return len(batch.answer)

    def export(self, run: Path | str, note: Note) -> Exported:
        filler = self.load(run, note=note)
        filler.require_head()
        frame = filler.frame
        text = f"{', '.join(map(str, frame.begin))}, the ids of {TOKENISER}, {frame.end}; {frame.gap} stands for a gap"
        meanings = {
            "tokens": f"{text}; of a pair, the second text and another {frame.end} follow" if filler.pairs else text,
            "lengths": COUNTED,
            "segments": "0; and 1 at the second text of a pair and its end" if filler.pairs else "always 0",
            "logits": "at each token, of the ids that may stand there",
        }
        return Exported(filler.model, saver({TOKENISER: filler.tokeniser}), meanings, extra={"gap": frame.gap})


class _Filling(Answering):
    """Texts with their gaps filled, and the best tokens for each gap."""

    def __init__(self, filler: Filler, arguments: argparse.Namespace) -> None:
        self.filler, self.arguments = filler, arguments
        self.strangers = Strangers(filler.tokeniser, say)

    def lines(self, texts: Sequence[str], first: int) -> Iterator[str]:
        gap, most = self.arguments.gap, self.arguments.best
        for number, text in enumerate(texts, start=first + 1):
            self.strangers.note(self.filler.parts_to_read(text, gap))
            try:
                filled = self.filler.fill(text, best=most or 1, gap=gap)
            except FoveateError as error:
                raise (type(error)(f"Text {number}: {error}") if first or len(texts) > 1 else error) from None
            yield filled.text
            for number, choices in enumerate(filled.choices if most else (), start=1):
                best = (f"{share:.4f} {printable(readable([piece])[0])}" for piece, share in choices)
                yield "\t".join([str(number), *best])
            alignment = self.filler.align(text, gap=gap) if self.arguments.look else None
            if alignment is not None:
                print(terminal(alignment, **screen()), flush=True)


SIDE = MaskedLanguageModelSide()
