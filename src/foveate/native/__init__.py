"""Small C++ kernels, compiled on first use by the system's compiler; without a compiler, callers run plain torch.

A kernel is a C++ file without torch headers, beside the module that calls it. It exports C functions of addresses,
sizes and a number of threads. Every file can use `prelude.h` (vectors of `LANES` floats, `exp`, `parallel`):

    kernels = native.load("foveate.attention.paths", "pairwise.cpp")       # 1–3 seconds once per machine, then 1 ms
    if kernels.library is None:
        ...                                                               # plain torch; kernels.reason says why
    kernels.library.forward(native.address(x), ctypes.c_int64(x.numel()), native.threads())

Tensors must be contiguous, on the CPU, and alive during the call. FOVEATE_NATIVE=0 turns all kernels off. The compiled
libraries are in `$XDG_CACHE_HOME/foveate/native`, by default `~/.cache/foveate/native`, and may be deleted at any time.
A library that another user could have written or changed is not loaded: see `cache`.
"""

import ctypes

import torch

from foveate.native.compiler import Kernels, forget, has_tiles, in_use, load, processor, state

__all__ = ["Kernels", "address", "forget", "has_tiles", "in_use", "load", "processor", "state", "threads"]


def address(tensor: torch.Tensor | None) -> ctypes.c_void_p:
    """The address of a contiguous tensor's numbers; null for None."""
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def threads() -> ctypes.c_int64:
    """The number of torch's threads, because kernels share its thread pool."""
    return ctypes.c_int64(torch.get_num_threads())
