"""Language models of both kinds as something to compare."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from foveate.comparison.subject.subject import Asked, Scored, Subject, in_percent
from foveate.data.store import TokenStore
from foveate.data.text import read_lines
from foveate.data.tokeniser import Tokeniser
from foveate.tasks.language_model import task as language_model
from foveate.tasks.masked_language_model import task as masked_language_model
from foveate.tasks.text import stream


class LanguageModelling(Subject):
    """`foveate train language_model`, compared by bits for each byte of text, which no tokeniser changes."""

    name = "language_model"
    home = "foveate.tasks.language_model.task"
    task_name = "LanguageModelTask"
    config_name = "LanguageModelTaskConfig"
    files = ("text", "valid_text")
    test_files = ("text",)
    lower = frozenset({"loss", "perplexity", "bits_per_byte"})

    def metrics(self) -> tuple[str, ...]:
        return language_model.VALIDATED

    def usual_metrics(self, task: Any) -> tuple[str, ...]:
        return ("bits_per_byte", "perplexity")

    def hold_out(self, config: Any, folder: Path) -> dict[str, Any]:
        """Nothing: the last lines are held out, whatever the seed."""
        return {}

    def count(self, batch: Any) -> int:
        return int(batch.num_tokens - batch.size)

    def rows(self, config: Any, path: str, tokeniser: Tokeniser) -> Iterator[list[int]]:
        """A text as it is stored."""
        return stream(read_lines(path), tokeniser)

    def score(self, task: Any, config: Any, folder: Path, asked: Asked) -> Scored:
        trained = task.data
        if asked.test:
            tokeniser = trained.tokeniser
            lines = list(read_lines(asked.test["text"]))
            rows = self.rows(config, asked.test["text"], tokeniser)
            place, digest = folder / "data" / "test", tokeniser.digest()
            store = TokenStore.write(place, rows, digest, vocab_size=tokeniser.vocab_size)
            task.data = replace(trained, validation=store)
            task.validation_bytes = language_model.text_bytes(lines)
        figures = task.validate()
        task.data = trained
        if asked.test:
            del task.validation_bytes
        return Scored(values=self.pick(in_percent(figures), asked.metrics))


class MaskedLanguageModelling(LanguageModelling):
    """`foveate train masked_language_model`."""

    name = "masked_language_model"
    home = "foveate.tasks.masked_language_model.task"
    task_name = "MaskedLanguageModelTask"
    config_name = "MaskedLanguageModelConfig"
    lower = frozenset({"loss", "perplexity"})

    def metrics(self) -> tuple[str, ...]:
        return masked_language_model.VALIDATED

    def rows(self, config: Any, path: str, tokeniser: Tokeniser) -> Iterator[list[int]]:
        layout = config.layout()
        return layout.rows(layout.read(path), tokeniser)

    def usual_metrics(self, task: Any) -> tuple[str, ...]:
        return ("accuracy", "perplexity")

    def count(self, batch: Any) -> int:
        return len(batch.answer)
