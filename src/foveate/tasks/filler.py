"""A trained masked language model in use: fill the gaps of a text, or be scored on one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from foveate.data.batch import Batch
from foveate.data.tokeniser import BOS, EOS, SPECIALS, Tokeniser
from foveate.errors import DataError, UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.self_attention import self_attention
from foveate.models import BERT
from foveate.storage.run import model_type_of
from foveate.tasks.masked_language_model import MaskedLanguageModelConfig, MaskedLanguageModelTask, score
from foveate.tasks.text import TextConfig, load_text_model, text_of, tokens_of

GAP = "___"
"""How a gap is written: one token is missing."""


@dataclass(frozen=True)
class Filling:
    """A text and what may stand in its gaps."""

    text: str
    """With the best token in every gap."""
    choices: tuple[tuple[tuple[str, float], ...], ...]
    """For every gap the best pieces with their probabilities."""


class Filler:
    """Fills gaps. What stands in one gap is told without knowing what was put into the others."""

    def __init__(self, model: BERT, tokeniser: Tokeniser, config: MaskedLanguageModelConfig | None = None) -> None:
        self.model, self.tokeniser = model.eval(), tokeniser
        if config is None:
            block = min(TextConfig().block_length, model.config.max_length - 1)
            config = MaskedLanguageModelConfig(model=model.config, data=TextConfig(block_length=block))
        self.config = config

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "Filler":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises DataError when the folder is not a run, has no trained weights, or is damaged, and UsageError for a run
        of another task.
        """
        if model_type_of(run) is not None:
            from foveate.tasks.guest import GuestFiller  # which is a filler itself

            return GuestFiller.read(run)
        config, tokeniser, model = load_text_model(
            Path(run), "masked_language_model", MaskedLanguageModelConfig, MaskedLanguageModelTask.initial, note
        )
        return cls(model, tokeniser, config)

    @torch.inference_mode()
    def fill(self, text: str, *, best: int = 5, gap: str = GAP) -> Filling:
        """The `best` pieces for every gap of a line.

        Raises UsageError for a text without gaps, DataError for one that is too long.
        """
        tokens, places = self._read(text, gap)
        hidden, _ = self.model.encode(Batch.of([tokens]))
        logits = self.model.logits(hidden[torch.tensor(places)])[:, : self.tokeniser.vocab_size]
        logits[:, : len(SPECIALS)] = -torch.inf
        found = logits.softmax(-1).topk(min(best, logits.shape[1] - len(SPECIALS)))
        pieces = [self.tokeniser.pieces(row) for row in found.indices.tolist()]
        for place, row in zip(places, found.indices.tolist(), strict=True):
            tokens[place] = row[0]
        choices = tuple(tuple(zip(*pair, strict=True)) for pair in zip(pieces, found.values.tolist(), strict=True))
        return Filling(text_of(self.tokeniser, tokens[2:-1]), choices)

    @torch.inference_mode()
    def look(self, text: str, *, gap: str = GAP, layer: int | None = None) -> Alignment | None:
        """What each gap looked at: a row for every gap, the mean of a layer's heads.

        Raises UsageError and DataError as `fill` does.
        """
        tokens, places = self._read(text, gap)
        pieces = [gap if place in places else self.tokeniser.pieces([token])[0] for place, token in enumerate(tokens)]
        seen = self_attention(self.model, lambda: self.model.encode(Batch.of([tokens])), pieces, layer=layer)
        return seen and Alignment.of(pieces, [gap] * len(places), seen.weights[places])

    def evaluate(self, lines: Iterable[str]) -> dict[str, float]:
        """Loss, perplexity and accuracy of the gaps in a text, which are drawn as those of validation are.

        Raises DataError for a text without lines.
        """
        tokens = tokens_of(list(lines), self.tokeniser)
        return score(self.model, tokens, self.config, self.tokeniser.vocab_size)

    def _read(self, text: str, gap: str) -> tuple[list[int], list[int]]:
        """The tokens of a line with its gaps, and where these are."""
        parts = text.split(gap)
        if len(parts) == 1:
            raise UsageError(f"There is no gap in {text!r}. Write {gap} where a token is missing.")
        tokens, places = [BOS, EOS], []
        for number, part in enumerate(parts):
            if number:
                places.append(len(tokens))
                tokens.append(self.tokeniser.vocab_size)
            tokens += self.tokeniser.encode(part) if part else []
        tokens.append(EOS)
        if len(tokens) > self.model.config.max_length:
            raise DataError(
                f"The text has {len(tokens)} tokens, but the model has {self.model.config.max_length} positions. "
                "Shorten it; nothing is cut off silently."
            )
        return tokens, places
