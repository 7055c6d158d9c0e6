"""What this machine is good at: switches that are measured at start-up and turned on only where they gain.

1. oneDNN for float32 matrix products. Some CPUs run torch's default BLAS at a third of their speed. The switch that
   routes products to oneDNN is named after bfloat16, so it is kept only if float32 accuracy is kept, by test.
2. An allocator policy (glibc): large tensors stop being returned to the system and page-faulted anew.
3. Weights in oneDNN's own layout for inference, where the default BLAS is slow at a few dozen rows.
4. Numbers below 1e-38 (denormal ones) become zero, where the processor is slow at them. Weights far below a row's
   largest, as unscaled scores and ALiBi make, and their gradients are full of them.
5. Which way to execute an attention is the fastest: `attention.calibration` measures that, the rates are kept here.
"""

import ctypes
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import torch


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Which switches are on. The default is torch as it comes."""

    onednn_matmul: bool = False
    allocator: bool = False
    packed_rows: int = 0
    """From this many rows on, inference multiplies with weights in oneDNN's own layout; 0: never."""
    flush_denormals: bool = False
    rates: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """How fast each way to execute an attention is here, for the planner; empty: as on the machine of this project."""

    def __str__(self) -> str:
        onednn = "oneDNN" if self.onednn_matmul else "torch's default"
        allocator = "large tensors keep their pages" if self.allocator else "system default"
        packed = f"from {self.packed_rows} rows on" if self.packed_rows else "never"
        denormals = "made zero" if self.flush_denormals else "kept"
        attention = f"measured {len(self.rates)} path variants" if self.rates else "by default rates"
        return (
            f"float32 products: {onednn}; allocator: {allocator}; packed weights in inference: {packed}; "
            f"denormal numbers: {denormals}; choice of attention paths: {attention}"
        )


WORTH_ONEDNN = 4e6
"""Multiply-adds of a call below which oneDNN's preparations (15 microseconds) cost more than its products save."""

_current = Tuning()
_within_small = False
_MATMUL = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def current() -> Tuning:
    """The switches in force."""
    return _current


def use(tuning: Tuning) -> Tuning:
    """Put switches in force; returns those that were. The allocator policy cannot be taken back in a process."""
    global _current, _within_small
    before, _within_small = _current, False
    _MATMUL.fp32_precision = "bf16" if tuning.onednn_matmul else "none"
    if tuning.flush_denormals != before.flush_denormals:
        _flush_denormals(tuning.flush_denormals)
    if tuning.allocator and not before.allocator:
        tuning = replace(tuning, allocator=_keep_pages())
    _current = tuning
    return before


def small_products(multiply_adds: float = 0.0) -> AbstractContextManager[None]:
    """Inside, float32 products go where calls of so many multiply-adds are fast. Nothing but time depends on it."""
    return _Small() if _current.onednn_matmul and multiply_adds < WORTH_ONEDNN else _AS_IT_IS


_AS_IT_IS = nullcontext()


class _Small:
    """Without oneDNN. A class that asks nothing of torch: a question takes a part of the time that this saves."""

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


def tune() -> Tuning:
    """Measure the switches on this machine (about two seconds), put the gains in force, and return them."""
    use(replace(_current, onednn_matmul=False, flush_denormals=False))
    allocator = _current.allocator or _keep_pages()
    use(Tuning(onednn_matmul=_onednn_gains(), allocator=allocator))
    use(replace(_current, packed_rows=_packed_rows(), flush_denormals=_denormals_are_slow()))
    return _current


def _keep_pages() -> bool:
    """mallopt(3): no mmap for large blocks, no trimming. True where the C library is glibc and took it."""
    if platform.libc_ver()[0] != "glibc":
        return False
    trim_threshold, top_pad, mmap_max = -1, -2, -4
    libc = ctypes.CDLL(None)
    settings = ((mmap_max, 0), (trim_threshold, 2**31 - 1), (top_pad, 256 * 2**20))
    taken = [libc.mallopt(name, value) == 1 for name, value in settings]
    return all(taken)


def _flush_denormals(on: bool) -> None:
    """For this thread and all of torch's: each has a register of its own, and those to come copy that of this one."""

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def flush(_: int | None) -> None:
        torch.set_flush_denormal(on)

    flush(None)
    parallel = getattr(ctypes.CDLL(None), "GOMP_parallel", None)
    if parallel is not None:
        parallel(flush, None, torch.get_num_threads(), 0)


def _denormals_are_slow() -> bool:
    """Whether numbers too small for float32's whole precision take at least 1.5 times as long, and can be made zero."""
    few = 2**14  # too few for a second thread
    normal, denormal = torch.full((few,), 1.0), torch.full((few,), 1e-39)
    normal_seconds, denormal_seconds = race(lambda: normal * 0.5, lambda: denormal * 0.5)
    return denormal_seconds > 1.5 * normal_seconds and torch.set_flush_denormal(True)


def _onednn_gains() -> bool:
    """Whether oneDNN multiplies float32 matrices at least 1.05 times as fast, with float32 accuracy."""
    if not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(512, 256, generator=generator)
    b = torch.randn(256, 1024, generator=generator)
    exact = a.double() @ b.double()

    def error(product: torch.Tensor) -> float:
        return float((product.double() - exact).abs().max() / exact.abs().max())

    def through_onednn() -> torch.Tensor:
        before = use(replace(_current, onednn_matmul=True))
        try:
            return a @ b
        finally:
            use(before)

    default_error, onednn_error = error(a @ b), error(through_onednn())
    onednn_seconds, default_seconds = race(through_onednn, lambda: a @ b)
    return onednn_error <= max(4 * default_error, 1e-6) and onednn_seconds * 1.05 <= default_seconds


@torch.inference_mode()
def _packed_rows() -> int:
    """The least number of rows from which products with packed weights are faster and as exact; 0 if there is none.

    Several weights in turn, because decoding streams all weights of a model through the cache at every step.
    """
    if not torch.backends.mkldnn.is_available():
        return 0
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(1024, 256, generator=generator) for _ in range(8)]
    packed = [torch.ops.mkldnn._reorder_linear_weight(weight, 32) for weight in weights]
    for rows in (1, 8, 32):
        x = torch.randn(rows, 256, generator=generator)

        def ours(x: torch.Tensor = x) -> list[torch.Tensor]:
            return [torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "") for weight in packed]

        def theirs(x: torch.Tensor = x) -> list[torch.Tensor]:
            return [torch.nn.functional.linear(x, weight) for weight in weights]

        exact = x.double() @ weights[0].double().mT
        errors = [float((products()[0] - exact).abs().max() / exact.abs().max()) for products in (ours, theirs)]
        packed_seconds, plain_seconds = race(ours, theirs)
        if errors[0] <= max(4 * errors[1], 1e-6) and packed_seconds * 1.05 < plain_seconds:
            return rows
    return 0


def race(*works: Callable[[], object], repeats: int = 15, device: str = "cpu") -> list[float]:
    """The fastest run of each in seconds. They take turns, so that a busy moment of the machine hits all alike; on one
    thread of a CPU its own time counts, not what others take of the core. A GPU is waited for before and after.
    """
    alone = device == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if alone else time.perf_counter
    fastest = [float("inf")] * len(works)
    for turn in range(repeats + 1):
        for index, work in enumerate(works):
            _settle(device)
            start = clock()
            work()
            _settle(device)
            if turn:  # the first turn warms up
                fastest[index] = min(fastest[index], clock() - start)
    return fastest


def _settle(device: str) -> None:
    """Wait until everything that was asked of a GPU is done."""
    if device == "cuda":
        torch.cuda.synchronize()
