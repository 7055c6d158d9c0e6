"""Sentences as words, with the spelling of every different word: what a tagger reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from foveate.data.batch import Batch
from foveate.data.store import TokenStore
from foveate.data.tokeniser import BOS, EOS, CharacterTokeniser, WordTokeniser


@dataclass(frozen=True, eq=False)
class WordBatch:
    """Sentences whose words are forms, each different form once: characters are then read once a form.

    `words.ids` are numbers of forms in this batch; `forms` are the forms' ids in the vocabulary; `spellings` are their
    characters between begin and end.
    """

    words: Batch
    forms: Int[Tensor, " forms"]
    spellings: Batch
    labels: Int[Tensor, " tokens"] | None = None
    """Sentence after sentence, without padding."""
    examples: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        sentences: Sequence[np.ndarray],
        forms: TokenStore | Sequence[Sequence[int]],
        labels: Sequence[np.ndarray] | None = None,
        examples: tuple[int, ...] = (),
    ) -> "WordBatch":
        """Sentences of numbers of forms; a form's row is its id in the vocabulary, then its characters."""
        used, places = np.unique(np.concatenate(sentences), return_inverse=True)
        ends = np.cumsum([len(sentence) for sentence in sentences])[:-1]
        rows = [np.asarray(forms[form], dtype=np.int64) for form in used.tolist()]
        joined = None if labels is None else torch.from_numpy(np.concatenate(labels).astype(np.int64))
        return cls(
            Batch.of(np.split(places, ends)),
            torch.tensor([int(row[0]) for row in rows]),
            Batch.of([row[1:] for row in rows]),
            joined,
            examples,
        )


def form_row(word: str, words: WordTokeniser, characters: CharacterTokeniser) -> list[int]:
    """A form: its id in the vocabulary, and its characters between begin and end.

    >>> words, characters = WordTokeniser.train(["a saw"]), CharacterTokeniser.train(["a saw"])
    >>> form_row("was", words, characters)
    [3, 1, 7, 4, 6, 2]
    """
    (known,) = words.encode(word)
    return [known, BOS, *characters.encode(word), EOS]
