"""Right-padded tensors from rows, and sinusoidal positions: what the peers expect from their callers."""

import math

import torch
from contract import PAD, Rows
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def padded(rows: Rows) -> Tensor:
    """Int64 `batch length`, padded on the right."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def sinusoids(length: int, dim: int) -> Tensor:
    """Sines in the first half, cosines in the second."""
    frequency = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    angle = torch.arange(length)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=1)
