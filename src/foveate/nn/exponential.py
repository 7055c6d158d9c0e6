"""Exponentials of logits in place, for losses that need a softmax once."""

import ctypes
import functools

import torch
from jaxtyping import Float
from torch import Tensor

from foveate import native

VECTOR = 16
"""Rows of fewer logits go to torch."""


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernel, or None without a compiler."""
    return native.load("foveate.nn", "exponential.cpp").library


def exponentials_(
    logits: Float[Tensor, "rows vocab"],
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Replace logits by exp(logit − largest) in place; return each row's largest logit and sum, in float32 at least."""
    usual = logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.bfloat16) and logits.is_contiguous()
    library = kernels() if usual and logits.shape[1] >= VECTOR else None
    if library is None:
        return _by_torch(logits)
    top, mass = (logits.new_empty(len(logits), dtype=torch.float32) for _ in range(2))
    half, sizes = ctypes.c_int64(logits.dtype is torch.bfloat16), map(ctypes.c_int64, logits.shape)
    library.exponentials(
        native.address(logits), half, native.address(top), native.address(mass), *sizes, native.threads()
    )
    return top, mass


def _by_torch(logits: Tensor) -> tuple[Tensor, Tensor]:
    top = logits.amax(-1, keepdim=True)
    mass = _row_sums(logits.sub_(top).exp_())
    return top.squeeze(1).to(mass.dtype), mass


def _row_sums(x: Float[Tensor, "rows columns"], block: int = 64) -> Float[Tensor, " rows"]:
    """Row sums in float32 at least. torch would first copy a bfloat16 matrix to float32; partial sums need no copy."""
    if x.dtype not in (torch.bfloat16, torch.float16):
        return x.sum(-1)
    whole = x.shape[1] // block * block
    return x[:, :whole].unflatten(-1, (-1, block)).sum(-1).float().sum(-1) + x[:, whole:].float().sum(-1)
