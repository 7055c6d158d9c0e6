from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor


@dataclass(frozen=True)
class Trigram:
    """A model that is a table: the next token's logits for each sentence, last token but one and last token.

    A state is each row's sentence and last token but one, so a row that is confused with another gets the wrong table.
    """

    table: Tensor
    max_length: int | None = None

    def start(self, beam: int = 1) -> tuple[Tensor, Tensor]:
        sentence = torch.arange(len(self.table)).repeat_interleave(beam)
        return sentence, torch.zeros_like(sentence)

    def step(self, state: tuple[Tensor, Tensor], token: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        sentence, before = state
        return (sentence, token), self.table[sentence, before, token]

    def select(self, state: tuple[Tensor, Tensor], rows: Tensor) -> tuple[Tensor, Tensor]:
        sentence, before = state
        return sentence[rows], before[rows]

    def log_probability(self, sentence: int, tokens: tuple[int, ...], begin: int = 1) -> float:
        """The sum over all tokens, including an end token."""
        before, last, total = 0, begin, 0.0
        for token in tokens:
            total += self.table[sentence, before, last].log_softmax(-1)[token].item()
            before, last = last, token
        return total


@pytest.fixture
def trigram() -> Callable[..., Trigram]:
    def make(sentences: int = 3, vocab: int = 6, seed: int = 0, max_length: int | None = None) -> Trigram:
        generator = torch.Generator().manual_seed(seed)
        return Trigram(2 * torch.randn(sentences, vocab, vocab, vocab, generator=generator), max_length)

    return make


@pytest.fixture
def chain() -> Callable[..., Trigram]:
    """A model whose next token depends on the last alone, by probabilities: chain({1: {3: 0.6, 4: 0.4}, …})."""

    def make(probabilities: dict[int, dict[int, float]], vocab: int = 6) -> Trigram:
        table = torch.full((1, vocab, vocab, vocab), -torch.inf)
        table[..., 2] = 0.0  # what is not listed ends
        for last, following in probabilities.items():
            table[:, :, last] = -torch.inf
            for token, probability in following.items():
                table[:, :, last, token] = torch.tensor(probability).log()
        return Trigram(table)

    return make
