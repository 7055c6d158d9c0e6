"""Inputs: each builds what makes vectors of it, and every model reads any of them."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from foveate.attention import AdditiveConfig, AttentionConfig
from foveate.data.batch import Batch
from foveate.data.row import Row
from foveate.errors import UsageError
from foveate.export.ctranslate2 import refusals as ctranslate2_refusals
from foveate.export.onnx import graphs
from foveate.models import (
    BahdanauConfig,
    BERTConfig,
    ClassifierConfig,
    FixedContextConfig,
    LuongConfig,
    TransformerConfig,
)
from foveate.nn import BlockConfig, CNNEncoderConfig, Patches, RNNEncoderConfig, Tokens, Vectors
from foveate.nn.embed import PatchEmbedding, VectorEmbedding, embed

BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre")
SMALL: dict[str, Any] = {"embedding_dim": 8, "hidden_dim": 6}
TRANSLATORS = {
    "transformer": TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=1),
    "bahdanau": BahdanauConfig(**SMALL, maxout_dim=4, attention=AttentionConfig(score=AdditiveConfig(hidden_dim=5))),
    "luong": LuongConfig(**SMALL),
    "fixed_context": FixedContextConfig(**SMALL),
}
CLASSIFIERS = {
    "rnn": ClassifierConfig(encoder=RNNEncoderConfig(hidden_dim=5), embedding_dim=8),
    "cnn": ClassifierConfig(encoder=CNNEncoderConfig(hidden_dim=6), embedding_dim=8),
    "bert": ClassifierConfig(encoder=BERTConfig(block=BLOCK, num_layers=1, max_length=16)),
}
IDS = [[4, 7, 5], [6, 8, 7, 4, 5]]
VOCAB, TARGET = 9, 11


def vectors() -> Batch:
    """The ids as vectors: one where the id says, noughts elsewhere."""
    return Batch.of([np.eye(VOCAB, dtype=np.float32)[row] for row in IDS])


def like_tokens(model: nn.Module, of_tokens: nn.Module) -> None:
    """Give a model of vectors the weights of one of tokens: a projection of the unit vectors is the table."""
    weights = of_tokens.state_dict()
    for name, parameter in model.state_dict().items():
        if name in weights and weights[name].shape == parameter.shape:
            parameter.copy_(weights[name])
        elif name.endswith("embedding.weight"):
            parameter.copy_(weights[name][:VOCAB].T)
        else:
            assert name.endswith("embedding.bias"), name
            parameter.zero_()


@pytest.mark.parametrize("config", TRANSLATORS.values(), ids=TRANSLATORS.keys())
@torch.no_grad()
def test_an_encoder_decoder_reads_unit_vectors_as_it_reads_tokens(config: Any) -> None:
    of_tokens, of_vectors = config.build(VOCAB, TARGET).eval(), config.build(Vectors(VOCAB), TARGET).eval()
    like_tokens(of_vectors, of_tokens)
    target = Batch.of([[1, 5, 2], [1, 6, 7, 2]])
    torch.testing.assert_close(of_vectors(vectors(), target), of_tokens(Batch.of(IDS), target))
    token = torch.tensor([1, 1])
    states = of_vectors.start(vectors()), of_tokens.start(Batch.of(IDS))
    logits, expected = (
        model.step(state, token)[1] for model, state in zip((of_vectors, of_tokens), states, strict=True)
    )
    torch.testing.assert_close(logits, expected)


@pytest.mark.parametrize("config", CLASSIFIERS.values(), ids=CLASSIFIERS.keys())
@torch.no_grad()
def test_a_classifier_reads_unit_vectors_as_it_reads_tokens(config: Any) -> None:
    of_tokens, of_vectors = config.build(VOCAB, 3).eval(), config.build(Vectors(VOCAB), 3).eval()
    like_tokens(of_vectors, of_tokens)
    torch.testing.assert_close(of_vectors(vectors()), of_tokens(Batch.of(IDS)))


@pytest.mark.parametrize("config", CLASSIFIERS.values(), ids=CLASSIFIERS.keys())
@torch.no_grad()
def test_a_picture_is_read_alone_as_among_others(config: Any) -> None:
    patches = Patches(size=2, channels=1, grid=(2, 3))
    model = config.build(patches, 3).eval()
    places = np.indices((2, 3)).reshape(2, -1).T
    generator = np.random.default_rng(0)
    rows = [Row(generator.random((count, 4), np.float32), places=places[:count]) for count in (6, 2)]
    together = model(Batch.of(rows))
    for number, row in enumerate(rows):
        torch.testing.assert_close(model(Batch.of([row]))[0], together[number])


def test_where_a_patch_stands_changes_its_vector() -> None:
    embedding = Patches(size=2, channels=1, grid=(2, 3)).build(8)
    assert isinstance(embedding, PatchEmbedding)
    values = torch.ones(1, 4)
    here, right, below = (embedding(values, torch.tensor([place])) for place in ([0, 0], [0, 1], [1, 0]))
    assert not torch.equal(here, right)
    assert not torch.equal(here, below)
    with pytest.raises(ValueError, match="learned positions 0 to 1, but the input reaches position 2"):
        embedding(values, torch.tensor([[2, 0]]))


def test_vectors_take_the_type_of_the_weights() -> None:
    embedding = Vectors(3).build(4).to(torch.bfloat16)
    assert isinstance(embedding, VectorEmbedding)
    assert embed(embedding, torch.ones(5, 3), None).dtype == torch.bfloat16


def test_a_shared_vocabulary_needs_tokens() -> None:
    config = TransformerConfig(block=BLOCK, share="all")
    with pytest.raises(
        ValueError, match=r'share="all" needs one vocabulary, but the source has none and the target 11'
    ):
        config.build(Vectors(3), 11)


def test_engines_refuse_inputs_that_they_do_not_support() -> None:
    patches = Patches(size=2, channels=1, grid=(3, 3))
    with pytest.raises(UsageError, match=r"its input is Patches\(.*\), but graphs support only ids"):
        graphs(TRANSLATORS["transformer"].build(patches, TARGET).eval())
    with pytest.raises(UsageError, match=r"its input is Vectors\(width=9\), but graphs support only ids"):
        graphs(TRANSLATORS["transformer"].build(Vectors(VOCAB), TARGET).eval())
    translator = TRANSLATORS["transformer"].build(Vectors(VOCAB), TARGET).eval()
    assert "its input is Vectors(width=9), but graphs support only ids" in ctranslate2_refusals(translator)


def test_a_number_stands_for_tokens() -> None:
    assert CLASSIFIERS["rnn"].build(VOCAB, 3).input == Tokens(VOCAB)
