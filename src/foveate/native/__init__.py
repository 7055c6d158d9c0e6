"""Small C++ kernels, compiled on first use by the system's compiler; where there is none, callers run plain torch.

A kernel is a C++ file without torch headers that lies beside the module that calls it and exports plain C functions on
addresses, sizes and a number of threads. Every file sees `prelude.h` (vectors of 16 floats, `exp`, `parallel`):

    kernels = native.load("foveate.attention.paths", "additive.cpp")       # 1–3 seconds once per machine, then 1 ms
    if kernels.library is None:
        ...                                                               # plain torch; kernels.reason says why
    kernels.library.forward(native.address(x), ctypes.c_int64(x.numel()), native.threads())

Tensors must be contiguous, on the CPU, and alive during the call. FOVEATE_NATIVE=0 turns all kernels off. The compiled
libraries lie in `$XDG_CACHE_HOME/foveate/native`, by default `~/.cache/foveate/native`, and may be deleted at any time.
What others can have put or changed there is not loaded: see `cache`.
"""

import ctypes

import torch

from foveate.native.compiler import Kernels, forget, has_tiles, in_use, load, processor, state

__all__ = ["Kernels", "address", "forget", "has_tiles", "in_use", "load", "processor", "state", "threads"]


def address(tensor: torch.Tensor | None) -> ctypes.c_void_p:
    """Where a contiguous tensor's numbers begin; null for None."""
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def threads() -> ctypes.c_int64:
    """As many threads as torch uses: kernels share its thread pool."""
    return ctypes.c_int64(torch.get_num_threads())
