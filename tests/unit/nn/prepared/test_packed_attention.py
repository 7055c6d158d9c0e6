"""Attention over tokens without padding: each sentence's attention, and nothing else's."""

import itertools

import pytest
import torch
from torch import Tensor

from foveate.attention import Attention, Dot, GeneralConfig, ScaledDot, Visibility, causal, padding, record, window
from foveate.data.batch import Batch
from foveate.models import TransformerConfig
from foveate.nn import BlockConfig
from foveate.nn.prepared import packed_attention

HEADS, WIDTH = 2, 64
QUERIES = [5, 1, 17, 33, 20, 4]
KEYS = {True: QUERIES, False: [16, 3, 40, 2, 7, 1]}
"""Lengths around the four queries and sixteen keys that the kernel takes at a time."""


def starts(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)])


def built(rule: Visibility) -> Attention:
    return Attention(ScaledDot(), visibility=rule)


def tokens(lengths: list[int], width: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(sum(lengths), width).to(dtype).requires_grad_()


def one_by_one(attention: Attention, query: Tensor, memory: Tensor, lengths: tuple[list[int], list[int]]) -> Tensor:
    """The same through `explain`, sentence by sentence."""
    contexts = []
    key, value = memory.chunk(2, 1)
    for parts in zip(query.split(lengths[0]), key.split(lengths[1]), value.split(lengths[1]), strict=True):
        heads = [part.unflatten(1, (HEADS, -1)).transpose(0, 1)[None] for part in parts]
        contexts.append(attention.explain(*heads).context[0].transpose(0, 1).flatten(1))
    return torch.cat(contexts)


@pytest.mark.parametrize("rule", [causal(), padding()], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_every_sentences_own_attention_gradients_included(rule: Visibility, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    attention, lengths = built(rule), (QUERIES, KEYS[rule == causal()])
    query, memory = tokens(lengths[0], WIDTH, dtype), tokens(lengths[1], 2 * WIDTH, dtype)
    context = packed_attention.attend(attention, query, memory, (starts(lengths[0]), starts(lengths[1])), HEADS)
    grad = torch.randn_like(context)
    ours = (context, *torch.autograd.grad(context, (query, memory), grad))
    wide = [leaf.detach().double().requires_grad_() for leaf in (query, memory)]
    exact = one_by_one(attention, *wide, lengths)
    truths = (exact, *torch.autograd.grad(exact, wide, grad.double()))
    plain = one_by_one(attention, query, memory, lengths)
    theirs = (plain, *torch.autograd.grad(plain, (query, memory), grad))
    for mine, other, truth in zip(ours, theirs, truths, strict=True):
        errors = [float((result.double() - truth).detach().norm() / truth.detach().norm()) for result in (mine, other)]
        assert errors[0] <= errors[1] + 1e-6


def test_queries_keys_and_values_may_lie_beside_each_other() -> None:
    torch.manual_seed(2)
    attention, at = built(causal()), starts(QUERIES)
    joined = tokens(QUERIES, 3 * WIDTH, torch.float32)
    query, memory = joined.split([WIDTH, 2 * WIDTH], 1)
    together = packed_attention.attend(attention, joined, None, (at, at), HEADS)
    apart = packed_attention.attend(attention, query, memory, (at, at), HEADS)
    assert torch.equal(together, apart)
    for one, other in zip(
        *(torch.autograd.grad(each.square().sum(), joined) for each in (together, apart)), strict=True
    ):
        assert torch.equal(one, other)


def test_a_poisoned_future_and_poisoned_neighbours_do_not_reach_a_query() -> None:
    attention, at = built(causal()), starts([9, 3])
    joined = tokens([9, 3], 3 * WIDTH, torch.float32).detach()
    clean = packed_attention.attend(attention, joined, None, (at, at), HEADS)
    joined[6:9] = torch.nan
    poisoned = packed_attention.attend(attention, joined.requires_grad_(), None, (at, at), HEADS)
    assert torch.equal(poisoned[:6], clean[:6])
    assert torch.equal(poisoned[9:], clean[9:])
    (gradient,) = torch.autograd.grad(poisoned[:6].sum(), joined)
    assert gradient[:6, :WIDTH].isfinite().all()
    assert (gradient[9:] == 0).all()


@pytest.mark.parametrize("rule", [causal(), padding()], ids=str)
def test_second_derivatives_are_those_of_every_sentence(rule: Visibility) -> None:
    attention, at = built(rule), starts(QUERIES)
    query, memory = tokens(QUERIES, WIDTH, torch.float32), tokens(QUERIES, 2 * WIDTH, torch.float32)
    packed_context = packed_attention.attend(attention, query, memory, (at, at), HEADS)
    answers = []
    for context in (packed_context, one_by_one(attention, query, memory, (QUERIES, QUERIES))):
        slopes = torch.autograd.grad(context.sin().sum(), (query, memory), create_graph=True)
        answers.append(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), (query, memory)))
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_a_sentence_without_keys_has_no_context() -> None:
    query, memory = tokens([2, 1], WIDTH, torch.float32), tokens([3], 2 * WIDTH, torch.float32)
    context = packed_attention.attend(built(padding()), query, memory, (starts([2, 1]), starts([0, 3])), HEADS)
    gradients = torch.autograd.grad(context.sum(), (query, memory))
    assert (context[:2] == 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_it_refuses_what_it_does_not_compute() -> None:
    x = torch.randn(4, WIDTH)

    def refusal(attention: Attention, x: Tensor = x, head_dim: int = 32, longest: int = 20) -> str:
        return ", ".join(packed_attention.refuses(attention, x, head_dim=head_dim, longest=longest))

    assert refusal(built(padding())) in ("", "needs a C++ compiler")
    assert refusal(Attention(Dot(), visibility=causal())) in ("", "needs a C++ compiler")
    general = GeneralConfig().build(query_dim=32, key_dim=32, num_heads=2)
    assert refusal(Attention(general)) == (
        "made for dot products under softmax, made for causal() and padding(), not for everything()"
    )
    assert "not for window(left=2, right=0)" in refusal(built(window(left=2, right=0)))
    assert (
        refusal(built(padding()), x.double()) == "made for float32 and bfloat16 on CPUs, not for torch.float64 on cpu"
    )
    assert refusal(built(padding()), head_dim=24) == "made for heads of 16, 32, … 256 numbers, not of 24"
    assert refusal(built(padding()), longest=2000) == "made for up to 128 positions, not for 2000"


def test_a_recorded_transformer_answers_the_same_and_shows_the_weights_of_the_padded_paths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    block = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=64)
    model = TransformerConfig(block=block, encoder_layers=1, decoder_layers=1).build(20, 20).eval()
    source, target = Batch.of([[4, 5, 6, 2], [7, 2]]), Batch.of([[1, 4, 5, 6, 2], [1, 5, 2]])
    with torch.no_grad():
        logits = model(source, target)
        with record(model) as recording:
            assert torch.equal(model(source, target), logits)
        monkeypatch.setattr(packed_attention, "kernels", lambda: None)
        with record(model) as padded:
            torch.testing.assert_close(model(source, target), logits)
    assert [one.name for one in recording] == [one.name for one in padded]
    for one, other in zip(recording, padded, strict=True):
        torch.testing.assert_close(one.weights(), other.weights())
