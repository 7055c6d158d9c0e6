"""The Transformer: presets, ties, positions and caches."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from foveate.attention import AdditiveConfig, AttentionConfig, record, window
from foveate.data.batch import Batch
from foveate.models import Transformer, TransformerConfig
from foveate.nn import BlockConfig, LearnedConfig

BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre")


def small(**settings: object) -> Transformer:
    config = TransformerConfig(**{"block": BLOCK, "encoder_layers": 2, "decoder_layers": 2} | settings)
    return config.build(9, 9).eval()


def test_the_base_model_has_the_papers_size() -> None:
    """About 65 million weights with one vocabulary of 37,000: table 3 of Vaswani et al. 2017."""
    with torch.device("meta"):
        model = TransformerConfig.base().build(37000, 37000)
    assert model.parameter_count() == pytest.approx(65e6, rel=0.04)
    assert len(model.encoder) == len(model.decoder) == 6


def test_vocabulary_matrices_are_tied_as_asked() -> None:
    none, output, every = small(share="none"), small(share="output"), small(share="all")
    assert none.output_weight is not None
    assert output.output_weight is None
    assert output.source_embedding is not output.target_embedding
    assert every.source_embedding is every.target_embedding
    hidden = torch.randn(3, 8)
    torch.testing.assert_close(output.logits(hidden), hidden @ output.target_embedding.weight.T)


def test_one_matrix_for_two_vocabularies_is_refused() -> None:
    with pytest.raises(ValueError, match="share") as refusal:
        TransformerConfig(share="all").build(100, 90)
    assert str(refusal.value) == (
        'share="all" needs one vocabulary, but the source has 100 entries and the target 90. '
        'Train one tokeniser on both sides, or choose share="output".'
    )


def test_embeddings_are_scaled_and_positions_added_before_the_first_block() -> None:
    model, calls = small(), []
    model.encoder[0].register_forward_pre_hook(lambda module, inputs: calls.append(inputs[0]))
    model.encode(Batch.of([[4, 5, 2]]))
    words = model.source_embedding.weight[[4, 5, 2]]
    torch.testing.assert_close(calls[0], words * math.sqrt(8) + model.position(torch.arange(3)))


def test_only_pre_norm_stacks_end_in_a_norm() -> None:
    assert isinstance(small().decoder_norm, nn.LayerNorm)
    post = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="post")
    assert isinstance(small(block=post).decoder_norm, nn.Identity)


def test_an_input_past_the_learned_positions_is_refused() -> None:
    model = small(position=LearnedConfig(max_length=4))
    assert model.max_length == 4
    assert model.position is not model.target_position
    with pytest.raises(ValueError, match="learned positions 0 to 3"):
        model.encode(Batch.of([[4, 5, 6, 7, 2]]))


def test_dropping_a_sentence_drops_its_memory_and_reordering_copies_none() -> None:
    model = small()
    state = model.start(Batch.of([[4, 5, 2], [6, 2]]), beam=2)
    assert len(state.memory[0].key) == 2  # once per sentence, not per hypothesis
    assert model.select(state, torch.tensor([1, 0, 2, 2])).memory is state.memory
    one = model.select(state, torch.tensor([3, 2]))
    torch.testing.assert_close(one.memory[0].key, state.memory[0].key[1:])
    assert int(one.memory_at.real.sum()) == 2


@torch.no_grad()
def test_only_blocks_of_the_usual_kind_are_stepped_from_prepared_weights() -> None:
    source = Batch.of([[4, 2]])
    assert small().start(source).flat is not None
    assert (
        small(block=replace(BLOCK, decoder_attention=AttentionConfig(score=AdditiveConfig(hidden_dim=3))))
        .start(source)
        .flat
        is None
    )
    windowed = small()
    windowed.decoder[1].attention.attention.visibility = window(left=1, right=0)
    assert windowed.start(source).flat is None


@torch.no_grad()
def test_a_recording_that_begins_between_two_steps_sees_the_second() -> None:
    model = small()
    state, _ = model.step(model.start(Batch.of([[4, 5, 2]]), beam=2), torch.tensor([1, 1]))
    expected = model.step(model.select(state, torch.tensor([0, 1])), torch.tensor([3, 4]))[1]
    with record(model) as recording:
        _, logits = model.step(state, torch.tensor([3, 4]))
    assert torch.equal(logits, expected)
    assert [one.kind for one in recording] == ["self", "cross"] * 2
    for one in recording:
        torch.testing.assert_close(one.weights().sum(-1), torch.ones(one.shape[:3]))
    assert (recording.of_kind("self")[0].weights() > 0).sum(-1).flatten().tolist() == [2] * 4
    assert (recording.of_kind("cross")[0].weights() > 0).sum(-1).flatten().tolist() == [3] * 4


@torch.no_grad()
def test_a_model_that_trains_between_two_steps_uses_nothing_that_was_prepared() -> None:
    block = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=48, dropout=0.5)
    model = TransformerConfig(block=block, encoder_layers=1, decoder_layers=1).build(13, 13).eval()
    state, word = model.start(Batch.of([[5, 6, 2]])), torch.tensor([1])
    _, steady = model.step(state, word)
    model.train()
    assert not torch.allclose(model.step(state, word)[1], steady)
