"""Copied weights make our multi-head attention torch's, and our attention torch's fused kernel."""

import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from foveate.attention import Attention, Positions, causal, padding
from foveate.attention.paths import PATHS, Path, ProductPath, SDPAPath
from foveate.nn import MultiHeadAttention

ROUNDING = {"atol": 1e-12, "rtol": 0}  # float64, sums of a few dozen numbers around 1
LENGTHS = torch.tensor([5, 2, 4])
GENERAL = {"product", "sdpa", "chunked", "materialised"}
"""Paths that compute plain attention in float64; the others are for other rules, scores or precisions and say so."""


def copied(theirs: nn.MultiheadAttention, **settings: object) -> MultiHeadAttention:
    """Ours with the weights of theirs, which keeps them apart when widths differ and stacked when they do not."""
    dim = theirs.embed_dim
    ours = MultiHeadAttention(
        query_dim=dim, key_dim=theirs.kdim, value_dim=theirs.vdim, num_heads=theirs.num_heads, bias=True, **settings
    ).double()
    apart = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    weights = apart if theirs.in_proj_weight is None else theirs.in_proj_weight.chunk(3)
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
        theirs.out_proj.bias.normal_()
        for layer, weight, bias in zip(
            (ours.query, ours.key, ours.value), weights, theirs.in_proj_bias.chunk(3), strict=True
        ):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        ours.output.load_state_dict(theirs.out_proj.state_dict())
    return ours


def hidden_padding(length: int) -> Tensor:
    """torch says True where a key is hidden."""
    return torch.arange(length) >= LENGTHS[:, None]


def test_self_attention_over_padded_sentences() -> None:
    theirs = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    ours = copied(theirs, visibility=padding())
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    at = Positions.of(5, 5, key_lengths=LENGTHS)

    context, weights = theirs(x, x, x, key_padding_mask=hidden_padding(5), average_attn_weights=False)

    torch.testing.assert_close(ours(x, at=at), context, **ROUNDING)
    torch.testing.assert_close(ours.explain(x, at=at).weights, weights, **ROUNDING)


def test_causal_self_attention_over_padded_sentences() -> None:
    theirs = nn.MultiheadAttention(8, 4, batch_first=True, dtype=torch.float64)
    ours = copied(theirs, visibility=causal() & padding())
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    at = Positions.of(5, 5, key_lengths=LENGTHS)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)

    context, weights = theirs(x, x, x, key_padding_mask=hidden_padding(5), attn_mask=future, average_attn_weights=False)

    torch.testing.assert_close(ours(x, at=at), context, **ROUNDING)
    torch.testing.assert_close(ours.explain(x, at=at).weights, weights, **ROUNDING)


def test_cross_attention_between_different_widths_is_torchs() -> None:
    theirs = nn.MultiheadAttention(8, 2, kdim=6, vdim=10, batch_first=True, dtype=torch.float64)
    ours = copied(theirs, visibility=padding(), kind="cross")
    query, key, value = (torch.randn(3, *shape, dtype=torch.float64) for shape in ((4, 8), (5, 6), (5, 10)))
    at = Positions.of(4, 5, key_lengths=LENGTHS)

    context, _ = theirs(query, key, value, key_padding_mask=hidden_padding(5))

    torch.testing.assert_close(ours(query, key, value, at=at), context, **ROUNDING)


def test_gradients_are_torchs() -> None:
    theirs = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    ours = copied(theirs, visibility=padding())
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    direction = torch.randn(3, 5, 8, dtype=torch.float64)

    (theirs(x, x, x, key_padding_mask=hidden_padding(5))[0] * direction).sum().backward()
    (ours(x, at=Positions.of(5, 5, key_lengths=LENGTHS)) * direction).sum().backward()

    stacked = torch.cat([layer.weight.grad for layer in (ours.query, ours.key, ours.value)])
    torch.testing.assert_close(stacked, theirs.in_proj_weight.grad, atol=1e-11, rtol=0)
    torch.testing.assert_close(ours.output.weight.grad, theirs.out_proj.weight.grad, atol=1e-11, rtol=0)


def test_a_sentence_without_words_gives_zeros_where_torch_gives_nan() -> None:
    theirs = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    ours = copied(theirs, visibility=padding())
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    nothing = torch.ones(1, 3, dtype=torch.bool)

    assert theirs(x, x, x, key_padding_mask=nothing)[0].isnan().all()
    seen = ours.explain(x, at=Positions.of(3, 3, key_lengths=torch.tensor([0])))
    assert (seen.context == 0).all()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("triangle", [False, True])
def test_attention_is_the_fused_kernel_or_refuses(path: Path, kv_heads: int, triangle: bool) -> None:
    query = torch.randn(2, 4, 6, 8, dtype=torch.float64)
    key, value = (torch.randn(2, kv_heads, 6, 8, dtype=torch.float64) for _ in range(2))
    attention = Attention(visibility=causal() if triangle else None, paths=(path,))
    if reasons := path.refuses(attention, query, key, Positions.of(6, 6)):
        assert path.name not in GENERAL
        with pytest.raises(ValueError, match=re.escape(reasons[0])):
            attention.run(query, key, value)
        return

    expected = scaled_dot_product_attention(query, key, value, is_causal=triangle, enable_gqa=True)

    torch.testing.assert_close(attention.run(query, key, value), expected, **ROUNDING)


@pytest.mark.parametrize("fast", [ProductPath(), SDPAPath()], ids=["product", "sdpa"])
def test_another_path_does_not_change_the_answer(fast: Path) -> None:
    x, attention = torch.randn(2, 2, 9, 4, dtype=torch.float64), Attention(visibility=causal(), paths=(fast,))
    assert attention.plan(x, x).chosen == fast.name
    expected = scaled_dot_product_attention(x, x, x, is_causal=True)
    torch.testing.assert_close(attention.run(x, x, x), expected, **ROUNDING)
