"""A model is as long as the shortest of its positions and mechanisms, and its configuration knows."""

from typing import Any

import pytest

from foveate.attention import (
    AttentionConfig,
    LocalMonotonicConfig,
    LocationConfig,
)
from foveate.attention.efficient import LinformerConfig, SynthesizerConfig
from foveate.models import (
    BahdanauConfig,
    BERTConfig,
    ClassifierConfig,
    FixedContextConfig,
    GPTConfig,
    LlamaConfig,
    LuongConfig,
    RecurrentLanguageModelConfig,
    TaggerConfig,
    TransformerConfig,
)
from foveate.nn.encoder import RANEncoderConfig, TransformerEncoderConfig
from foveate.nn.pooling import AttentionPoolingConfig
from foveate.nn.position_vector import LearnedConfig, NoneConfig
from foveate.nn.ran import RANConfig
from foveate.nn.transformer_block import BlockConfig

LINFORMER = LinformerConfig(max_length=12, projected_length=2)
SYNTHESIZER = SynthesizerConfig(max_length=11, rank=2)
LOCATION = AttentionConfig(score=LocationConfig(max_length=10))
LOCAL = LocalMonotonicConfig(window=2, score=LocationConfig(max_length=9))


def block(**sites: Any) -> BlockConfig:
    return BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8, **sites)


def transformer(**settings: Any) -> TransformerConfig:
    return TransformerConfig(encoder_layers=1, decoder_layers=1, **settings)


PAIRS = [
    (transformer(block=block(), position=LearnedConfig(max_length=20)), 20),
    (transformer(block=block(encoder_attention=LINFORMER), position=LearnedConfig(max_length=20)), 12),
    (transformer(block=block(encoder_attention=SYNTHESIZER, cross_attention=LINFORMER)), 11),
    (transformer(block=block(decoder_attention=SYNTHESIZER)), 11),
    (transformer(block=block(cross_attention=LOCATION), target_position=LearnedConfig(max_length=8)), 8),
    (transformer(block=block(encoder_attention=LINFORMER), encoder=RANConfig(num_heads=2, head_dim=4)), None),
    (BahdanauConfig(attention=LOCATION), 10),
    (LuongConfig(attention=LOCAL), 9),
    (LuongConfig(attention=LINFORMER), 12),
    (LuongConfig(), None),
    (FixedContextConfig(), None),
]
TEXTS = [
    (GPTConfig(block=block(decoder_attention=SYNTHESIZER)), 11),
    (GPTConfig(block=block(encoder_attention=SYNTHESIZER), position=NoneConfig()), None),
    (LlamaConfig(model_dim=8, num_heads=2, num_kv_heads=2, attention=SYNTHESIZER), 11),
    (LlamaConfig(model_dim=8, num_heads=2, num_kv_heads=2, max_length=7, attention=SYNTHESIZER), 7),
    (RecurrentLanguageModelConfig(hidden_dim=8), None),
    (BERTConfig(block=block(encoder_attention=LINFORMER), num_layers=1), 12),
    (BERTConfig(block=block(encoder_attention=LINFORMER), num_layers=1, max_length=6), 6),
    (BERTConfig(block=block(), num_layers=1, max_length=6), 6),
]
ENCODER = TransformerEncoderConfig(block=block(encoder_attention=LINFORMER), num_layers=1)
LABELLERS = [
    (TaggerConfig(encoder=ENCODER, character_dim=0), 12),
    (TaggerConfig(encoder=BERTConfig(block=block(encoder_attention=LOCATION), num_layers=1)), 10),
    (TaggerConfig(character_dim=0), None),
    (ClassifierConfig(encoder=ENCODER), 12),
    (ClassifierConfig(encoder=ENCODER, pooling=AttentionPoolingConfig(attention=LOCATION)), 10),
    (ClassifierConfig(pooling=AttentionPoolingConfig(attention=LOCATION)), 10),
    (ClassifierConfig(encoder=BERTConfig(block=block(), num_layers=1, max_length=6)), 6),
    (ClassifierConfig(encoder=RANEncoderConfig(model_dim=8, num_heads=2, head_dim=4)), None),
]


@pytest.mark.parametrize(("config", "longest"), PAIRS, ids=str)
def test_a_translation_model_is_as_long_as_its_shortest_part(config: Any, longest: int | None) -> None:
    assert getattr(config, "positions", None) == config.build(9, 9).max_length == longest


@pytest.mark.parametrize(("config", "longest"), TEXTS, ids=str)
def test_a_model_of_text_is_as_long_as_its_shortest_part(config: Any, longest: int | None) -> None:
    assert getattr(config, "positions", None) == config.build(9).max_length == longest


@pytest.mark.parametrize(("config", "longest"), LABELLERS, ids=str)
def test_a_model_that_labels_is_as_long_as_its_shortest_part(config: Any, longest: int | None) -> None:
    assert config.positions == config.build(9, 3).max_length == longest
