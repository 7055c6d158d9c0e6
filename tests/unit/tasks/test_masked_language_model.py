"""Gaps are a pure function of seed and step, and predictions do not depend on padding."""

import io
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from foveate.data.batch import Batch
from foveate.data.gap import GapConfig, Gaps
from foveate.data.tokeniser import (
    BOS,
    ByteConfig,
    ByteTokeniser,
    CharacterConfig,
    SentencePieceConfig,
    TokeniserConfig,
    WordConfig,
)
from foveate.errors import DataError, UsageError
from foveate.models import BERTConfig
from foveate.nn import BlockConfig
from foveate.tasks.masked_language_model.task import MaskedLanguageModelConfig, MaskedLanguageModelTask
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.text_task import TextConfig
from foveate.train import TrainConfig, fit
from foveate.train.log import Quiet
from foveate.train.schedule import Constant

MODEL = BERTConfig(
    block=BlockConfig(model_dim=16, num_heads=2, feedforward_dim=32, activation="gelu", dropout=0.0), num_layers=1
)


class StopAt(Quiet):
    """Ctrl-C after an update."""

    def __init__(self, step: int) -> None:
        super().__init__(io.StringIO())
        self.step = step

    def advance(self, step: int, loss: float) -> None:
        if step == self.step:
            signal.raise_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> MaskedLanguageModelConfig:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{letter * 40}\n" for letter in "abcdef" * 8))
    data = TextConfig(text=str(path), block_length=21, max_tokens=168)
    return MaskedLanguageModelConfig(data=data, tokeniser=ByteConfig(), model=MODEL)


@pytest.fixture(scope="module")
def task(config: MaskedLanguageModelConfig, tmp_path_factory: pytest.TempPathFactory) -> MaskedLanguageModelTask:
    return MaskedLanguageModelTask.prepare(config, tmp_path_factory.mktemp("run"))


def gaps(ids: np.ndarray, *seed: int, **settings: float) -> Gaps:
    return Gaps.of(ids, vocab_size=1000, gap=1000, config=GapConfig(**settings), seed=seed)


def test_of_the_tokens_asked_for_most_are_hidden_some_replaced_some_left() -> None:
    ids = np.random.default_rng(0).integers(4, 1000, (200, 200))
    built = gaps(ids, 0)
    request = built.asked.sum()
    assert request / ids.size == pytest.approx(0.15, abs=0.005)
    assert (built.shown == 1000).sum() / request == pytest.approx(0.8, abs=0.02)
    assert ((built.shown == ids) & built.asked).sum() / request == pytest.approx(0.1, abs=0.02)
    assert (built.shown == ids)[~built.asked].all()
    assert not built.asked[:, 0].any()


def test_there_is_always_a_gap() -> None:
    assert gaps(np.full((1, 4), 9), 1, share=1e-9).asked.sum() == 1


@pytest.mark.parametrize("settings", [{"share": 0.0}, {"masked": 0.9, "replaced": 0.2}, {"masked": -0.1}])
def test_shares_that_cannot_be_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        GapConfig(**settings)


def test_a_batch_with_its_gaps_is_a_function_of_its_number(
    task: MaskedLanguageModelTask, config: MaskedLanguageModelConfig, tmp_path: Path
) -> None:
    again = MaskedLanguageModelTask.prepare(config, tmp_path)
    for step in (30, 0, 7):
        one, other = task.batch(step), again.batch(step)
        assert torch.equal(one.text.ids, other.text.ids)
        assert torch.equal(one.place, other.place)
        assert torch.equal(one.answer, other.answer)
    assert (task.batch(0).text.ids[:, 0] == BOS).all()
    assert not torch.equal(task.batch(0).place, task.batch(task.steps_per_epoch).place)


def test_answers_are_what_stood_in_the_gaps(task: MaskedLanguageModelTask) -> None:
    tokens = task.data.training.tokens.astype("<u2").tobytes()
    batch = task.batch(3)
    whole = batch.text.ids.clone().flatten()
    whole[batch.place] = batch.answer
    for row in whole.view(batch.text.size, -1)[:, 1:].numpy().astype("<u2"):
        assert row.tobytes() in tokens


@torch.no_grad()
def test_predictions_do_not_depend_on_padding(task: MaskedLanguageModelTask) -> None:
    model = task.model.double().eval()
    text = task.batch(0).text
    rows = [row[: 5 + 2 * number].tolist() for number, row in enumerate(text.ids)]
    alone = torch.cat([model(Batch.of([row])) for row in rows])
    torch.testing.assert_close(model(Batch.of(rows)), alone, atol=1e-11, rtol=0)
    model.float()


def test_a_trained_model_fills_gaps_and_a_resumed_one_has_the_same_bits(
    config: MaskedLanguageModelConfig, tmp_path: Path
) -> None:
    train = TrainConfig(steps=250, validate_every=50, save_every=100, learning_rate=5e-3, schedule=Constant(warmup=20))
    weights = []
    for name, stops in (("alone", (-1,)), ("stopped", (120, -1))):
        task = MaskedLanguageModelTask.prepare(config, tmp_path / name)
        for step in stops:
            task = MaskedLanguageModelTask.open(config, tmp_path / name)
            outcome = fit(task, train, tmp_path / name, resume=True, progress=StopAt(step))
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
        assert outcome.best["accuracy"] > 0.9
    assert weights[0] == weights[1]
    filler = Filler(task.model, task.data.tokeniser)
    filled = filler.fill("aaaaaa___aaaaaaaa___aaaaa")
    assert filled.text == "a" * 21
    assert [gap[0][0] for gap in filled.choices] == ["a", "a"]
    assert all(0.5 < gap[0][1] <= 1 for gap in filled.choices)
    with pytest.raises(UsageError, match="no gap"):
        filler.fill("abc")
    with pytest.raises(DataError, match="512 positions"):
        filler.fill("a" * 600 + "___")


def test_blocks_longer_than_the_model_are_refused(config: MaskedLanguageModelConfig) -> None:
    with pytest.raises(ValueError, match="512 positions"):
        MaskedLanguageModelConfig(data=TextConfig(block_length=512), model=MODEL)


LINES = ["where is the house of the cat", "the cat is in the house", "a cat catches the mouse in the house"] * 20
TOKENISERS: dict[str, TokeniserConfig] = {
    "byte": ByteConfig(),
    "character": CharacterConfig(),
    "word": WordConfig(min_count=1),
    "pieces": SentencePieceConfig(vocab_size=300, model_type="bpe"),
}


@pytest.mark.parametrize("kind", TOKENISERS)
def test_only_the_gaps_of_a_text_change(kind: str) -> None:
    tokeniser = TOKENISERS[kind].train(LINES)
    filler = Filler(MODEL.build(tokeniser.vocab_size + 1), tokeniser)
    whole = {"byte": "x", "character": "c", "word": "cat", "pieces": tokeniser.pieces(tokeniser.encode("the"))[0]}[kind]
    (token,) = {token for token in tokeniser.encode("x cat the") if tokeniser.pieces([token]) == [whole]}
    piece = tokeniser.decode([token])
    for text in ("Zoë's   house is ___.", "___ \t日本 ", "a\nb ___ c  ___  d", "e\u0301 ___", "___"):
        assert filler.filled(text, [token] * text.count("___")) == text.replace("___", piece)
        first, *others = text.split("___")
        filled = filler.fill(text).text
        assert filled.startswith(first)
        for part in others:
            assert part in filled
    with pytest.raises(ValueError, match="has 1 gaps, but 2 tokens"):
        filler.filled("a ___", [token, token])


def test_a_piece_that_begins_a_word_stands_apart_from_the_word_before() -> None:
    tokeniser = TOKENISERS["pieces"].train(LINES)
    filler = Filler(MODEL.build(tokeniser.vocab_size + 1), tokeniser)
    apart = next(each for each in tokeniser.encode("in the house") if tokeniser.pieces([each])[0].startswith("▁"))
    word = tokeniser.decode([apart])
    assert filler.filled("a cat___", [apart]) == f"a cat {word}"
    assert filler.filled("a cat ___", [apart]) == f"a cat {word}"
    assert filler.filled("______ a cat", [apart, apart]) == f"{word} {word} a cat"


def test_bytes_of_one_character_side_by_side_are_that_character() -> None:
    filler = Filler(MODEL.build(ByteTokeniser().vocab_size + 1), ByteTokeniser())
    assert filler.filled("Zo______ ist da", ByteTokeniser().encode("ë")) == "Zoë ist da"
