"""Rows of tokens that two vocabularies have are kept; others begin with the pieces that spell them, or ainitial."""

import pytest
import torch
from torch import Tensor

from foveate.data.tokeniser import (
    CharacterTokeniser,
    LanguageTokeniser,
    SentencePieceTokeniser,
    Tokeniser,
    WordTokeniser,
)
from foveate.errors import UsageError
from foveate.tasks.translate.vocabulary_transfer import Sides, TransferReport, _composed, transfer_vocabulary

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
    initial = {name: table(getattr(after, side), -900.0) for name, side in names.items()}
    weights["output.bias"], initial["output.bias"] = table(OTHERS, 5.0)[:, 0], table(LETTERS, -5.0)[:, 0]
    weights["encoder.weight"], initial["encoder.weight"] = torch.ones(3), torch.zeros(3)
    after_transfer, report = transfer_vocabulary(weights, initial, before, after)
    for name in (*names, "output.bias"):
        earlier, later = (before.source, after.source) if name.startswith("source") else (before.target, after.target)
        for token, piece in enumerate(later.pieces(range(later.vocab_size))):
            known = piece in earlier.pieces(range(earlier.vocab_size))
            expected = weights[name][row(earlier, piece)] if known else initial[name][token]
            assert torch.equal(after_transfer[name][token], expected), (name, piece)
    assert torch.equal(after_transfer["encoder.weight"], torch.ones(3))
    size = OTHERS.vocab_size
    one = TransferReport(tokens=size, same=size - 1, composed=0)
    assert report == {"source vocabulary": one, "target vocabulary": one}


def test_a_longer_token_begins_with_the_mean_of_the_pieces_that_spell_it() -> None:
    words = WordTokeniser.train(["cab dab"])
    weights = {"target_embedding.weight": table(LETTERS, 10.0)}
    initial = {"target_embedding.weight": table(words, -500.0)}
    after_transfer, report = transfer_vocabulary(weights, initial, Sides(LETTERS, LETTERS), Sides(words, words))
    mean = weights["target_embedding.weight"][[row(LETTERS, letter) for letter in "cab"]].mean(0)
    assert torch.equal(after_transfer["target_embedding.weight"][row(words, "cab")], mean)
    unspelt = row(words, "dab")  # the earlier vocabulary has no d
    assert torch.equal(after_transfer["target_embedding.weight"][unspelt], initial["target_embedding.weight"][unspelt])
    assert report == {"target vocabulary": TransferReport(tokens=words.vocab_size, same=4, composed=1)}


def test_tags_of_the_same_language_are_kept_and_those_of_others_are_new() -> None:
    before = LanguageTokeniser(LETTERS, ["en-de", "en-fr"])
    after = LanguageTokeniser(OTHERS, ["en-de", "en-fa"])
    weights, initial = ({"source_embedding.weight": table(one, first)} for one, first in ((before, 0.0), (after, 50.0)))
    weights["target_embedding.weight"], initial["target_embedding.weight"] = table(LETTERS, 1.0), table(OTHERS, 2.0)
    after_transfer, _ = transfer_vocabulary(weights, initial, Sides(before, LETTERS), Sides(after, OTHERS))
    rows = after_transfer["source_embedding.weight"]
    assert torch.equal(rows[row(after, "<2de>")], weights["source_embedding.weight"][row(before, "<2de>")])
    assert torch.equal(rows[row(after, "<2fa>")], initial["source_embedding.weight"][row(after, "<2fa>")])


def test_pieces_of_sentencepiece_are_composed_of_text_alone() -> None:
    """Pieces within words are composed of pieces within words; bytes, controls and tags compose nothing."""
    lines = ["nation station ration motion", "a nation in motion <2de>", "stations"] * 20
    before = SentencePieceTokeniser.train(lines, vocab_size=300)
    after = LanguageTokeniser(SentencePieceTokeniser.train([*lines, "é"] * 5, vocab_size=330), ["en-de"])
    weights, initial = {"target_embedding.weight": table(before, 0.0)}, {"target_embedding.weight": table(after, 9e6)}
    after_transfer, _ = transfer_vocabulary(weights, initial, Sides(before, before), Sides(after, after))
    rows = after_transfer["target_embedding.weight"]
    earlier, labels = before.pieces(range(before.vocab_size)), after.pieces(range(after.vocab_size))
    composed = 0
    for token, label in enumerate(labels):
        if label in earlier:
            assert torch.equal(rows[token], weights["target_embedding.weight"][earlier.index(label)]), label
        elif "é" in label or label == "<2de>":
            assert torch.equal(rows[token], initial["target_embedding.weight"][token]), label
        else:
            composed += 1
            parts = _composed(label, {piece: number for number, piece in enumerate(earlier)})
            assert "".join(earlier[part] for part in parts) == label
            assert torch.equal(rows[token], weights["target_embedding.weight"][parts].mean(0)), label
    assert composed > 10


def test_a_space_is_the_same_in_both_kinds_of_vocabularies() -> None:
    letters = CharacterTokeniser.train(["a b"])
    pieces = SentencePieceTokeniser.train(["a b", "b a"], vocab_size=270)
    weights, initial = {"target_embedding.weight": table(letters, 0.0)}, {"target_embedding.weight": table(pieces, 9e6)}
    rows = transfer_vocabulary(weights, initial, Sides(letters, letters), Sides(pieces, pieces))[0]
    space = rows["target_embedding.weight"][row(pieces, "▁")]
    assert torch.equal(space, weights["target_embedding.weight"][row(letters, " ")])


def test_weights_in_half_precision_become_those_of_the_new_model() -> None:
    weights = {"target_embedding.weight": table(LETTERS, 0.0).to(torch.bfloat16)}
    initial = {"target_embedding.weight": table(OTHERS, 0.0)}
    after_transfer, _ = transfer_vocabulary(weights, initial, Sides(LETTERS, LETTERS), Sides(OTHERS, OTHERS))
    assert after_transfer["target_embedding.weight"].dtype == torch.float32


def test_models_that_share_their_vocabularies_differently_are_refused() -> None:
    one = {"target_embedding.weight": table(LETTERS, 0.0)}
    two = {**one, "source_embedding.weight": table(LETTERS, 0.0)}
    for weights, initial in ((one, two), (two, one)):
        with pytest.raises(UsageError, match=r"share their vocabularies differently. Set model\.share"):
            transfer_vocabulary(weights, initial, Sides(LETTERS, LETTERS), Sides(LETTERS, LETTERS))
