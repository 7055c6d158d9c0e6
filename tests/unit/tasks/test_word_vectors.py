"""Static vectors: pairs come from the text, words used alike come to lie together, and unknown words have pieces."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity, logsigmoid

from foveate.errors import DataError
from foveate.models.skip_gram import SkipGramConfig
from foveate.tasks.word_vectors import Lexicon, WordVectorsConfig, WordVectorsTask
from foveate.train import TrainConfig, fit
from foveate.train.schedule import Constant

ANIMALS, METALS = ("cat", "dog", "horse", "cow"), ("iron", "gold", "tin", "zinc")


def sentences(count: int) -> list[list[str]]:
    """Animals run and metals melt, and nothing else tells them apart."""
    draw = random.Random(0)
    kinds = ((ANIMALS, ("runs", "eats", "sleeps")), (METALS, ("melts", "rusts", "shines")))
    return [[draw.choice(nouns), draw.choice(verbs)] for nouns, verbs in draw.choices(kinds, k=count)]


def task(**settings: object) -> WordVectorsTask:
    defaults = {"model": SkipGramConfig(dim=16), "min_count": 1, "frequent": 1.0, "pairs": 256}
    return WordVectorsTask(WordVectorsConfig(**defaults | settings), sentences(600))


def fitted(built: WordVectorsTask, run: Path) -> WordVectorsTask:
    settings = TrainConfig(
        steps=150,
        learning_rate=0.03,
        weight_decay=0.0,
        schedule=Constant(),
        clip_norm=None,
        validate_every=150,
        save_every=150,
    )
    fit(built, settings, run)
    return built


def test_the_loss_is_that_of_the_paper() -> None:
    built = task()
    with torch.no_grad():
        built.model.near.normal_()
    batch = built.batch(3)
    expected = 0.0
    for number in range(len(batch.near)):
        word = built.model.pieces[batch.pieces[number]]
        near, drawn = built.model.near[batch.near[number]], built.model.near[batch.drawn[number]]
        expected -= logsigmoid(word @ near) + logsigmoid(-(drawn @ word)).sum()
    torch.testing.assert_close(built.loss(batch).total, expected, rtol=1e-5, atol=0)


def test_pairs_stand_near_each_other_in_one_sentence() -> None:
    built = task()
    together = {pair for sentence in sentences(600) for pair in (tuple(sentence), tuple(reversed(sentence)))}
    batch = built.batch(0)
    for word, near in zip(batch.pieces.tolist(), batch.near.tolist(), strict=True):
        assert (built.lexicon.words[word], built.lexicon.words[near]) in together


def test_a_batch_is_a_function_of_its_number() -> None:
    one, other = task(), task()
    for step in (5, 0, 700):
        assert torch.equal(one.batch(step).near, other.batch(step).near)
        assert torch.equal(one.batch(step).drawn, other.batch(step).drawn)
    assert not torch.equal(one.batch(0).drawn, one.batch(1).drawn)


def test_frequent_words_are_passed_over() -> None:
    rows = [["the", f"w{number % 50}", "the"] for number in range(2000)]
    shares = []
    for frequent in (1.0, 0.1, 1e-3):
        built = WordVectorsTask(WordVectorsConfig(min_count=1, frequent=frequent, pairs=20_000), rows)
        near = np.bincount(built.batch(0).near.numpy())
        shares.append(near[0] / near.sum())
    assert shares[0] > shares[1] > shares[2]


def test_words_used_alike_come_to_lie_together_and_unknown_ones_by_their_letters(tmp_path: Path) -> None:
    vectors = fitted(task(), tmp_path / "words").vectors()
    assert {word for word, _ in vectors.nearest("cat", 3)} == set(ANIMALS) - {"cat"}
    assert {word for word, _ in vectors.nearest("gold", 3)} == set(METALS) - {"gold"}
    with pytest.raises(DataError, match="'horses' has no vector"):
        vectors.vector("horses")
    spelt = fitted(task(buckets=2000), tmp_path / "pieces").vectors()
    assert spelt.nearest("horses", 1)[0][0] == "horse"
    one = cosine_similarity(spelt.vector("golden"), spelt.vector("gold"), dim=0)
    assert one > cosine_similarity(spelt.vector("golden"), spelt.vector("cat"), dim=0)


def test_a_word_is_read_as_itself_and_its_letters() -> None:
    lexicon = Lexicon(("ab",), buckets=1000, grams=(2, 3))
    assert lexicon.pieces("ab")[0] == 0
    assert len(lexicon.pieces("ab")) == 1 + 3 + 2
    assert not Lexicon(("ab",), buckets=0, grams=(2, 3)).pieces("abc")


@pytest.mark.parametrize(
    "settings", [{"window": 0}, {"min_count": 0}, {"buckets": -1}, {"frequent": 0.0}, {"grams": (4, 3)}, {"seed": -1}]
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        WordVectorsConfig(**settings)


def test_a_text_without_frequent_words_is_refused() -> None:
    with pytest.raises(DataError, match="nothing to tell apart"):
        WordVectorsTask(WordVectorsConfig(min_count=2), [["a", "b"]])


def test_a_word_is_not_its_own_neighbour_however_many_are_asked_for() -> None:
    vectors = task().vectors()
    words = {word for word, _ in vectors.nearest("cat", 1000)}
    assert words == {*vectors.lexicon.words} - {"cat"}
