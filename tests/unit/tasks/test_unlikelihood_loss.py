"""Training against repeated phrases: the loss beside the cross-entropy, and what is refused."""

from pathlib import Path

import pytest
import torch

from foveate.attention import AdditiveConfig, AttentionConfig, HardConfig
from foveate.data.batch import Batch
from foveate.errors import UsageError
from foveate.models import BahdanauConfig, GPTConfig, LanguageModel, LuongConfig, ModelConfig, TransformerConfig
from foveate.models.gpt import GPT
from foveate.nn import BlockConfig
from foveate.nn.unlikelihood import repetitions, unlikelihood
from foveate.tasks.language_model.task import LanguageModelTask, LanguageModelTaskConfig, loss_of_text
from foveate.tasks.text_task import TextConfig
from foveate.tasks.translate.task import DataConfig, TranslateConfig, TranslateTask, loss_of_words
from foveate.tasks.unlikelihood_loss import UnlikelihoodConfig

BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8, dropout=0.0)
MODELS: dict[str, ModelConfig] = {
    "luong": LuongConfig(embedding_dim=6, hidden_dim=6, dropout=0.0),
    "transformer": TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=1),
}
SOURCE = Batch.of([[4, 5, 6, 2], [5, 2]])
TARGET = Batch.of([[1, 4, 5, 6, 4, 5, 7, 2], [1, 6, 6, 6, 2]])
AGAINST = UnlikelihoodConfig(weight=0.5, ngram=2)


def candidates(text: Batch) -> torch.Tensor:
    """The probability's complement of each token that repeats a pair, written out for `TARGET`."""
    assert text is TARGET
    # 6 once more after the second 5 of the first text, and a fourth 6 in the second one.
    pairs = repetitions(text.ids[:, 1:], text.lengths - 1, AGAINST.ngram)
    assert list(zip(pairs.rows.tolist(), pairs.tokens.tolist(), strict=True)) == [(5, 6), (10, 6)]
    return torch.stack([pairs.rows, pairs.tokens])


@pytest.mark.parametrize("name", MODELS)
def test_a_translator_has_the_weighted_loss_beside_its_own(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name].build(8, 8).double()
    config = TranslateConfig(data=DataConfig(source="-"), label_smoothing=0.1, unlikelihood=AGAINST)
    rows, tokens = candidates(TARGET)
    share = model(SOURCE, TARGET).softmax(-1)[rows, tokens]
    own = model.loss(SOURCE, TARGET, label_smoothing=0.1)
    torch.testing.assert_close(loss_of_words(model, config, SOURCE, TARGET), own - 0.5 * (1 - share).log().sum())


def test_a_language_model_has_the_weighted_loss_beside_its_own() -> None:
    torch.manual_seed(0)
    model = GPTConfig(block=BLOCK, num_layers=1).build(8).double()
    rows, tokens = candidates(TARGET)
    share = model(model.read(TARGET)).softmax(-1)[rows, tokens]
    config = LanguageModelTaskConfig(unlikelihood=AGAINST)
    expected = model.loss(TARGET) - 0.5 * (1 - share).log().sum()
    torch.testing.assert_close(loss_of_text(model, config, TARGET), expected)


def test_a_weight_of_zero_is_the_loss_without() -> None:
    torch.manual_seed(0)
    model = MODELS["transformer"].build(8, 8)
    config = TranslateConfig(data=DataConfig(source="-"), unlikelihood=UnlikelihoodConfig(ngram=2))
    torch.testing.assert_close(
        loss_of_words(model, config, SOURCE, TARGET), model.loss(SOURCE, TARGET, label_smoothing=0.1), rtol=0, atol=0
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight": -1.0}, "weight must be finite and at least 0, got -1.0"),
        ({"weight": float("inf")}, "weight must be finite and at least 0, got inf"),
        ({"ngram": 0}, "ngram must be at least 1, got 0"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        UnlikelihoodConfig(**settings)  # type: ignore[arg-type]


def test_models_whose_attention_has_a_loss_of_its_own_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("ab\tba\n" * 20)
    hard = BahdanauConfig(
        embedding_dim=4,
        hidden_dim=4,
        attention=AttentionConfig(score=AdditiveConfig(), normaliser=HardConfig(mode="sample")),
    )
    data = DataConfig(source=str(tmp_path / "pairs.tsv"), held_out=2)
    for against in (UnlikelihoodConfig(), AGAINST):
        config = TranslateConfig(data=data, model=hard, unlikelihood=against)
        if against.weight:
            with pytest.raises(UsageError, match=r"Bahdanau has more in its loss, such as that of sampled positions\."):
                TranslateTask.prepare(config, tmp_path / "refused")
        else:
            TranslateTask.prepare(config, tmp_path / "run")


class Own(GPT):
    """A user's model with a loss of its own."""

    def loss(self, text: Batch) -> torch.Tensor:
        return 2 * super().loss(text)


def test_a_loss_of_a_users_own_is_not_left_out() -> None:
    torch.manual_seed(0)
    model = GPTConfig(block=BLOCK, num_layers=1).build(8)
    model.__class__ = Own
    UnlikelihoodConfig().require_logits(model, LanguageModel.loss)
    with pytest.raises(UsageError, match="Own has more in its loss"):
        AGAINST.require_logits(model, LanguageModel.loss)


def test_training_makes_mistaken_repetitions_rarer() -> None:
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(8, generator=generator).tolist() for _ in range(64)]
    text = Batch.of([[1, *(token for other in order for token in (3, 4 + other)), 2] for order in orders])  # 3 x 3 y …
    pairs = repetitions(text.ids[:, 1:], text.lengths - 1, 2)
    losses = []
    for weight in (0.0, 10.0):
        torch.manual_seed(0)
        model = GPTConfig(block=BlockConfig(model_dim=16, num_heads=2, feedforward_dim=32, dropout=0.0)).build(16)
        config = LanguageModelTaskConfig(unlikelihood=UnlikelihoodConfig(weight=weight, ngram=2))
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(120):
            optimiser.zero_grad()
            loss_of_text(model, config, text).backward()
            optimiser.step()
        with torch.no_grad():
            losses.append(float(unlikelihood(model.predictions(text), pairs)))
    assert losses[1] < 0.8 * losses[0]


def test_a_language_model_is_trained_with_it(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b a b c\n" * 40)
    data = TextConfig(text=str(tmp_path / "text.txt"), block_length=16, max_tokens=64)
    model = GPTConfig(block=BLOCK, num_layers=1)
    task = LanguageModelTask.prepare(LanguageModelTaskConfig(data=data, model=model, unlikelihood=AGAINST), tmp_path)
    batch = task.batch(0)
    assert task.loss(batch).total > task.model.loss(batch)
