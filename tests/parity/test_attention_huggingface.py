"""T5's relative bias and Llama's rotation, as the transformers library computes them."""

import pytest
import torch
from transformers import LlamaConfig, T5Config
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXConfig, GPTNeoXRotaryEmbedding
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as partly_turned
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from foveate.attention import Attention, Dot, Positions, RelativeBuckets, Rotary, causal
from foveate.nn import MultiHeadAttention

ANGLES = {"atol": 2e-5, "rtol": 1e-5}
"""Theirs are float32."""


@pytest.fixture(params=[True, False], ids=["encoder", "decoder"])
def theirs(request: pytest.FixtureRequest) -> T5Attention:
    config = T5Config(
        d_model=8,
        d_kv=4,
        num_heads=2,
        relative_attention_num_buckets=12,
        relative_attention_max_distance=30,
        is_decoder=not request.param,
        dropout_rate=0.0,
    )
    return T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()


def ours(theirs: T5Attention) -> RelativeBuckets:
    bias = RelativeBuckets(num_heads=2, num_buckets=12, max_distance=30, bidirectional=not theirs.is_decoder)
    with torch.no_grad():
        bias.weight.copy_(theirs.relative_attention_bias.weight)
    return bias


@torch.no_grad()
def test_relative_buckets_are_t5s(theirs: T5Attention) -> None:
    assert torch.equal(ours(theirs)(Positions.of(50, 70)), theirs.compute_bias(50, 70))
    distance = torch.arange(-400, 400)
    assert torch.equal(
        RelativeBuckets(num_heads=1, bidirectional=not theirs.is_decoder).bucket(distance),
        T5Attention._relative_position_bucket(distance, bidirectional=not theirs.is_decoder),
    )


@torch.no_grad()
def test_a_layer_with_the_bias_is_t5s_layer(theirs: T5Attention) -> None:
    x = torch.randn(2, 9, 8)
    layer = MultiHeadAttention(query_dim=8, num_heads=2)
    for own, other in ((layer.query, "q"), (layer.key, "k"), (layer.value, "v"), (layer.output, "o")):
        own.weight.copy_(getattr(theirs, other).weight)
    layer.attention = Attention(Dot(), bias=ours(theirs), visibility=causal() if theirs.is_decoder else None)
    hidden = torch.full((9, 9), torch.finfo(torch.float32).min).triu(1)[None, None] if theirs.is_decoder else None
    torch.testing.assert_close(layer(x), theirs(x, mask=hidden)[0], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_rotary_in_halves_is_llamas() -> None:
    config = LlamaConfig(hidden_size=16, num_attention_heads=2, head_dim=8, max_position_embeddings=64)
    query, key = torch.randn(2, 2, 20, 8), torch.randn(2, 1, 20, 8)
    cos, sin = LlamaRotaryEmbedding(config)(query, torch.arange(5, 25)[None])
    at = Positions.of(25, 25).rows(slice(5, 25)).columns(slice(5, 25))
    rotary = Rotary(layout="halves")
    turned_query, turned_key = apply_rotary_pos_emb(query, key, cos, sin)
    torch.testing.assert_close(rotary.query(query, at), turned_query, **ANGLES)
    torch.testing.assert_close(rotary.key(key, at), turned_key, **ANGLES)


@torch.no_grad()
def test_partial_rotary_is_gpt_neoxs() -> None:
    config = GPTNeoXConfig(hidden_size=16, num_attention_heads=2, rotary_pct=0.5, max_position_embeddings=64)
    query, key = torch.randn(2, 2, 20, 8), torch.randn(2, 2, 20, 8)
    cos, sin = GPTNeoXRotaryEmbedding(config)(query, torch.arange(20)[None])
    assert cos.shape[-1] == 4
    rotary, at = Rotary(layout="halves", dims=4), Positions.of(20, 20)
    turned_query, turned_key = partly_turned(query, key, cos, sin)
    torch.testing.assert_close(rotary.query(query, at), turned_query, **ANGLES)
    torch.testing.assert_close(rotary.key(key, at), turned_key, **ANGLES)
