"""The recurrent form: a sum in place of keys and values, equal to the whole, and no larger however long the past is."""

import pytest
import torch

from foveate.attention import Attention, Positions, causal, padding, summary, window
from foveate.attention.efficient import LinearAttention, PerformerAttention, RunningSum, running_sum
from foveate.attention.efficient.kernel import KernelAttention, KernelPath

DIM = 4
ATTENTIONS = {
    "linear": lambda: LinearAttention(visibility=causal()),
    "linear eps": lambda: LinearAttention(visibility=causal(), eps=0.5),
    "performer": lambda: PerformerAttention(head_dim=DIM, num_features=6, visibility=causal()),
}


@pytest.fixture(params=ATTENTIONS)
def attention(request: pytest.FixtureRequest) -> KernelAttention:
    return ATTENTIONS[request.param]().double()


def summed(attention: Attention, key: torch.Tensor, value: torch.Tensor) -> RunningSum:
    past = running_sum(attention, key, value)
    assert past is not None
    return past


@pytest.mark.parametrize("prompt", [0, 1, 5, 11])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_step_from_the_sum_is_the_row_of_the_whole(attention: KernelAttention, prompt: int, kv_heads: int) -> None:
    query = torch.randn(2, 4, 12, DIM, dtype=torch.float64)
    key, value = (torch.randn(2, kv_heads, 12, dim, dtype=torch.float64) for dim in (DIM, 3))
    whole = attention.explain(query, key, value).context
    past = summed(attention, key[:, :, :prompt], value[:, :, :prompt])
    for time in range(prompt, 12):
        now = slice(time, time + 1)
        past = past.and_then(key[:, :, now], value[:, :, now])
        torch.testing.assert_close(past.context(query[:, :, now]), whole[:, :, now], atol=1e-12, rtol=0)


def test_the_sum_does_not_grow_with_the_text(attention: KernelAttention) -> None:
    sizes = set()
    for length in (0, 1, 1000):
        key, value = torch.randn(2, 1, 2, length, DIM, dtype=torch.float64)
        past = summed(attention, key, value)
        sizes.add(past.total.numel() + past.shift.numel())
    assert len(sizes) == 1


def test_adding_leaves_the_sum_as_it_was(attention: KernelAttention) -> None:
    key, value = torch.randn(2, 3, 2, 4, DIM, dtype=torch.float64)
    past = summed(attention, key, value)
    before = past.total.clone()
    past.and_then(key, value)
    assert torch.equal(past.total, before)
    chosen = past.select(torch.tensor([2, 0]))
    assert torch.equal(chosen.total, before[[2, 0]])


def test_gradients_flow_through_the_steps(attention: KernelAttention) -> None:
    x = torch.randn(1, 2, 5, DIM, dtype=torch.float64, requires_grad=True)

    def last_by_steps(x: torch.Tensor) -> torch.Tensor:
        past = summed(attention, x[:, :, :2], x[:, :, :2])
        for time in range(2, 5):
            past = past.and_then(x[:, :, time : time + 1], x[:, :, time : time + 1])
        return past.context(x[:, :, 4:])

    (stepped,) = torch.autograd.grad(last_by_steps(x).square().sum(), x)
    (whole,) = torch.autograd.grad(attention.explain(x, x, x).context[:, :, 4:].square().sum(), x)
    torch.testing.assert_close(stepped, whole)


@pytest.mark.parametrize("sizes", [(30.0, 1.0), (1.0, 30.0)], ids=["short keys follow long", "long keys follow short"])
def test_keys_of_very_different_lengths_neither_overflow_nor_are_washed_out(sizes: tuple[float, float]) -> None:
    """Performer's features of a key 30 times as long are exp(−100) times as large, which float32 rounds to 0."""
    torch.manual_seed(2)
    attention = PerformerAttention(head_dim=64, num_features=32, visibility=causal())
    query, key, value = torch.randn(3, 1, 2, 10, 64)
    key = key * torch.tensor(sizes).repeat_interleave(5)[:, None]
    explanation = attention.explain(query, key, value).context
    past = summed(attention, key[:, :, :0], value[:, :, :0])
    for time in range(10):
        now = slice(time, time + 1)
        past = past.and_then(key[:, :, now], value[:, :, now])
        torch.testing.assert_close(past.context(query[:, :, now]), explanation[:, :, now], atol=1e-4, rtol=1e-4)
    path = KernelPath().run(attention, query, key, value, at=Positions.of(10, 10))
    torch.testing.assert_close(path, explanation, atol=1e-4, rtol=1e-4)


def test_in_bfloat16_sums_are_kept_in_float32() -> None:
    attention = LinearAttention(visibility=causal())
    x = torch.randn(1, 1, 3000, DIM, dtype=torch.bfloat16)
    past = summed(attention, x, x)
    assert past.total.dtype == torch.float32
    result = past.context(x[:, :, -1:])
    assert result.dtype == torch.bfloat16
    exact = attention.double().explain(x.double(), x.double(), x.double()).context[:, :, -1:]
    assert (result.double() - exact).abs().max() < 0.01


@pytest.mark.parametrize("rule", [padding(), causal() & window(left=2, right=0), causal() & summary(block=2, count=1)])
def test_an_attention_that_does_not_see_all_earlier_keys_keeps_them(rule: object) -> None:
    x = torch.randn(1, 1, 4, DIM)
    assert running_sum(LinearAttention(visibility=rule), x, x) is None
    assert running_sum(Attention(visibility=causal()), x, x) is None
