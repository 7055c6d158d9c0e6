"""From scores to weights: what every normaliser keeps to, and each against its definition."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from foveate import native
from foveate.attention import (
    Attention,
    Entmax,
    Hard,
    HardConfig,
    Normaliser,
    ReLU,
    Sigmoid,
    Softmax,
    Sparsemax,
    causal,
    record,
)

VISIBLE = torch.tensor([[[[True, True, False], [False, False, False]]]])
SCORES = torch.tensor([[[[1.0, 3.0, 50.0], [1.0, 2.0, 3.0]]]])
SMOOTH: tuple[Normaliser, ...] = (
    Softmax(),
    Softmax(temperature=0.3),
    ReLU(),
    ReLU(normalised=False),
    Sigmoid(),
    Sigmoid(bias=-2.0),
    Sparsemax(),
    Entmax(),
    Entmax(alpha=1.1),
    Entmax(alpha=3.0),
)
EVERY: tuple[Normaliser, ...] = (*SMOOTH, Hard(mode="argmax"), Hard(mode="straight_through").eval())
SUMS = tuple(one for one in EVERY if not isinstance(one, Sigmoid) and one != ReLU(normalised=False))


@pytest.fixture
def scores() -> Tensor:
    return 2 * torch.randn(2, 3, 4, 7, dtype=torch.float64)


@pytest.fixture
def visible() -> Tensor:
    result = torch.rand(2, 1, 4, 7) < 0.6
    result[0, :, 2] = False
    return result


@pytest.mark.parametrize("normaliser", EVERY, ids=repr)
def test_hidden_keys_weigh_nothing_and_an_empty_row_is_zero(
    normaliser: Normaliser, scores: Tensor, visible: Tensor
) -> None:
    weights = normaliser(scores, visible)
    hidden = ~visible.expand_as(weights)
    assert (weights[hidden] == 0).all()
    assert (weights >= 0).all()
    moved = torch.where(visible, scores, 1e3 * torch.randn_like(scores))
    assert torch.equal(normaliser(moved, visible), weights)
    poisoned = torch.where(visible, scores, torch.nan)
    assert torch.equal(normaliser(poisoned, visible), weights)


@pytest.mark.parametrize("normaliser", SUMS, ids=repr)
def test_rows_sum_to_one(normaliser: Normaliser, scores: Tensor, visible: Tensor) -> None:
    weights = normaliser(scores.abs(), visible)
    torch.testing.assert_close(weights.sum(-1), visible.any(-1).double().expand(2, 3, 4))


@pytest.mark.parametrize("normaliser", SMOOTH, ids=repr)
def test_gradients_are_those_of_finite_differences_and_zero_where_nothing_is_seen(
    normaliser: Normaliser, scores: Tensor, visible: Tensor
) -> None:
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda scores: normaliser(scores, visible), scores)
    (gradient,) = torch.autograd.grad(normaliser(scores, visible).square().sum(), scores)
    assert gradient.isfinite().all()
    assert (gradient[~visible.expand_as(gradient)] == 0).all()


@pytest.mark.parametrize("normaliser", [Sparsemax(), Entmax(alpha=1.3)], ids=repr)
def test_gradients_have_gradients(normaliser: Normaliser, scores: Tensor, visible: Tensor) -> None:
    assert torch.autograd.gradgradcheck(lambda scores: normaliser(scores, visible), scores.requires_grad_())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("normaliser", [Sparsemax(), Entmax(), Entmax(alpha=3.0)], ids=repr)
def test_sparse_weights_can_be_mapped_traced_and_moved(normaliser: Normaliser, dtype: torch.dtype) -> None:
    scores, change = 2 * torch.randn(2, 3, 1, 4, 7, dtype=dtype)
    visible = torch.rand(3, 1, 4, 7) < 0.6

    def weights(scores: Tensor) -> Tensor:
        return normaliser(scores, visible)

    def slope(scores: Tensor) -> Tensor:
        return torch.func.grad(lambda scores: (weights(scores) * change).sum())(scores)

    _, moved = torch.func.jvp(weights, (scores,), (change,))
    torch.testing.assert_close(torch.func.vmap(weights)(scores[None])[0], weights(scores))
    for got in (moved, torch.func.vmap(slope)(scores[None])[0]):
        torch.testing.assert_close(got, slope(scores))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert weights(mode.from_tensor(scores)).shape == scores.shape


COMPILED = """
import torch
from foveate.attention import Entmax, Sparsemax
for normaliser in (Sparsemax(), Entmax(), Entmax(alpha=3.0)):
    scores, visible = torch.randn(1, 1, 6, 6, requires_grad=True), torch.ones(1, 1, 6, 6, dtype=torch.bool).tril()
    compiled = torch.compile(lambda scores: normaliser(scores, visible), backend="eager", fullgraph=True)
    weights, expected, direction = compiled(scores), normaliser(scores, visible), torch.randn(1, 1, 6, 6)
    torch.testing.assert_close(weights, expected)
    gradients = (torch.autograd.grad(one, scores, direction)[0] for one in (weights, expected))
    torch.testing.assert_close(*gradients)
"""


@pytest.mark.slow
def test_sparse_weights_compile_to_one_graph() -> None:
    """In a process of its own: the checks of types that tests run under cannot be compiled."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("normaliser", [*EVERY, Hard(mode="sample"), Hard(mode="gumbel")], ids=repr)
def test_without_keys_there_are_no_weights(normaliser: Normaliser, dtype: torch.dtype) -> None:
    scores, one = torch.zeros(2, 1, 3, 0, dtype=dtype), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    statistic = normaliser.statistic(scores, one)
    for weights in (normaliser(scores, one), normaliser.tile(scores, one, statistic)):
        assert weights.shape == scores.shape
        assert weights.dtype == dtype
    assert statistic.shape == (2, 1, 3)


@pytest.mark.parametrize("normaliser", EVERY, ids=repr)
def test_one_true_for_all_pairs_equals_a_full_mask(normaliser: Normaliser, scores: Tensor) -> None:
    one, full = torch.ones(1, 1, 1, 1, dtype=torch.bool), torch.ones(2, 1, 4, 7, dtype=torch.bool)
    assert torch.equal(normaliser(scores, one), normaliser(scores, full))
    assert torch.equal(normaliser.statistic(scores, one), normaliser.statistic(scores, full))


@pytest.mark.parametrize("normaliser", [Sparsemax(), Entmax()], ids=repr)
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("keys", [1, 16, 133])
def test_float32_by_a_kernel_equals_plain_torch_in_float64(normaliser: Normaliser, scale: float, keys: int) -> None:
    assert native.load("foveate.attention.normaliser", "sparse.cpp").reason in ("", "FOVEATE_NATIVE=0")
    scores = (scale * torch.randn(2, 3, 17, keys)).transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    visible = torch.rand(2, 1, keys, 17).mT < 0.7
    visible[0, :, 2] = False
    exact = scores.detach().double().requires_grad_()
    direction = torch.randn(scores.shape, dtype=torch.float64)
    weights, expected = normaliser(scores, visible), normaliser(exact, visible)
    torch.testing.assert_close(weights.double(), expected, atol=2e-7, rtol=1e-6)
    (mine,) = torch.autograd.grad(weights, scores, direction.float())
    (theirs,) = torch.autograd.grad(expected, exact, direction)
    same = (weights > 0) == (expected > 0)  # a weight of rounding size may be there or not, and its gradient with it
    rows = same.all(-1)
    assert rows.float().mean() > 0.9
    torch.testing.assert_close(mine[rows].double(), theirs[rows], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("normaliser", [Sparsemax(), Entmax()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_visible_score_of_nan_makes_its_own_row_nan_alone(normaliser: Normaliser, dtype: torch.dtype) -> None:
    scores = torch.randn(1, 1, 5, 40, dtype=dtype)
    visible = torch.ones(1, 1, 5, 40, dtype=torch.bool)
    for row, wrong in enumerate((torch.nan, torch.inf, torch.nan, -torch.inf)):
        scores[0, 0, row, 7] = wrong
    visible[0, 0, 2, 7] = False
    weights = normaliser(scores, visible)
    assert weights.isnan().flatten(0, 2).any(-1).tolist() == [True, True, False, False, False]
    assert weights[0, 0, 3, 7] == 0


@pytest.mark.parametrize("normaliser", EVERY, ids=repr)
def test_any_tile_follows_from_one_number_a_row(normaliser: Normaliser, scores: Tensor, visible: Tensor) -> None:
    statistic, columns = normaliser.statistic(scores, visible), slice(2, 6)
    assert statistic.shape == scores.shape[:3]
    tile = normaliser.tile(scores[..., columns], visible[..., columns], statistic, first=2)
    torch.testing.assert_close(tile, normaliser(scores, visible)[..., columns], atol=1e-12, rtol=1e-9)
    assert isinstance(normaliser, Normaliser)


@pytest.mark.parametrize("normaliser", EVERY, ids=repr)
def test_the_statistic_is_float32_at_least(normaliser: Normaliser) -> None:
    for dtype, one in (
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ):
        assert torch.finfo(normaliser.statistic(SCORES.to(dtype), VISIBLE).dtype).bits >= torch.finfo(one).bits
        assert normaliser(SCORES.to(dtype), VISIBLE).dtype == dtype


@pytest.mark.parametrize("normaliser", SUMS, ids=repr)
def test_scores_as_large_as_they_get_do_not_overflow(normaliser: Normaliser) -> None:
    weights = normaliser(SCORES * 1e30, torch.ones_like(VISIBLE))
    assert weights.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 2))


def test_a_temperature_divides_the_scores(scores: Tensor, visible: Tensor) -> None:
    torch.testing.assert_close(Softmax(temperature=0.25)(scores, visible), Softmax()(4 * scores, visible))
    torch.testing.assert_close(Softmax(temperature=1e6)(SCORES, VISIBLE)[0, 0, 0, :2], torch.full((2,), 0.5))


@pytest.mark.parametrize("bias", [None, lambda at: -0.3 * (at.query - at.key).abs().float()])
def test_every_path_honours_a_temperature_or_refuses_it(bias: object) -> None:
    attention = Attention(normaliser=Softmax(temperature=0.2), bias=bias, visibility=causal()).double()
    x = torch.randn(2, 2, 6, 4, dtype=torch.float64)
    expected = attention.explain(x, x, x).context
    torch.testing.assert_close(attention.run(x, x, x), expected)
    at = attention._positions(x, x, x, None)
    for path in attention.paths:
        if not path.refuses(attention, x, x, at):
            result = path.run(attention, x, x, x, at=at, key_features=None, dropout=0.0)
            torch.testing.assert_close(result, expected)


def test_softmax_near_zero_temperature_is_the_hard_choice(scores: Tensor, visible: Tensor) -> None:
    hard = Hard(mode="argmax")(scores, visible)
    distances = [(Softmax(temperature=t)(scores, visible) - hard).abs().max() for t in (1.0, 0.1, 0.01, 1e-4)]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-9


def test_relu_divides_by_the_sum_of_positive_scores(visible: Tensor) -> None:
    scores = torch.tensor([[[[3.0, 1.0, -5.0], [-1.0, -2.0, -3.0]]]])
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    assert ReLU()(scores, everything)[0, 0].tolist() == [[0.75, 0.25, 0.0], [0.0, 0.0, 0.0]]
    assert ReLU(normalised=False)(scores, everything)[0, 0].tolist() == [[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_sparsemax_is_the_nearest_point_of_the_simplex(scores: Tensor) -> None:
    """No distribution is nearer to the scores than it: not a vertex, not a random one."""
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    result = Sparsemax()(scores, everything)
    distance = (result - scores).square().sum(-1)
    others = torch.cat([torch.eye(7), torch.distributions.Dirichlet(torch.full((7,), 0.3)).sample((500,))]).double()
    for other in others:
        assert ((other - scores).square().sum(-1) >= distance - 1e-12).all()
    assert (result == 0).any()


def test_ties_are_shared_by_sparsemax() -> None:
    scores, everything = torch.tensor([[[[1.0, 1.0, 1.0, -9.0]]]]), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    torch.testing.assert_close(Sparsemax()(scores, everything).flatten(), torch.tensor([1 / 3, 1 / 3, 1 / 3, 0]))


def test_entmax_leads_from_softmax_to_sparsemax(scores: Tensor, visible: Tensor) -> None:
    torch.testing.assert_close(Entmax(alpha=2.0)(scores, visible), Sparsemax()(scores, visible))
    near = [(Entmax(alpha=1 + step)(scores, visible) - Softmax()(scores, visible)).abs().max() for step in (0.3, 0.03)]
    assert near[1] < 0.2 * near[0]
    zeros = [int((Entmax(alpha=alpha)(scores, visible) == 0).sum()) for alpha in (1.01, 1.5, 2.0, 4.0)]
    assert zeros == sorted(zeros)


def test_entmax_maximises_its_regularised_score(scores: Tensor) -> None:
    """Σ p e + H_α(p), H_α(p) = Σ (p − p^α) / (α (α − 1)): the definition, against random distributions."""
    alpha, everything = 1.5, torch.ones(1, 1, 1, 1, dtype=torch.bool)

    def value(p: Tensor) -> Tensor:
        return (p * scores + (p - p**alpha) / (alpha * (alpha - 1))).sum(-1)

    best = value(Entmax(alpha=alpha)(scores, everything))
    for other in torch.distributions.Dirichlet(torch.full((7,), 0.5)).sample((500,)).double():
        assert (value(other.expand_as(scores)) <= best + 1e-12).all()


def test_straight_through_chooses_forwards_and_mixes_backwards(scores: Tensor, visible: Tensor) -> None:
    hard, soft = Hard(mode="straight_through", temperature=0.7), Softmax(temperature=0.7)
    direction = torch.randn_like(scores)
    scores.requires_grad_()
    weights = hard(scores, visible)
    assert set(weights.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(weights.detach(), Hard(mode="argmax")(scores, visible))
    (through,) = torch.autograd.grad((weights * direction).sum(), scores)
    (mixed,) = torch.autograd.grad((soft(scores, visible) * direction).sum(), scores)
    torch.testing.assert_close(through, mixed)


@pytest.mark.parametrize("mode", ["sample", "gumbel"])
def test_draws_follow_the_distribution(mode: str) -> None:
    scores, visible = torch.tensor([1.0, 2.0, 0.0, 5.0]), torch.tensor([True, True, True, False])
    many = Hard(mode=mode)(scores.expand(1, 1, 20000, 4), visible.expand(1, 1, 1, 4))
    assert set(many.unique().tolist()) == {0.0, 1.0}
    assert (many.sum(-1) == 1).all()
    expected = Softmax()(scores[None, None, None], visible[None, None, None]).flatten()
    torch.testing.assert_close(many.mean((0, 1, 2)), expected, atol=0.015, rtol=0)


def test_gumbels_gradient_is_that_of_its_own_noisy_softmax(scores: Tensor, visible: Tensor) -> None:
    scores.requires_grad_()
    weights = Hard(mode="gumbel", temperature=0.5)(scores, visible)
    (gradient,) = torch.autograd.grad((weights * torch.randn_like(weights)).sum(), scores)
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient.sum(-1), torch.zeros(2, 3, 4, dtype=torch.float64))  # as softmax's
    assert (gradient != 0).any()


@pytest.mark.parametrize("mode", ["argmax", "sample", "straight_through", "gumbel"])
def test_in_evaluation_the_largest_score_is_chosen(mode: str, scores: Tensor, visible: Tensor) -> None:
    hard = HardConfig(mode=mode).build().eval()
    expected = Hard(mode="argmax")(scores, visible)
    for _ in range(3):
        assert torch.equal(hard(scores, visible), expected)


@pytest.mark.parametrize("mode", ["sample", "gumbel"])
def test_records_of_draws_show_the_distribution_and_draw_nothing(mode: str) -> None:
    attention = Attention(normaliser=Hard(mode=mode), visibility=causal())
    x = torch.randn(1, 1, 5, 4)
    torch.manual_seed(3)
    alone = attention.run(x, x, x)
    torch.manual_seed(3)
    with record(attention) as recording:
        watched = attention.run(x, x, x)
        (one,) = recording.records
        shown = one.weights()
    assert torch.equal(alone, watched)
    torch.testing.assert_close(shown, Attention(visibility=causal()).explain(x, x, x).weights)


def test_the_first_of_equal_scores_is_chosen() -> None:
    scores, visible = torch.ones(1, 1, 1, 4), torch.tensor([[[[False, True, True, True]]]])
    hard = Hard(mode="argmax")
    assert hard(scores, visible).flatten().tolist() == [0, 1, 0, 0]
    tile = hard.tile(scores[..., 1:], visible[..., 1:], hard.statistic(scores, visible), first=1)
    assert tile.flatten().tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Softmax(temperature=0.0), "temperature=0.0 must be positive."),
        (lambda: Entmax(alpha=1.0), "alpha=1.0 must be greater than 1; at 1 it is softmax"),
        (lambda: HardConfig(expectation=1.0), "expectation=1.0 must be at least 0 and below 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match="must be") as refusal:
        make()
    assert str(refusal.value) == message


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("alpha", [1.05, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0])
@pytest.mark.parametrize("keys", [1, 3, 4000])
def test_rows_of_entmax_sum_to_one_whatever_alpha_and_however_many_keys(
    keys: int, alpha: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    result = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    equal, near, far = torch.zeros(keys), 1e-3 * torch.randn(keys), 5 * torch.randn(keys)
    rows = torch.stack([equal, equal + 7.3, near, far])[None, None].to(dtype)
    normaliser = Entmax(alpha=alpha)
    weights = normaliser(rows, result)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 4, dtype=dtype), atol=4e-6, rtol=0)
    torch.testing.assert_close(weights[:, :, :2], torch.full((1, 1, 2, keys), 1 / keys, dtype=dtype), atol=0, rtol=1e-3)
    tile = normaliser.tile(rows[..., :3], result, normaliser.statistic(rows, result))
    torch.testing.assert_close(tile, weights[..., :3], atol=2e-5, rtol=2e-3)
    exact = normaliser(rows.double(), result)
    torch.testing.assert_close(weights.double(), exact, atol=3e-4 if alpha > 2 else 1e-5, rtol=0)
