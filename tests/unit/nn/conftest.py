import contextlib
import ctypes
from collections.abc import Callable, Iterator

import pytest
import torch

from foveate.nn import bfloat16
from foveate.nn.prepared import flat_block


@pytest.fixture(params=["tiles", "vectors"])
def registers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Kernels use both kinds of registers in turn. Where a processor has no tiles, both are the same."""
    libraries = [library for library in (bfloat16.kernels(), flat_block.kernels()) if library is not None]
    for library in libraries:
        library.want_tiles(ctypes.c_int64(request.param == "tiles"))
    yield
    for library in libraries:
        library.want_tiles(ctypes.c_int64(1))


@contextlib.contextmanager
def _doubles() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.fixture
def doubles() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Within `doubles()`, torch makes tensors in float64 where no type is asked for."""
    return _doubles
