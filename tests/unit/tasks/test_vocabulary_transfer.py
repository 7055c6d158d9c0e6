"""Rows of tokens that two vocabularies have are kept; others begin with the pieces that spell them, or afresh."""

import pytest
import torch
from torch import Tensor

from foveate.data.tokeniser import CharacterTokeniser, LanguageTokeniser, Tokeniser, WordTokeniser
from foveate.errors import UsageError
from foveate.tasks.translate.vocabulary_transfer import Kept, Sides, transferred

LETTERS = CharacterTokeniser.train(["abc"])
OTHERS = CharacterTokeniser.train(["bcd"])


def table(tokeniser: Tokeniser, first: float, width: int = 2) -> Tensor:
    """A row for each token, all different."""
    return first + torch.arange(tokeniser.vocab_size * width, dtype=torch.float32).view(-1, width)


def row(tokeniser: Tokeniser, piece: str) -> int:
    return tokeniser.pieces(range(tokeniser.vocab_size)).index(piece)


def test_each_table_follows_the_tokens_of_its_side() -> None:
    before, after = Sides(LETTERS, OTHERS), Sides(OTHERS, LETTERS)
    names = {"source_embedding.weight": "source", "target_embedding.weight": "target", "output_weight": "target"}
    weights = {name: table(getattr(before, side), 100.0) for name, side in names.items()}
    fresh = {name: table(getattr(after, side), -900.0) for name, side in names.items()}
    weights["output.bias"], fresh["output.bias"] = table(OTHERS, 5.0)[:, 0], table(LETTERS, -5.0)[:, 0]
    weights["encoder.weight"], fresh["encoder.weight"] = torch.ones(3), torch.zeros(3)
    found, report = transferred(weights, fresh, before, after)
    for name in (*names, "output.bias"):
        earlier, later = (before.source, after.source) if name.startswith("source") else (before.target, after.target)
        for token, piece in enumerate(later.pieces(range(later.vocab_size))):
            known = piece in earlier.pieces(range(earlier.vocab_size))
            expected = weights[name][row(earlier, piece)] if known else fresh[name][token]
            assert torch.equal(found[name][token], expected), (name, piece)
    assert torch.equal(found["encoder.weight"], torch.ones(3))
    size = OTHERS.vocab_size
    assert report == {f"{side} vocabulary": Kept(tokens=size, same=size - 1, spelt=0) for side in ("source", "target")}


def test_a_longer_token_begins_with_the_mean_of_the_pieces_that_spell_it() -> None:
    words = WordTokeniser.train(["cab dab"])
    weights = {"target_embedding.weight": table(LETTERS, 10.0)}
    fresh = {"target_embedding.weight": table(words, -500.0)}
    found, report = transferred(weights, fresh, Sides(LETTERS, LETTERS), Sides(words, words))
    mean = weights["target_embedding.weight"][[row(LETTERS, letter) for letter in "cab"]].mean(0)
    assert torch.equal(found["target_embedding.weight"][row(words, "cab")], mean)
    unspelt = row(words, "dab")  # the earlier vocabulary has no d
    assert torch.equal(found["target_embedding.weight"][unspelt], fresh["target_embedding.weight"][unspelt])
    assert report == {"target vocabulary": Kept(tokens=words.vocab_size, same=4, spelt=1)}


def test_tags_of_the_same_language_are_kept_and_those_of_others_are_new() -> None:
    before = LanguageTokeniser(LETTERS, ["en-de", "en-fr"])
    after = LanguageTokeniser(OTHERS, ["en-de", "en-fa"])
    weights, fresh = ({"source_embedding.weight": table(one, first)} for one, first in ((before, 0.0), (after, 50.0)))
    weights["target_embedding.weight"], fresh["target_embedding.weight"] = table(LETTERS, 1.0), table(OTHERS, 2.0)
    found, _ = transferred(weights, fresh, Sides(before, LETTERS), Sides(after, OTHERS))
    rows = found["source_embedding.weight"]
    assert torch.equal(rows[row(after, "<2de>")], weights["source_embedding.weight"][row(before, "<2de>")])
    assert torch.equal(rows[row(after, "<2fa>")], fresh["source_embedding.weight"][row(after, "<2fa>")])


def test_weights_in_half_precision_become_those_of_the_new_model() -> None:
    weights = {"target_embedding.weight": table(LETTERS, 0.0).to(torch.bfloat16)}
    fresh = {"target_embedding.weight": table(OTHERS, 0.0)}
    found, _ = transferred(weights, fresh, Sides(LETTERS, LETTERS), Sides(OTHERS, OTHERS))
    assert found["target_embedding.weight"].dtype == torch.float32


def test_models_that_share_their_vocabularies_differently_are_refused() -> None:
    one = {"target_embedding.weight": table(LETTERS, 0.0)}
    two = {**one, "source_embedding.weight": table(LETTERS, 0.0)}
    for weights, fresh in ((one, two), (two, one)):
        with pytest.raises(UsageError, match=r"on the source side than the new one's: set model\.share"):
            transferred(weights, fresh, Sides(LETTERS, LETTERS), Sides(LETTERS, LETTERS))
