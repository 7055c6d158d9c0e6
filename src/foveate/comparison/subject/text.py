"""Language models of both kinds as something to compare."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from foveate.comparison.subject.subject import Asked, Scored, Subject
from foveate.data.store import TokenStore
from foveate.data.text import read_lines
from foveate.tasks import language_model, masked_language_model
from foveate.tasks.text import stream


class LanguageModelling(Subject):
    """`foveate train language_model`, compared by bits for each byte of text, which no tokeniser changes."""

    name = "language_model"
    home = "foveate.tasks.language_model"
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

    def score(self, task: Any, config: Any, folder: Path, asked: Asked) -> Scored:
        trained = task.data
        if asked.test:
            tokeniser = trained.tokeniser
            rows = stream(iter(read_lines(asked.test["text"])), tokeniser)
            place, digest = folder / "data" / "test", tokeniser.digest()
            store = TokenStore.write(place, rows, digest, vocab_size=tokeniser.vocab_size)
            task.data = replace(trained, validation=store)
        task.__dict__.pop("validation_bytes", None)  # of another text
        figures = task.validate()
        task.data = trained
        values = {name: value * (100 if name == "accuracy" else 1) for name, value in figures.items()}
        return Scored(values=self.pick(values, asked.metrics))


class MaskedLanguageModelling(LanguageModelling):
    """`foveate train masked_language_model`."""

    name = "masked_language_model"
    home = "foveate.tasks.masked_language_model"
    task_name = "MaskedLanguageModelTask"
    config_name = "MaskedLanguageModelConfig"
    lower = frozenset({"loss", "perplexity"})

    def metrics(self) -> tuple[str, ...]:
        return masked_language_model.VALIDATED

    def usual_metrics(self, task: Any) -> tuple[str, ...]:
        return ("accuracy", "perplexity")

    def count(self, batch: Any) -> int:
        return len(batch.answer)
