"""The products of matrices of a training step and nothing else: what no engine can beat without doing less arithmetic.

Attention, norms, dropout, the loss, the optimiser, padding and every copy are left out; operands lie ready in the
number type of the race. The loss means nothing.
"""

import torch
from contract import Rows, Size, TraineeModule
from torch import Tensor, nn

MOST = 4096
"""Rows that operands are kept for."""


class Products(TraineeModule):
    """Each weight's product with its inputs, and the two that its gradients take."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        wide, inner = size.model_dim, size.feedforward_dim
        block = [(wide, 3 * wide), (wide, wide), (wide, inner), (inner, wide)]
        cross_source, cross_target = [(wide, 2 * wide)], [(wide, wide), (wide, wide)]
        self.source = size.layers * (block + cross_source)
        self.target = size.layers * (block + cross_target) + [(wide, size.vocab)]
        self.weight = nn.Parameter(torch.zeros(1))
        self.weights: dict[tuple[int, int, torch.dtype], Tensor] = {}

    def forward(self, sources: Rows, targets: Rows) -> Tensor:
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
        # Of a target row, the begin token is read and not predicted, the end predicted and not read.
        rows = ((self.source, sum(map(len, sources))), (self.target, sum(len(row) - 1 for row in targets)))
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for shapes, length in rows:
                for inputs, outputs in shapes:
                    self.multiply(length, inputs, outputs, dtype)
        return self.weight.sum()

    def multiply(self, length: int, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        assert length <= MOST
        weight = self.ready(outputs, inputs, dtype)
        x, gradient = self.ready(MOST, inputs, dtype)[:length], self.ready(MOST, outputs, dtype)[:length]
        torch.mm(x, weight.t())
        torch.mm(gradient, weight)
        torch.mm(gradient.t(), x)

    def ready(self, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        if (rows, columns, dtype) not in self.weights:
            self.weights[rows, columns, dtype] = torch.randn(rows, columns, dtype=dtype)
        return self.weights[rows, columns, dtype]


def trainee(size: Size) -> TraineeModule:
    return Products(size)
