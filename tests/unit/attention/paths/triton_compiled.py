"""The kernels of additive attention compiled for GPUs that need not be there: run by test_pairwise_triton.py.

Attention runs forward and backward, but what would be launched is only compiled, for exactly the arguments given.
Prints as JSON, for each kernel, its bytes of shared memory and how many reciprocals its code takes for how many pairs.
"""

import json
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from foveate.attention import Alibi, Positions
from foveate.attention.paths import pairwise_triton
from foveate.attention.paths.pairwise_triton import Sight

DATA_CENTRE = (80, 90)
"""Compute capabilities: A100, and H100 or H200."""
answer: dict[str, dict[str, int]] = {}


class AbsentGPU:
    """What Triton asks a driver before it compiles."""

    capability = 90

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return self.capability

    def get_current_stream(self, device: int) -> int:
        return 0


class Compiling(pairwise_triton._Call):
    case = ""

    def _launch(self, kernel: Any, tiles: int, warps: int, *arguments: object, **constants: Any) -> None:
        constants["PLAIN"] = False
        done = kernel.warmup(*arguments, **constants, num_warps=warps, grid=(tiles * self.grid_heads,))
        assert done.asm["cubin"]
        pairs = constants["ROWS"] * constants.get("COLUMNS", constants.get("UNITS", 0)) // (32 * warps)
        result = {"shared": done.metadata.shared, "pairs": pairs}
        result["reciprocals"] = done.asm["ptx"].count("rcp.approx.ftz.f32")
        answer[f"{self.case}, {kernel.__name__}, sm_{AbsentGPU.capability}"] = result


def compile_for(case: str, sizes: tuple[int, ...], values: torch.dtype = torch.float32, **rest: Any) -> None:
    Compiling.case = case
    batch, heads, queries, keys, hidden, width = sizes
    shapes = ((batch, heads, queries, hidden), (batch, heads, keys, hidden), (heads, hidden))
    inputs = [torch.zeros(shape, requires_grad=True) for shape in shapes]
    value = torch.zeros(batch, heads, keys, width, dtype=values, requires_grad=True)
    pairwise_triton.attend(*inputs, value, **rest).sum().backward()


def main() -> None:
    driver.set_active(AbsentGPU())
    pairwise_triton._Call = Compiling
    pairwise_triton.BLOCKS_WANTED = 0
    at = Positions.of(70, 70, key_lengths=torch.tensor([70, 3]))
    result, bias = Sight(at.real, at.query, at.key, 2, 0), Alibi(2)(at)
    for capability in DATA_CENTRE:
        AbsentGPU.capability = capability
        compile_for("a window, padding and a bias", (2, 2, 70, 70, 64, 64), sight=result, bias=bias)
        compile_for("wide values", (1, 1, 64, 64, 64, 256))
        compile_for("wide bfloat16 values", (1, 1, 64, 64, 64, 256), torch.bfloat16)
    compile_for("values wider than a tile", (1, 1, 64, 64, 64, 300))
    compile_for("graph attention", (2, 2, 70, 70, 64, 64), sight=result, leak=0.2)
    compile_for("one of everything", (1, 1, 1, 1, 1, 1))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
