"""Blocks of queries: exact, with the gradients of everything that takes part, in memory for one block."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from foveate.attention import (
    AdditiveConfig,
    Attention,
    GeneralConfig,
    Hard,
    Positions,
    ScaledDot,
    Softmax,
    causal,
    choices,
    padding,
)
from foveate.attention.paths import ChunkedPath, Path, materialised

PATH = ChunkedPath()


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two queries, or for scores with hidden units one."""
    monkeypatch.setattr(materialised, "ROOM", 2 * 2 * 2 * 7 * 4)


class Learnt(nn.Module):
    """A bias that is learnt, and a score that nobody has heard of."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.3))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return -self.slope * (query[..., :, None, :] - key[..., None, :, :]).square().sum(-1)


def sites() -> list[Attention]:
    torch.manual_seed(0)
    slope = nn.Parameter(torch.tensor(0.2))
    learnt = Attention(Learnt(), visibility=causal(), bias=lambda at: slope * (at.query - at.key).float())
    learnt.slope = slope
    return [
        learnt,
        Attention(ScaledDot(), visibility=causal() & padding(), normaliser=Softmax(temperature=0.5)),
        Attention(GeneralConfig().build(query_dim=4, key_dim=4), reweight=lambda at: -0.1 * at.key.float()),
        Attention(AdditiveConfig(hidden_dim=5).build(query_dim=4, key_dim=4, num_heads=2), visibility=padding()),
    ]


def outcome(site: Attention, *, whole: bool) -> list[Tensor]:
    torch.manual_seed(1)
    query, key, value = (torch.randn(2, heads, 7, 4).requires_grad_() for heads in (2, 1, 1))
    at = Positions.of(7, 7, key_lengths=torch.tensor([5, 0]))
    if whole:
        context = site.explain(query, key, value, at=at).context
    else:
        context = PATH.run(site, query, key, value, at=at, key_features=None, dropout=0.0)
    direction = torch.randn(context.shape)
    return [context, *torch.autograd.grad((context * direction).sum(), [query, key, value, *site.parameters()])]


@pytest.mark.parametrize("number", range(4))
def test_blocks_give_what_the_whole_gives_gradients_of_every_part_included(number: int) -> None:
    site = sites()[number]
    for one, other in zip(outcome(site, whole=False), outcome(site, whole=True), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_dropped_weights_are_the_same_on_the_way_back() -> None:
    x = torch.randn(2, 2, 7, 4)
    value = torch.eye(7).expand(2, 2, 7, 7).clone().requires_grad_()
    torch.manual_seed(3)
    one = PATH.run(Attention(), x, x, value, at=Positions.of(7, 7), key_features=None, dropout=0.5)
    (grad,) = torch.autograd.grad(one.sum(), value)
    torch.testing.assert_close(grad[..., 0], one.detach().sum(2), atol=1e-6, rtol=0)


def test_gumbel_noise_is_the_same_on_the_way_back() -> None:
    x = torch.randn(2, 2, 7, 4)
    value = torch.eye(7).expand(2, 2, 7, 7).clone().requires_grad_()
    site = Attention(normaliser=Hard(mode="gumbel"))
    chosen = PATH.run(site, x, x, value, at=Positions.of(7, 7), key_features=None, dropout=0.0)
    (grad,) = torch.autograd.grad(chosen.sum(), value)
    assert torch.equal(grad[..., 0], chosen.detach().sum(2))
    assert (chosen.sum(-1) == 1).all()


def test_samples_are_drawn_at_once_and_reported_once() -> None:
    query, key = torch.randn(2, 2, 7, 4, requires_grad=True), torch.randn(2, 2, 7, 4)
    additive = AdditiveConfig(hidden_dim=5).build(query_dim=4, key_dim=4)
    for score in (ScaledDot(), additive):
        site, at = Attention(score, normaliser=Hard(mode="sample", expectation=0.5)), Positions.of(7, 7)
        assert PATH.refuses(site, query, key, at) == [f"{site.normaliser} draws for all queries at once"]
        assert not PATH.refuses(site, query[:, :, :1], key, Positions.of(1, 7))
        with choices() as taken:
            site.run(query, key, key, at=at).sum().backward()
        assert [choice.entropy.shape for choice in taken] == [(2, 2, 7)]
        assert not PATH.refuses(site.eval(), query, key, at)


def test_a_tensor_computed_before_learns_through_the_blocks_too() -> None:
    at, slope = Positions.of(7, 7), nn.Parameter(torch.tensor(0.4))
    far = slope.exp() * (at.key - at.query).float()
    site = Attention(ScaledDot(), bias=lambda at: far[..., at.query.flatten(), :])
    x = torch.randn(2, 2, 7, 4)
    blocks = PATH.run(site, x, x, x, at=at, key_features=None, dropout=0.0).square().sum()
    whole = site.explain(x, x, x).context.square().sum()
    (mine,), (expected,) = (torch.autograd.grad(loss, slope, retain_graph=True) for loss in (blocks, whole))
    torch.testing.assert_close(mine, expected, atol=1e-6, rtol=1e-4)


def test_a_gradient_that_would_be_lost_is_an_error() -> None:
    slope = nn.Parameter(torch.tensor(0.4))
    later = Attention(bias=lambda at: slope * at.key.float() if int(at.query.min()) > 3 else at.key.float())
    x = torch.randn(2, 2, 7, 4, requires_grad=True)
    context = PATH.run(later, x, x, x, at=Positions.of(7, 7), key_features=None, dropout=0.0)
    with pytest.raises(RuntimeError, match="not in the first query's"):
        context.sum().backward()


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("way", ["checkpoint", "hooks"])
def test_what_was_saved_may_come_back_as_another_tensor(number: int, way: str) -> None:
    site, at = sites()[number], Positions.of(7, 7, key_lengths=torch.tensor([5, 0]))
    inputs = [torch.randn(2, 2, 7, 4, requires_grad=True) for _ in range(3)]

    def run(*inputs: Tensor) -> Tensor:
        return PATH.run(site, *inputs, at=at, key_features=None, dropout=0.0)

    leaves = [*inputs, *site.parameters()]
    expected = torch.autograd.grad(run(*inputs).square().sum(), leaves)
    if way == "checkpoint":
        context = checkpoint(run, *inputs, use_reentrant=False)
    else:
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
            context = run(*inputs)
    for one, other in zip(torch.autograd.grad(context.square().sum(), leaves), expected, strict=True):
        assert torch.equal(one, other)


def test_blocks_can_be_mapped() -> None:
    site, x = Attention(visibility=causal()), torch.randn(2, 2, 7, 4)

    def run(query: Tensor) -> Tensor:
        return PATH.run(site, query, x, x, at=Positions.of(7, 7), key_features=None, dropout=0.0)

    torch.testing.assert_close(torch.func.vmap(run)(x[None])[0], run(x))


def test_blocks_leave_no_graph_behind() -> None:
    """What stays of each of them would cut up the memory that they leave, and the process grow with the square."""
    x = torch.randn(2, 2, 7, 4, requires_grad=True)
    context = PATH.run(Attention(), x, x, x, at=Positions.of(7, 7), key_features=None, dropout=0.0)
    assert context.grad_fn is not None
    assert {name.name() for name, _ in context.grad_fn.next_functions if name} == {"torch::autograd::AccumulateGrad"}


def test_the_cost_counts_blocks_and_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(materialised, "ROOM", 2**24)
    site, at = Attention(), Positions.of(4096, 4096)
    x = torch.zeros(1, 8, 4096, 64)
    cost = PATH.cost(site, x, x, at)
    assert cost.bytes <= 3 * 2**24
    assert (
        cost.bytes < 0.1 * next(path for path in site.paths if path.name == "materialised").cost(site, x, x, at).bytes
    )


def test_empty_queries_and_keys_cause_no_error() -> None:
    site = Attention()
    for queries, keys in ((0, 3), (3, 0)):
        query, key = torch.zeros(1, 1, queries, 4), torch.zeros(1, 1, keys, 4)
        context = PATH.run(site, query, key, key, at=Positions.of(queries, keys), key_features=None, dropout=0.0)
        assert context.shape == (1, 1, queries, 4)
        assert isinstance(PATH, Path)


def test_a_third_derivative_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(materialised, "ROOM", 1)
    x = torch.randn(1, 1, 3, 4, dtype=torch.float64, requires_grad=True)
    path, attention = ChunkedPath(), Attention()
    context = path.run(attention, x, x, x, at=Positions.of(3, 3), key_features=None, dropout=0.0)
    (first,) = torch.autograd.grad(context.sin().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"a third is asked for\. Let it keep everything: Attention\(\.\.\., paths="):
        second.sum().backward()
