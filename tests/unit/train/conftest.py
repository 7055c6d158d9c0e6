"""A task small enough to train in a test."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from foveate.train import Loss


class Line:
    """Fits y = 2x₁ - x₂ with a linear layer; validation is scripted when `values` are given."""

    steps_per_epoch = 4

    def __init__(self, rows: int = 8, values: list[float] | None = None) -> None:
        torch.manual_seed(0)
        self.model: nn.Module = nn.Linear(2, 1)
        self.rows = rows
        self.values = values
        self.asked: list[int] = []
        self.poison: dict[int, float] = {}

    def batch(self, step: int) -> Tensor:
        self.asked.append(step)
        rows = torch.randn(self.rows, 2, generator=torch.Generator().manual_seed(step))
        return rows * self.poison.get(step, 1.0)

    def loss(self, batch: Tensor) -> Loss:
        errors = self.model(batch).squeeze(-1) - (2 * batch[:, 0] - batch[:, 1])
        return Loss(errors.square().sum(), len(batch), {"distance": errors.abs().sum()})

    def validate(self) -> dict[str, float]:
        assert not self.model.training
        assert not torch.is_grad_enabled()
        if self.values is not None:
            value = self.values.pop(0)
            return {"loss": value, "score": -value}
        loss = self.loss(torch.eye(2))
        return {"loss": float(loss.total) / loss.count}

    def describe(self, batch: Tensor) -> str:
        return f"rows of batch {self.asked[-1]}"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads on so small a model only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def line() -> type[Line]:
    return Line
