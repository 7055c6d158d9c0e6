"""Substitutes for the pieces of words that are switched off."""

from collections.abc import Collection

from foveate.data.tokeniser import UNKNOWN, HuggingFaceTokeniser, Tokeniser
from foveate.inspect.attribution import Way


def special_ids(tokeniser: Tokeniser) -> Collection[int]:
    """The ids that are not text in a tokeniser of Hugging Face; ours are known by their labels."""
    return tokeniser.special if isinstance(tokeniser, HuggingFaceTokeniser) else ()


def ways_without(tokeniser: Tokeniser, *, mask: int | None = None, begins: bool = True) -> dict[Way, int | None]:
    """The substitute of a piece by the ways that suit a vocabulary, the default first; None: it is removed.

    `mask` is the id for gaps. Where a text has no begin, its words are not removed, since nothing would be left to
    predict the first one from; GPT-2, which has no unknown token, gets its end of text.
    """
    unknown: int | None = UNKNOWN
    if isinstance(tokeniser, HuggingFaceTokeniser):
        ends = None if begins else tokeniser.id_of("eos")
        unknown = ends if tokeniser.id_of("unk") is None else tokeniser.id_of("unk")
    named: tuple[tuple[Way, int | None], ...] = (("unknown", unknown), ("mask", mask))
    removed: dict[Way, int | None] = {"remove": None} if begins else {}
    return {**removed, **{way: token for way, token in named if token is not None}}
