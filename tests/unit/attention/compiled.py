"""The kernels of additive attention compiled for GPUs that need not be there: run by test_pairwise_triton.py.

Prints as JSON, for each kernel and GPU, its bytes of shared memory and how many reciprocals its code takes.
"""

import json
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from foveate.attention.paths import pairwise_kernel, pairwise_triton

NUMBERS = ("padded_queries", "padded_keys", "left", "right", "heads", "vector_stride", "queries", "keys", "width")
NUMBERS += ("first", "last", "my_stride", "other_stride", "slope_stride", "grad_stride", "grad_row", "grad_column")
NUMBERS += ("count", "others")
TYPES: dict[str, Any] = dict.fromkeys(NUMBERS, "i32")
TYPES |= {"near": "*i1", "mask": "*u8", "query_at": "*i32", "key_at": "*i32"}
TYPES |= {"seen_strides": ("i32",) * 8, "bias_strides": ("i32",) * 4}
FLAGS = {"HIDDEN": 64, "MASKED": True, "SPANNED": True, "BIASED": True, "PLAIN": False}
DATA_CENTRE = (80, 90)
"""Compute capabilities: A100, and H100 or H200."""
ONES = ("heads", "queries", "keys", "width", "last", "count", "others", "grad_row")
"""Arguments that are 1 become constants when Triton compiles."""


def compiled(kernel: Any, constants: dict[str, object], values: str, warps: int, capability: int) -> dict[str, int]:
    types = {"value": f"*{values}", "context": f"*{values}"}
    signature = {name: types.get(name, TYPES.get(name, "*fp32")) for name in kernel.arg_names}
    constants = {name: one for name, one in constants.items() if name in kernel.arg_names}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    done = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
    assert done.asm["cubin"]
    return {"shared": done.metadata.shared, "reciprocals": done.asm["ptx"].count("rcp.approx.ftz.f32")}


def main() -> None:
    told, tile = {}, pairwise_triton._tile
    ones = dict.fromkeys(ONES, 1)
    cases = {
        "attend, 64 rows": (pairwise_kernel.attend, tile(64, 4) | {"WIDTH": 64}, "fp32", 4),
        "attend, wide": (pairwise_kernel.attend, tile(32, 8) | {"WIDTH": 256}, "fp32", 8),
        "attend, wide, bfloat16": (pairwise_kernel.attend, tile(32, 8) | {"WIDTH": 256}, "bf16", 8),
        "attend, one of everything": (pairwise_kernel.attend, tile(16, 4) | {"WIDTH": 16} | ones, "fp32", 4),
        "scores": (pairwise_kernel.weigh, tile(32, 4) | {"SCORES": True}, "fp32", 4),
        "weights": (pairwise_kernel.weigh, tile(32, 4) | {"SCORES": False}, "fp32", 4),
        "weights, one of everything": (pairwise_kernel.weigh, tile(32, 4) | {"SCORES": False} | ones, "fp32", 4),
        "slopes": (pairwise_kernel.differentiate, {"VALUES": True, "ROWS": 32, "UNITS": 64}, "fp32", 4),
        "slopes, one of everything": (
            pairwise_kernel.differentiate,
            {"VALUES": False, "ROWS": 32, "UNITS": 64} | ones,
            "fp32",
            4,
        ),
    }
    for capability in DATA_CENTRE:
        for name, (kernel, constants, values, warps) in cases.items():
            if capability == max(DATA_CENTRE) or "one" not in name:
                told[f"{name}, sm_{capability}"] = compiled(kernel, FLAGS | constants, values, warps, capability)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
