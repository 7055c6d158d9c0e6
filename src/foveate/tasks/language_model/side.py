"""The side of language modelling."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foveate.data.text import read_lines
from foveate.data.tokeniser import EOS, HuggingFaceTokeniser
from foveate.tasks.exported import Exported, Note, saver
from foveate.tasks.language_model import TASK
from foveate.tasks.language_model.served_generator import ServedGenerator
from foveate.tasks.language_model.task import VALIDATED, LanguageModelTask, LanguageModelTaskConfig, loss_of_text
from foveate.tasks.language_model.use import Generator
from foveate.tasks.option import decode_config, is_piped
from foveate.tasks.report_page import Sample
from foveate.tasks.run_plan import Allowance, Probe, Suggestion, beginning, made_up, vocabulary
from foveate.tasks.side import NOT_DATA, Figures
from foveate.tasks.stranger import Strangers
from foveate.tasks.text_side import TextSide, suggested, validation_lines
from foveate.tasks.text_task import TOKENISER, TextData
from foveate.voice import say, shown

SAMPLE_LENGTH = 200


class LanguageModelSide(TextSide):
    """`foveate train language_model`, `foveate generate`. Models are compared by bits for each byte of text, which no
    tokeniser changes."""

    entry, config, task = TASK, LanguageModelTaskConfig, LanguageModelTask
    not_data = NOT_DATA | {"unlikelihood"}
    validated = VALIDATED
    lower = frozenset({"loss", "perplexity", "bits_per_byte"})
    names = ("read", "looked from")

    def suggest(self, config: LanguageModelTaskConfig, allowance: Allowance) -> Suggestion:
        return suggested(config.data.text, allowance, masked=False)

    def probe(self, config: LanguageModelTaskConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Rows of `block_length` tokens."""
        rows, length = config.data.rows, config.data.block_length
        size = vocabulary(config.tokeniser, vocab, lambda: beginning(config.data.text, read_lines))
        model, text = LanguageModelTask.initial(config, size), made_up(rows, length + 1, size)
        return Probe(
            model=model,
            loss=lambda: loss_of_text(model, config, text),
            vocabulary=f"a vocabulary of {size:,}",
            batch=f"{rows} rows of {length} tokens",
            tokens=rows * length,
            unit="tokens",
        )

    def load(self, run: Path | str, *, precision: Any = "float32", note: Note = say) -> Generator:
        return Generator.load(run, precision=precision, note=note)

    def offered(self, model: Generator, folder: Path) -> ServedGenerator:
        return ServedGenerator(model)

    def in_use(self, task: LanguageModelTask) -> Generator:
        return Generator(task.model, task.data.tokeniser, task.config.decode, task.config.data)

    def use(self, arguments: argparse.Namespace) -> None:
        generator = self.load(arguments.run, precision=arguments.precision)
        config = decode_config(generator.config, arguments)
        done = 0
        strangers = Strangers(generator.tokeniser, say)
        for prompt in read_lines("-") if is_piped(arguments.inputs) else arguments.inputs:
            strangers.note(prompt.split("\n"))
            room = generator.room(prompt)
            if arguments.length is not None and room is not None and 0 < room < arguments.length:
                say(f"The model has {generator.model.max_length:,} positions, so that {room:,} tokens can follow.")
            continuations = generator.generate(
                prompt, config=config, count=arguments.count, first=done, length=arguments.length, lines=arguments.lines
            )
            for continuation in continuations:
                print("\n" * (done > 0), shown(strangers.broken(str(continuation))), sep="", flush=True)
                done += 1

    def finish(self, task: LanguageModelTask, folder: Path) -> None:
        """Print a sample, then write the report."""
        [sample] = self.in_use(task).generate(length=SAMPLE_LENGTH)
        say(f"A sample:\n{sample}\n")
        super().finish(task, folder)

    def figures(self, model: Generator, lines: Sequence[str], arguments: argparse.Namespace) -> Figures:
        return model.evaluate(lines, context=arguments.context or 0)

    def samples(self, model: Generator, data: TextData) -> list[Sample]:
        """Validation lines, whose first halves the model continues. A text that is spelt longer than it was written, as
        broken characters are, may have no positions to be looked at.
        """
        samples, positions = list[Sample](), model.model.max_length
        for number, line in enumerate(validation_lines(data, positions)):
            prompt = line[: len(line) // 2]
            room = len(line) if positions is None else min(len(line), max(positions - len(model.ids(prompt)), 1))
            [whole] = model.generate(prompt, first=number, lines=1, length=room)
            fits = positions is None or len(model.ids(str(whole))) <= positions
            alignment = model.align(str(whole)) if fits else None
            samples.append((prompt, line.removeprefix(prompt), whole.text, alignment))
        return samples

    def trial(self, model: Generator) -> str:
        return '"…"'

    def usual_metrics(self, task: LanguageModelTask) -> tuple[str, ...]:
        return ("bits_per_byte", "perplexity")

    def count(self, batch: Any) -> int:
        return int(batch.num_tokens - batch.size)

    def export(self, run: Path | str, note: Note) -> Exported:
        """A language model, whose one graph reads prompts and continues them."""
        generator = self.load(run, note=note)
        tokens = f"ids of {TOKENISER}; {EOS} stands before a text and for the end of each line"
        if isinstance(generator.tokeniser, HuggingFaceTokeniser):
            begin = "".join(f"{token}, " for token in generator.tokeniser.framed(""))
            tokens = f"{begin}the ids of {TOKENISER}; a text ends with {generator.tokeniser.id_of('eos')}"
        meanings = {
            "tokens": f"{tokens}. A whole prompt, or what was chosen last; all rows that are gone on from are equally "
            "long",
            "state.": "before the first token zeros, with a past of size 0; then new.state.… of the call before",
            "new.state.": "the state for the next call",
            "logits": "after each token, of the ids that may come next",
        }
        return Exported(generator.model, saver({TOKENISER: generator.tokeniser}), meanings)


SIDE = LanguageModelSide()
