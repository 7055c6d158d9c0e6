"""A trained masked language model in use: fill the gaps of a text."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from foveate.config import build
from foveate.data.batch import Batch
from foveate.data.tokeniser import BOS, EOS, SPECIALS, Tokeniser
from foveate.errors import DataError, UsageError
from foveate.models import BERT
from foveate.storage.checkpoint import load_weights, restore_model
from foveate.storage.run import read_run
from foveate.tasks.masked_language_model import MaskedLanguageModelConfig, build_model
from foveate.tasks.text import load_text_tokeniser, text_of

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

    def __init__(self, model: BERT, tokeniser: Tokeniser) -> None:
        self.model, self.tokeniser = model.eval(), tokeniser

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "Filler":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises DataError when the folder is not a run, has no trained weights, or is damaged, and UsageError for a run
        of another task.
        """
        folder = Path(run)
        saved = read_run(folder).require("masked_language_model")
        settings = {name: value for name, value in saved.config.items() if name != "train"}
        config = build(MaskedLanguageModelConfig, settings, where=f"{folder / 'config.json'}:")
        tokeniser = load_text_tokeniser(folder, saved.tokenisers)
        model = build_model(config, tokeniser.vocab_size)
        tensors, _ = load_weights(folder, note)
        restore_model(model, tensors, source=folder)
        return cls(model, tokeniser)

    @torch.inference_mode()
    def fill(self, text: str, *, best: int = 5, gap: str = GAP) -> Filling:
        """The `best` pieces for every gap of a line.

        Raises UsageError for a text without gaps, DataError for one that is too long.
        """
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
        hidden, _ = self.model.encode(Batch.of([tokens]))
        logits = self.model.logits(hidden[torch.tensor(places)])[:, : self.tokeniser.vocab_size]
        logits[:, : len(SPECIALS)] = -torch.inf
        found = logits.softmax(-1).topk(min(best, logits.shape[1] - len(SPECIALS)))
        pieces = [self.tokeniser.pieces(row) for row in found.indices.tolist()]
        for place, row in zip(places, found.indices.tolist(), strict=True):
            tokens[place] = row[0]
        choices = tuple(tuple(zip(*pair, strict=True)) for pair in zip(pieces, found.values.tolist(), strict=True))
        return Filling(text_of(self.tokeniser, tokens[2:-1]), choices)
