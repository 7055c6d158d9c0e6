"""Measures the gains of the switches on this machine, for `foveate doctor --calibrate` only."""

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from foveate.machine.switch import Tuning, current, use

ROUNDS = 15
RACES = 5
"""The maximum number of races for all switches."""


def measured(patience: float = 0.0) -> Tuning:
    """Measure the switches on this machine (about two seconds, or `patience`), apply those that gain, and return them.

    A longer measurement is less affected by other programs on the machine.
    """
    use(Tuning(allocator=True))
    use(replace(current(), onednn_matmul=_onednn_gains(patience / RACES)))
    slow = _denormals_are_slow(patience / RACES)
    use(replace(current(), packed_rows=_packed_rows(patience / RACES), flush_denormals=slow))
    return current()


def _denormals_are_slow(patience: float) -> bool:
    """Whether denormal numbers take at least 1.5 times as long, and can be made zero."""
    few = 2**14  # too few for a second thread
    normal, denormal = torch.full((few,), 1.0), torch.full((few,), 1e-39)
    normal_seconds, denormal_seconds = race(lambda: normal * 0.5, lambda: denormal * 0.5, patience=patience)
    return denormal_seconds > 1.5 * normal_seconds and torch.set_flush_denormal(True)


def onednn_is_exact() -> bool:
    """Whether products of oneDNN are as exact as those of torch. They are not on processors with instructions for
    bfloat16 (AMX), because the switch then selects this type.
    """
    if not torch.backends.mkldnn.is_available():
        return False
    a, b = _factors()
    few = a[:8].double() @ b.double()

    def error(product: torch.Tensor) -> float:
        return float((product[:8].double() - few).abs().max() / few.abs().max())

    return error(_through_onednn(a, b)) <= max(4 * error(a @ b), 1e-6)


def _onednn_gains(patience: float) -> bool:
    """Whether oneDNN multiplies float32 matrices at least 1.05 times as fast, with float32 accuracy."""
    if not onednn_is_exact():
        return False
    a, b = _factors()
    onednn_seconds, default_seconds = race(lambda: _through_onednn(a, b), lambda: a @ b, patience=patience)
    return onednn_seconds * 1.05 <= default_seconds


def _factors() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(512, 256, generator=generator), torch.randn(256, 1024, generator=generator)


def _through_onednn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    before = use(replace(current(), onednn_matmul=True))
    try:
        return a @ b
    finally:
        use(before)


@torch.inference_mode()
def _packed_rows(patience: float) -> int:
    """The smallest number of rows from which products with packed weights are faster and as exact; 0 without one.

    Several weights are used in turn, because decoding streams all weights of a model through the cache at every step.
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
        packed_seconds, plain_seconds = race(ours, theirs, patience=patience)
        if errors[0] <= max(4 * errors[1], 1e-6) and packed_seconds * 1.05 < plain_seconds:
            return rows
    return 0


def race(*works: Callable[[], object], patience: float = 0.0) -> list[float]:
    """The fastest run of each function in seconds, over at least 15 rounds and `patience` seconds. The functions take
    turns, so that a busy moment of the machine affects all equally; on one thread, the CPU time is measured.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    fastest = [float("inf")] * len(works)
    for work in works:
        work()  # warm-up
    rounds, begun = 0, time.monotonic()
    while rounds < ROUNDS or time.monotonic() - begun < patience:
        for index, work in enumerate(works):
            start = clock()
            work()
            fastest[index] = min(fastest[index], clock() - start)
        rounds += 1
    return fastest
