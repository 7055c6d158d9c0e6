"""The switches and their current values.

1. oneDNN for float32 matrix products. Some CPUs run torch's default BLAS at a third of their speed. The switch that
   routes products to oneDNN is named after bfloat16, so it is kept only if float32 accuracy is kept, by test.
2. An allocator policy (glibc): large tensors stop being returned to the system and page-faulted again.
3. Weights in oneDNN's own layout for inference, if the default BLAS is slow at a few dozen rows.
4. Numbers below 1e-38 (denormal ones) become zero, if the processor is slow with them. They are frequent among weights
   far below a row's largest, as with unscaled scores and ALiBi, and among the gradients of such weights.
"""

import ctypes
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The values of the switches. The default is an unchanged torch."""

    onednn_matmul: bool = False
    allocator: bool = False
    packed_rows: int = 0
    """From this many rows on, inference multiplies with weights in oneDNN's own layout; 0: never."""
    flush_denormals: bool = False

    def __str__(self) -> str:
        onednn = "oneDNN" if self.onednn_matmul else "torch's default"
        allocator = "large tensors keep their pages" if self.allocator else "system default"
        packed = f"from {self.packed_rows} rows on" if self.packed_rows else "never"
        denormals = "made zero" if self.flush_denormals else "kept"
        return (
            f"float32 products: {onednn}; allocator: {allocator}; packed weights in inference: {packed}; "
            f"denormal numbers: {denormals}"
        )


WORTH_ONEDNN = 4e6
"""Multiply-adds of a call below which oneDNN's preparations (15 microseconds) cost more than its products save."""

PRIMITIVES = 64
"""oneDNN's programs that are kept: those of a few batches."""

_current = Tuning()
_within_small = False
_MATMUL = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def current() -> Tuning:
    """The current switches."""
    return _current


def use(tuning: Tuning) -> Tuning:
    """Apply switches; return the former ones. The allocator policy cannot be undone within a process."""
    global _current, _within_small
    before, _within_small = _current, False
    _MATMUL.fp32_precision = "bf16" if tuning.onednn_matmul else "none"
    if tuning.flush_denormals != before.flush_denormals:
        _flush_denormals(tuning.flush_denormals)
    if tuning.allocator and not before.allocator:
        tuning = replace(tuning, allocator=keep_pages())
    _current = tuning
    return before


def small_products(multiply_adds: float = 0.0) -> AbstractContextManager[None]:
    """Use the faster library for float32 products of this size within the context. Results are the same."""
    return _Small() if _current.onednn_matmul and multiply_adds < WORTH_ONEDNN else _AS_IT_IS


_AS_IT_IS = nullcontext()


class _Small:
    """Turns oneDNN off. This class does not read the setting from torch, which would cost part of the saved time."""

    def __enter__(self) -> None:
        global _within_small
        self.within = _within_small
        if not self.within:
            _within_small = True
            _MATMUL.fp32_precision = "none"

    def __exit__(self, *problem: object) -> None:
        global _within_small
        if not self.within:
            _within_small = False
            _MATMUL.fp32_precision = "bf16" if _current.onednn_matmul else "none"


def limit_primitives() -> None:
    """Let oneDNN, and torch above it, keep few of the programs that they make for each shape of a product.

    They keep 1,024 each, which take 0.6 GB where texts have many lengths, and save no time. Both read these variables
    at their first product; values that the user has set remain.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(PRIMITIVES))


def keep_pages() -> bool:
    """mallopt(3): no mmap for large blocks, no trimming. Returns True if the C library is glibc and accepts this."""
    if not has_glibc():
        return False
    trim_threshold, top_pad, mmap_max = -1, -2, -4
    libc = ctypes.CDLL(None)
    settings = ((mmap_max, 0), (trim_threshold, 2**31 - 1), (top_pad, 256 * 2**20))
    accepted = [libc.mallopt(name, value) == 1 for name, value in settings]
    return all(accepted)


def has_glibc() -> bool:
    """Whether the C library of this process is glibc."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, OSError, ValueError):  # other systems lack the name or the function
        return False


def _flush_denormals(on: bool) -> None:
    """Set the mode in this thread and in all of torch's, because each has its own register; new threads copy it."""

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def flush(_: int | None) -> None:
        torch.set_flush_denormal(on)

    flush(None)
    parallel = getattr(ctypes.CDLL(None), "GOMP_parallel", None)
    if parallel is not None:
        parallel(flush, None, torch.get_num_threads(), 0)
