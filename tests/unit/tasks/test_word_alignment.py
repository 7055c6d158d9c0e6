"""Word alignments of given translations, and their scores."""

import numpy as np
import pytest
import torch

from foveate.data.text import Pair
from foveate.data.tokeniser import CharacterTokeniser, Tokeniser, WordTokeniser
from foveate.errors import DataError, UsageError
from foveate.metrics import Links
from foveate.models import FixedContextConfig, TransformerConfig
from foveate.nn import BlockConfig
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.use import Translator
from foveate.tasks.word_alignment import best_head, every_head, score_heads, word_alignments

PAIRS = [Pair(1, "ab c", "c ba b"), Pair(2, "", "a"), Pair(3, "a b a", "b"), Pair(4, "c", "a  b")]
BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8)
CONFIG = TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=3)


def translator(tokeniser: Tokeniser | None = None) -> Translator:
    torch.manual_seed(0)
    letters = CharacterTokeniser.train(["ab c"]) if tokeniser is None else tokeniser
    return Translator(CONFIG.build(letters.vocab_size, letters.vocab_size), letters, letters)


def test_labels_are_the_words_and_the_empty_pair_has_none() -> None:
    alignments = word_alignments(translator(), PAIRS)
    assert [(result.source, result.target) for (result,) in alignments] == [
        (("ab", "c"), ("c", "ba", "b")),
        ((), ()),
        (("a", "b", "a"), ("b",)),
        (("c",), ("a", "b")),
    ]


def test_a_side_of_white_space_has_no_words() -> None:
    pairs = [Pair(1, " ", "ab"), Pair(2, "ab c", "  "), *PAIRS]
    first, second, *others = word_alignments(translator(), pairs)
    assert [(result.source, result.target) for (result,) in (first, second)] == [((), ()), ((), ())]
    assert [one[0].target for one in others] == [one[0].target for one in word_alignments(translator(), PAIRS)]


def test_pieces_of_a_word_are_summed_over_the_source_and_averaged_over_the_target() -> None:
    model = translator()
    ((alignment,),) = word_alignments(model, PAIRS[:1])
    (pieces,) = model.align([model.forced("ab c", "c ba b")])
    assert pieces.source == ("a", "b", " ", "c", "</s>")
    assert alignment.weights[1, 1] == pytest.approx(pieces.weights[1:4, 2:4].sum(1).mean(), rel=1e-5)


def test_consuming_is_the_row_after_producing() -> None:
    model = translator(WordTokeniser.train(["a b c ab ba"]))
    ((producing, consuming),) = word_alignments(model, PAIRS[:1], [Head(), Head(when="consuming")])
    assert np.array_equal(consuming.weights[:-1], producing.weights[1:])
    (rows,) = model.align([model.forced(PAIRS[0].source, PAIRS[0].target)], Head(when="consuming"))
    assert rows.target == ("c", "ba", "b")  # nothing consumes the end
    assert rows.weights[:, :2] == pytest.approx(consuming.weights, rel=1e-5)


def test_other_pairs_in_a_batch_do_not_matter() -> None:
    model = translator()
    together = word_alignments(model, PAIRS)
    for pair, (result,) in zip(PAIRS, together, strict=True):
        ((alone,),) = word_alignments(model, [pair])
        assert alone.weights == pytest.approx(result.weights, abs=1e-6)


def test_every_layer_and_head_and_moment_is_named() -> None:
    heads = every_head(translator())
    assert len(heads) == 3 * 3 * 2
    assert str(heads[0]) == "layer 0, mean of heads, producing"
    assert str(heads[-1]) == "layer 2, head 1, consuming"
    assert every_head(Translator(FixedContextConfig().build(8, 8), *[CharacterTokeniser.train(["abcd"])] * 2)) == []


def test_the_best_head_is_the_one_with_the_least_error() -> None:
    model = translator()
    gold = [Links.of(links) for links in ({(1, 0), (0, 1)}, set(), {(1, 0)}, {(0, 1)})]
    heads = every_head(model)
    errors = [scores[0].value for scores in score_heads(model, PAIRS, gold, heads)]
    assert best_head(model, PAIRS, gold) == heads[int(np.argmin(errors))]


def test_a_head_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match=r"There is no head 2: layer 0 \(.*cross_attention\) has 2, counted from 0"):
        word_alignments(translator(), PAIRS, [Head(0, 2)])
    with pytest.raises(UsageError, match="There is no layer 3: the model has 3, counted from 0"):
        word_alignments(translator(), PAIRS, [Head(3)])


def test_words_that_the_tokeniser_runs_together_are_named_by_their_line() -> None:
    with pytest.raises(DataError, match=r"^Line 7: the tokeniser makes 3 words of the 2"):
        word_alignments(translator(CharacterTokeniser.train(["ab"])), [Pair(7, "a", "a b")])
