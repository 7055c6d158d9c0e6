"""Additive attention beside its two textbook forms, with and without the projections that all of them share.

python benchmarks/additive.py --threads 1                     # the system's allocator and torch's own switches, for all
python benchmarks/additive.py --threads 1 --tuned             # the switches of `foveate train`, for all
"""

import argparse
import time
from collections.abc import Callable

import race
import torch
from torch import Tensor

from foveate import machine
from foveate.attention.paths.pairwise import pair_weights

OURS, PRODUCT, SUM = "foveate", "tanh(q + k) @ v", "(tanh(q + k) * v).sum"
PARTS = ("forward", "forward and backward")


def ways(
    query: Tensor, key: Tensor, value: Tensor, vector: Tensor, weights: tuple[Tensor, Tensor] | None
) -> dict[str, Callable[[], Tensor]]:
    """The context of every query, by each way."""

    def features() -> tuple[Tensor, Tensor]:
        return (query, key) if weights is None else (query @ weights[0], key @ weights[1])

    def ours() -> Tensor:
        q, k = features()
        return pair_weights(q[:, None], k[:, None], vector[None])[:, 0] @ value

    def product() -> Tensor:
        q, k = features()
        return (torch.tanh(q[:, :, None] + k[:, None]) @ vector).softmax(-1) @ value

    def summed() -> Tensor:
        q, k = features()
        return (torch.tanh(q[:, :, None] + k[:, None]) * vector).sum(-1).softmax(-1) @ value

    return {OURS: ours, PRODUCT: product, SUM: summed}


def measure(arguments: argparse.Namespace, *, projections: bool) -> dict[str, list[float]]:
    """CPU seconds of every way, forwards and both ways: the least of the rounds, in which they take turns."""
    torch.manual_seed(0)
    shape = (arguments.batch, arguments.length, arguments.hidden)
    leaves = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    leaves += [torch.randn(arguments.hidden, requires_grad=True)]
    weights = [torch.randn(2 * shape[-1:]).div_(shape[-1] ** 0.5).requires_grad_() for _ in range(2 * projections)]
    found = ways(*leaves, (weights[0], weights[1]) if projections else None)  # type: ignore[call-arg, arg-type]
    gradient = torch.randn(shape)
    expected = torch.autograd.grad(found[SUM](), leaves, gradient)
    for way in found.values():
        for mine, theirs in zip(torch.autograd.grad(way(), leaves, gradient), expected, strict=True):
            assert (mine - theirs).norm() <= 1e-5 * theirs.norm()
    least = {name: [float("inf")] * len(PARTS) for name in found}
    for _ in range(arguments.rounds):
        for name, way in found.items():
            started = time.process_time()
            with torch.no_grad():
                way()
            between = time.process_time()
            torch.autograd.grad(way(), leaves + weights, gradient)
            spent = between - started, time.process_time() - between
            least[name] = [min(pair) for pair in zip(least[name], spent, strict=True)]
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("batch", 8), ("length", 256), ("hidden", 256), ("threads", 1), ("rounds", 12)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--tuned", action="store_true", help="with the switches that foveate train puts in force")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.tuned:
        machine.tune()
    found = {}
    for projections in (False, True):
        least = found["with projections" if projections else "without projections"] = measure(
            arguments, projections=projections
        )
        cells = [
            [name, *(f"{1e3 * mine:.1f} ({mine / ours:.1f} ×)" for mine, ours in zip(spent, least[OURS], strict=True))]
            for name, spent in least.items()
        ]
        print(f"\n{'with' if projections else 'without'} projections: ms (times ours)")
        print(race.table(["", *PARTS], cells), flush=True)
    kept = race.save(
        "additive", {"settings": race.settings(arguments), "machine": race.machine(arguments.threads), "seconds": found}
    )
    print("kept in", kept)


if __name__ == "__main__":
    main()
