"""The contract of all models: what is refused, counted and stored."""

import pytest
import torch

from foveate.attention import AttentionConfig, Dot
from foveate.config import build, to_dict
from foveate.data.batch import Batch
from foveate.decode import Stepper
from foveate.models import (
    BahdanauConfig,
    FixedContextConfig,
    LuongConfig,
    ModelConfig,
    Seq2Seq,
    TransformerConfig,
)
from foveate.models.seq2seq import selected_sentences
from foveate.nn import BlockConfig

SMALL: list[ModelConfig] = [
    FixedContextConfig(embedding_dim=4, hidden_dim=6),
    BahdanauConfig(embedding_dim=4, hidden_dim=6, maxout_dim=3),
    LuongConfig(embedding_dim=4, hidden_dim=6),
    TransformerConfig(block=BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8), encoder_layers=1),
]


@pytest.mark.parametrize("config", SMALL, ids=lambda config: type(config).__name__)
def test_every_model_keeps_the_contract(config: ModelConfig) -> None:
    model = config.build(9, 11)
    assert isinstance(model, Seq2Seq)
    assert isinstance(model, Stepper)
    assert model.max_length is None
    source, target = Batch.of([[4, 5, 2], [6, 2]]), Batch.of([[1, 9, 2], [1, 10, 10, 2]])
    assert model(source, target).shape == (5, 11)
    state, logits = model.step(model.start(source, beam=2), torch.tensor([1, 1, 1, 1]))
    assert logits.shape == (4, 11)
    _, logits = model.step(model.select(state, torch.tensor([3, 2])), torch.tensor([4, 5]))
    assert logits.shape == (2, 11)


@pytest.mark.parametrize("config", SMALL, ids=lambda config: type(config).__name__)
def test_a_configuration_survives_being_written_down(config: ModelConfig) -> None:
    assert build(type(config), to_dict(config)) == config


@pytest.mark.parametrize("config", SMALL, ids=lambda config: type(config).__name__)
def test_a_state_dict_is_the_whole_model(config: ModelConfig) -> None:
    torch.manual_seed(1)
    one = config.build(9, 11).eval()
    torch.manual_seed(2)
    other = config.build(9, 11).eval()
    other.load_state_dict(one.state_dict())
    source, target = Batch.of([[4, 5, 2]]), Batch.of([[1, 9, 2]])
    assert torch.equal(one(source, target), other(source, target))


@pytest.mark.parametrize("config", SMALL, ids=lambda config: type(config).__name__)
def test_dropout_is_noise_in_training_and_nothing_in_use(config: ModelConfig) -> None:
    model = config.build(9, 11)
    source, target = Batch.of([[4, 5, 2]]), Batch.of([[1, 9, 2]])
    assert not torch.equal(model(source, target), model(source, target))
    model.eval()
    assert torch.equal(model(source, target), model(source, target))


def test_selected_rows_belong_to_their_sentences() -> None:
    assert selected_sentences(torch.tensor([1, 0, 2, 2]), 2, 2) is None  # reordered, none dropped
    assert selected_sentences(torch.tensor([3, 2]), 2, 2).tolist() == [1]
    assert selected_sentences(torch.tensor([0, 2]), 1, 3).tolist() == [0, 2]
    assert selected_sentences(torch.tensor([0, 1, 2]), 1, 3) is None


def test_tied_weights_count_once() -> None:
    tied = SMALL[3].build(9, 9)
    embedding = 9 * 8
    one = TransformerConfig(block=SMALL[3].block, encoder_layers=1, share="none").build(9, 9)
    every = TransformerConfig(block=SMALL[3].block, encoder_layers=1, share="all").build(9, 9)
    assert one.parameter_count() - tied.parameter_count() == embedding
    assert tied.parameter_count() - every.parameter_count() == embedding


def test_a_dot_product_of_different_widths_is_refused_before_training() -> None:
    with pytest.raises(ValueError, match="width") as refusal:
        BahdanauConfig(hidden_dim=6, attention=AttentionConfig(score=Dot())).build(9, 9)
    assert str(refusal.value) == (
        "Dot needs queries and keys of one width, got 6 and 12. Choose equal widths, or the score "
        '"general" or "additive", which learn to join different ones.'
    )


@pytest.mark.parametrize("config", [FixedContextConfig(hidden_dim=5), LuongConfig(hidden_dim=5, bidirectional=True)])
def test_two_directions_share_an_even_width(config: ModelConfig) -> None:
    with pytest.raises(ValueError, match="even") as refusal:
        config.build(9, 9)
    assert str(refusal.value) == "hidden_dim=5 must be even to be shared by two directions."
