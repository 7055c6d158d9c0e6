import pytest
import torch
from torch import nn

from foveate.comparison.cell import _Alive, step_bytes
from foveate.nn.loss import Loss
from foveate.train import TrainConfig


class Line:
    """One matrix of 64 × 64, and batches of 2 and of 8 rows."""

    steps_per_epoch = 2

    def __init__(self) -> None:
        self.model = nn.Linear(64, 64, bias=False)

    def batch(self, step: int) -> torch.Tensor:
        return torch.ones(2 if step % 2 else 8, 64)

    def loss(self, batch: torch.Tensor) -> Loss:
        return Loss((self.model(batch) ** 2).sum(), len(batch))

    def validate(self) -> dict[str, float]:
        return {"loss": 0.0}

    def describe(self, batch: torch.Tensor) -> str:
        return "ones"


def test_a_tensor_counts_as_long_as_somebody_has_it() -> None:
    copy = torch.zeros(100)
    with _Alive(iter([copy])) as alive:
        one = copy + 1
        two = one * 2
        del one
        three = two.view(10, 10)
        assert alive.now == 3 * 4 * 100 - 4 * 100
        assert alive.most == 3 * 4 * 100
        del two, three
        assert alive.now == 4 * 100


def test_a_step_needs_weights_gradients_and_two_moments_at_least() -> None:
    weights = 4 * 64 * 64
    result = step_bytes(Line(), TrainConfig())
    assert 4 * weights <= result <= 6 * weights


def test_what_a_step_needs_is_the_same_every_time() -> None:
    assert step_bytes(Line(), TrainConfig()) == step_bytes(Line(), TrainConfig())


@pytest.mark.parametrize("rows", [8, 800])
def test_the_largest_batch_is_the_one_that_counts(rows: int) -> None:
    class Wide(Line):
        def batch(self, step: int) -> torch.Tensor:
            return torch.ones(rows if step == 1 else 2, 64)

    small = step_bytes(Line(), TrainConfig())
    assert (step_bytes(Wide(), TrainConfig()) > small + 4 * 64 * 500) == (rows == 800)
