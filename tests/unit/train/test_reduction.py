import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foveate.nn.position_vector import Sinusoid
from foveate.train import Constant, Loss, TrainConfig, fit, integer_sum
from foveate.train.integer_sum import IntegerSum
from foveate.train.reduction import LARGEST, ExactSummation, FastSummation
from foveate.train.world import ALONE, World

BELOW = float(torch.nextafter(torch.tensor(LARGEST / 4), torch.tensor(0.0)))
"""The largest entry of a batch's gradient where four batches make an update."""


def summed(gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, list[float]]:
    """The exact sum of the gradients of one weight, and the largest entry of each."""
    weight = nn.Parameter(torch.zeros(3))
    summation = ExactSummation([weight], ALONE, len(gradients))
    peaks = []
    for gradient in gradients:
        weight.grad = None if gradient is None else gradient.clone()
        peaks.append(summation.add())
    summation.finish()
    return weight.grad, peaks


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_entries_that_are_allowed_do_not_overflow(sign: float) -> None:
    total, peaks = summed([torch.full((3,), sign * BELOW) for _ in range(4)])
    assert total is not None
    assert total.tolist() == [4 * sign * BELOW] * 3
    assert peaks == [BELOW] * 4


def test_sums_have_no_order_and_keep_the_bits_of_small_entries() -> None:
    gradients = [torch.tensor([3.0 * 2.0**-28, -1e-3, 511.0]), torch.tensor([2.0**-40, 2.0**-27, -511.0])]
    forwards, backwards = summed(gradients)[0], summed(gradients[::-1])[0]
    assert forwards is not None
    assert backwards is not None
    assert torch.equal(forwards, backwards)
    assert torch.equal(forwards, (gradients[0].double() + gradients[1].double()).float())


def test_a_batch_without_a_gradient_adds_none() -> None:
    ones = torch.ones(3)
    assert summed([None, None])[0] is None
    total, _ = summed([None, ones, None])
    assert total is not None
    assert torch.equal(total, ones)


def gradients_of(sizes: Sequence[int], seed: int) -> list[Tensor | None]:
    """Gradients of very different magnitudes, one of them transposed, and none for every fifth parameter."""
    generator = torch.Generator().manual_seed(seed)
    gradients: list[Tensor | None] = []
    for number, size in enumerate(sizes):
        values = torch.randn(size, generator=generator) * 10.0 ** (size % 9 - 6)
        gradients.append(None if number % 5 == 3 else values.view(2, -1).T if size and size % 2 == 0 else values)
    return gradients


@pytest.mark.parametrize("strange", [None, math.nan, -math.inf, 200.0])
def test_the_kernel_and_torch_make_the_same_integers(strange: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [1, 7, 64, 16_383, 16_384, 16_385, 50_000, 0]
    answers = []
    for library in (integer_sum.kernels(), None):
        monkeypatch.setattr(integer_sum, "kernels", lambda library=library: library)
        total = IntegerSum(torch.zeros(sum(sizes), dtype=torch.int64), sizes)
        peaks = [total.add(gradients_of(sizes, seed), limit=100.0) for seed in range(3)]
        if strange is not None:
            last = gradients_of(sizes, 3)
            assert last[6] is not None
            last[6][-1, 1] = strange
            answers.append([*peaks, total.add(last, limit=100.0)])
        else:
            whole = total.content.clone()
            answers.append([*peaks, whole, total.take()])
            assert not total.content.any()
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf, LARGEST / 2])
def test_an_entry_that_integers_cannot_add_is_reported(entry: float) -> None:
    _, peaks = summed([torch.tensor([0.0, entry, 1.0]), torch.ones(3)])
    assert not peaks[0] < LARGEST / 2
    assert peaks[1] == 1.0


class Places:
    """Tells the last of some places, which are more than the table of positions has at first."""

    steps_per_epoch = 4

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model: nn.Module = nn.Sequential(Sinusoid(8), nn.Dropout(0.2), nn.Linear(8, 1))

    def batch(self, step: int) -> Tensor:
        return torch.arange(70 + 30 * (step % 3)).expand(2, -1)

    def loss(self, batch: Tensor) -> Loss:
        errors = self.model(batch).squeeze(-1) - batch / batch.shape[1]
        return Loss(errors.square().sum(), batch.numel())

    def validate(self) -> dict[str, float]:
        return {"loss": float(self.loss(self.batch(2)).total)}

    def describe(self, batch: Tensor) -> str:
        return f"{batch.shape[1]} places"


def test_tables_of_positions_may_grow_in_the_first_batch_under_exact_sums(tmp_path: Path) -> None:
    config = TrainConfig(steps=4, accumulate=2, schedule=Constant(), learning_rate=0.01, validate_every=4)
    tasks = {}
    for reduction in ("exact", "fast"):
        task = tasks[reduction] = Places()
        fit(task, replace(config, reduction=reduction), tmp_path / reduction)
        assert len(task.model[0].table) == 256
    for exact, fast in zip(tasks["exact"].model.parameters(), tasks["fast"].model.parameters(), strict=True):
        torch.testing.assert_close(exact, fast, rtol=0, atol=1e-6)


class Recorded(World):
    """A world of one process that notes, for each sum that begins, which weights have a gradient already."""

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        super().__init__()
        self.weights, self.sums = weights, list[list[bool]]()

    def begin_sum(self, tensor: Tensor) -> Callable[[], None]:
        self.sums.append([weight.grad is not None for weight in self.weights])
        return lambda: None


@pytest.mark.parametrize("bucket", [1, 20, 1000])
def test_fast_sums_begin_while_earlier_layers_have_no_gradient_and_equal_those_of_autograd(
    bucket: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.train.reduction.BUCKET", bucket)
    torch.manual_seed(0)
    model, unused, x = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3))), nn.Linear(4, 4), torch.randn(2, 3, 4)
    weights = [*model.parameters(), *unused.parameters()]
    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    world = Recorded(weights)
    summation = FastSummation(weights, world)
    for number in range(2):
        summation.begin(last=number == 1)
        model(x[number]).square().sum().backward()
        assert len(world.sums) == 0 or number == 1
        summation.add()
    assert len(world.sums) == len(summation.buckets)
    gradients = summation.finish()
    assert all(torch.allclose(mine, other) for mine, other in zip(gradients, expected, strict=True))
    assert all(weight.grad is None for weight in unused.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["fast", "exact"])
def test_sums_are_laid_out_as_their_parameters_and_as_precise(reduction: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(3, 5, dtype=dtype).t()), nn.Parameter(torch.randn(4, dtype=dtype))]
    batches = [[torch.randn(5, 3, dtype=dtype), torch.randn(4, dtype=dtype)] for _ in range(2)]
    summation = FastSummation(weights, Recorded(weights)) if reduction == "fast" else ExactSummation(weights, ALONE, 2)
    for number, batch in enumerate(batches):
        summation.begin(last=number == 1)
        sum((weight * each).sum() for weight, each in zip(weights, batch, strict=True)).backward()
        summation.add()
    for weight, total, *each in zip(weights, summation.finish(), *batches, strict=True):
        assert total.stride() == weight.stride()
        torch.testing.assert_close(total, each[0] + each[1], rtol=2 * torch.finfo(dtype).eps, atol=2.0**-50)


@pytest.mark.parametrize("sharding", ["moments", "full"])
def test_divided_models_have_no_exact_sums(sharding: Any) -> None:
    with pytest.raises(ValueError, match=r'adds floating-point numbers.*Choose reduction = "fast"'):
        TrainConfig(sharding=sharding, reduction="exact")
