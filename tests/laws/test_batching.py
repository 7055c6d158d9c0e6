"""Laws of the data: every example once per epoch, a budget that holds, a pure order, text that returns."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.data.batch import Batch
from foveate.data.batching import BatchPlan
from foveate.data.tokeniser import (
    ByteTokeniser,
    CharacterTokeniser,
    SentencePieceTokeniser,
    Tokeniser,
    WordTokeniser,
)

MAX_TOKENS = 60
PAIRS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=200)
SEEDS = st.integers(-5, 2**70)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=40)


def plan_of(pairs: list[tuple[int, int]], seed: int = 0) -> BatchPlan:
    source, target = np.array(pairs).T
    return BatchPlan(source, target, max_tokens=MAX_TOKENS, seed=seed)


@given(PAIRS, SEEDS, st.integers(0, 3))
def test_every_example_comes_exactly_once_per_epoch(pairs: list[tuple[int, int]], seed: int, epoch: int) -> None:
    plan = plan_of(pairs, seed)
    steps = range(epoch * plan.steps_per_epoch, (epoch + 1) * plan.steps_per_epoch)
    seen = np.concatenate([plan.examples(step) for step in steps])
    assert sorted(seen.tolist()) == list(range(len(pairs)))


@given(PAIRS, SEEDS)
def test_no_batch_is_empty_or_exceeds_the_budget_with_its_padding(pairs: list[tuple[int, int]], seed: int) -> None:
    plan = plan_of(pairs, seed)
    source, target = np.array(pairs).T
    for step in range(2 * plan.steps_per_epoch):
        rows = plan.examples(step)
        assert 0 < len(rows) * (source[rows].max() + target[rows].max()) <= MAX_TOKENS


@given(PAIRS, SEEDS, st.lists(st.integers(0, 1000), min_size=1, max_size=5))
def test_the_order_is_a_pure_function_of_seed_and_step(
    pairs: list[tuple[int, int]], seed: int, steps: list[int]
) -> None:
    used = plan_of(pairs, seed)
    for step in steps:
        used.examples(step)
    assert used.examples(steps[0]).tolist() == plan_of(pairs, seed).examples(steps[0]).tolist()


@given(PAIRS)
def test_the_padding_fraction_is_the_share_of_padding(pairs: list[tuple[int, int]]) -> None:
    plan = plan_of(pairs)
    source, target = np.array(pairs).T
    rows = [plan.examples(step) for step in range(plan.steps_per_epoch)]
    padded = sum(len(row) * int(source[row].max() + target[row].max()) for row in rows)
    assert plan.padding_fraction == pytest.approx(1 - (source.sum() + target.sum()) / padded)


@given(st.lists(st.lists(st.integers(4, 2**31), max_size=6), max_size=6))
def test_a_batch_holds_its_rows_and_nothing_else(rows: list[list[int]]) -> None:
    batch = Batch.of(rows)
    for row, ids, length in zip(rows, batch.ids.tolist(), batch.lengths.tolist(), strict=True):
        assert ids == row + [0] * (batch.length - length)


@given(TEXT)
def test_bytes_return_any_text_in_normal_form_c(text: str) -> None:
    assert returned(ByteTokeniser(), text) == unicodedata.normalize("NFC", text)


@given(TEXT)
def test_characters_return_the_text_they_were_trained_on(text: str) -> None:
    if text:
        assert returned(CharacterTokeniser.train([text]), text) == unicodedata.normalize("NFC", text)


@given(st.lists(st.text("abcdé", min_size=1, max_size=4), min_size=1, max_size=8))
def test_words_return_the_text_they_were_trained_on_up_to_white_space(words: list[str]) -> None:
    assert returned(WordTokeniser.train(["  ".join(words)]), "\t".join(words)) == " ".join(words)


PIECES = {
    model_type: SentencePieceTokeniser.train(
        ["the cat sat on the mat", "ein Hund und eine Katze", "кот и собака"], vocab_size=300, model_type=model_type
    )
    for model_type in ("bpe", "unigram")
}


@pytest.mark.parametrize("model_type", PIECES)
@settings(max_examples=300)
@given(text=TEXT)
def test_pieces_return_any_text_in_normal_form_c(model_type: str, text: str) -> None:
    assert returned(PIECES[model_type], text) == unicodedata.normalize("NFC", text)


def returned(tokeniser: Tokeniser, text: str) -> str:
    return tokeniser.decode(tokeniser.encode(text))
