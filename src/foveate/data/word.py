"""The input of a tagger: sentences as words, with the spelling of every different word."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from foveate.data.batch import Batch
from foveate.data.store import TokenStore
from foveate.data.tokeniser import BOS, EOS, UNKNOWN, Tokeniser, WordTokeniser
from foveate.nn.transfer import moved


@dataclass(frozen=True, eq=False)
class WordBatch:
    """Sentences whose words are indices of forms, so that the characters of each form are read once.

    `words.ids` are indices of forms in this batch; `forms` are the ids of the forms in the vocabulary; `spellings` are
    their characters between begin and end.
    """

    words: Batch
    forms: Int[Tensor, " forms"]
    spellings: Batch
    labels: Int[Tensor, " tokens"] | None = None
    """The labels of all sentences, without padding."""
    examples: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        sentences: Sequence[np.ndarray],
        forms: TokenStore | Sequence[Sequence[int]],
        labels: Sequence[np.ndarray] | None = None,
        examples: tuple[int, ...] = (),
    ) -> "WordBatch":
        """Make a batch of sentences of form numbers. The row of a form is its id in the vocabulary, then its
        characters.
        """
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

    def pieces(self) -> tuple[Batch, Int[Tensor, " words"]]:
        """The spellings of sentences between begin and end, and the index of each word's first token among all tokens.

        >>> forms = [[3, 1, 7, 8, 2], [4, 1, 9, 2]]  # two words: of two pieces, and of one
        >>> text, first = WordBatch.of([np.array([0, 1, 0]), np.array([1])], forms).pieces()
        >>> text.ids.tolist(), first.tolist()
        ([[1, 7, 8, 9, 7, 8, 2], [1, 9, 2, 0, 0, 0, 0]], [1, 3, 4, 8])
        """
        spellings = zip(self.spellings.ids.cpu().numpy(), self.spellings.lengths.tolist(), strict=True)
        spelled = [row[1 : length - 1] for row, length in spellings]
        rows, first, passed = list[np.ndarray](), list[np.ndarray](), 0
        for sentence, length in zip(self.words.ids.tolist(), self.words.lengths.tolist(), strict=True):
            parts = [spelled[form] for form in sentence[:length]]
            begins = np.cumsum([1, *map(len, parts)])
            first.append(passed + begins[:-1])
            rows.append(np.concatenate([[BOS], *parts, [EOS]]))
            passed += len(rows[-1])
        return moved((Batch.of(rows), torch.from_numpy(np.concatenate(first))), self.words.ids.device)


def form_row(word: str, words: WordTokeniser, spelling: Tokeniser, before: str = "") -> list[int]:
    """The row of a form: its id in the vocabulary, then begin, `before`, its characters or pieces, and end.

    >>> from foveate.data.tokeniser import CharacterTokeniser
    >>> words, characters = WordTokeniser.train(["a saw"]), CharacterTokeniser.train(["a saw"])
    >>> form_row("was", words, characters)
    [3, 1, 7, 4, 6, 2]
    """
    (known,) = words.encode(word)
    return [known, BOS, *(spelling.encode(before + word) or [UNKNOWN]), EOS]


def space_before(tokeniser: Tokeniser) -> str:
    """The text before a word that gives it the pieces that it has within a text; empty if pieces mark word beginnings.

    >>> from foveate.data.tokeniser import ByteTokeniser
    >>> space_before(ByteTokeniser()), space_before(WordTokeniser.train(["a saw"]))
    (' ', '')
    """
    return "" if tokeniser.encode("a b") == [*tokeniser.encode("a"), *tokeniser.encode("b")] else " "
