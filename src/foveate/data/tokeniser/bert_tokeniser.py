"""The tokeniser of a Hugging Face BERT with our ids for special tokens."""

from collections.abc import Iterable
from typing import Any, ClassVar

from foveate.data.tokeniser.hugging_face_tokeniser import HuggingFaceTokeniser, Role
from foveate.data.tokeniser.tokeniser import SPECIALS, UNKNOWN, Tokeniser, require_known
from foveate.errors import DataError

BEFORE: tuple[Role, ...] = ("pad", "cls", "sep", "unk")
"""The tokens for padding, begin, end and unknown."""


class BERTTokeniser(Tokeniser):
    """The pieces of words of a Hugging Face BERT: [CLS] is the begin, [SEP] the end, and [MASK] is last, like the gap
    in our models.

    A run that begins with such a model is then like any other run. `order` contains the original id of each row.
    """

    kind: ClassVar[str] = "bert"

    def __init__(self, theirs: HuggingFaceTokeniser) -> None:
        """Raise DataError for a tokeniser that lacks one of BERT's special tokens."""
        self.theirs = theirs
        special = [theirs.id_of(role) for role in (*BEFORE, "mask")]
        if None in special:
            raise DataError(
                "The tokeniser lacks one of [PAD], [CLS], [SEP], [UNK], [MASK]: it does not belong to a BERT."
            )
        rest = (number for number in range(theirs.vocab_size) if number not in special)
        self.order = [number for number in (*special[:-1], *rest, special[-1]) if number is not None]
        """The original id of each of our ids; the gap is last."""
        self.vocab_size = len(self.order) - 1
        self._ours = {number: place for place, number in enumerate(self.order)}

    def encode(self, text: str) -> list[int]:
        return [self._ours.get(number, UNKNOWN) for number in self.theirs.encode(text)]

    def surfaces(self, text: str) -> list[str]:
        return self.theirs.surfaces(text)

    def decode(self, ids: Iterable[int]) -> str:
        return self.theirs.decode(self.order[token] for token in require_known(ids, self.vocab_size))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        known = require_known(ids, self.vocab_size)
        theirs = self.theirs.pieces(self.order[token] for token in known)
        return [SPECIALS[token] if token < len(SPECIALS) else piece for token, piece in zip(known, theirs, strict=True)]

    def content(self) -> dict[str, Any]:
        return self.theirs.content()

    @classmethod
    def of(cls, content: dict[str, Any]) -> "BERTTokeniser":
        """Make the tokeniser from its `content`."""
        return cls(HuggingFaceTokeniser.of(content))
