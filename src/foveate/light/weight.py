"""Reads the weights of a safetensors file with numpy: a header in JSON says where each tensor's numbers are.

The arrays of this package are annotated without their shapes, because importing jaxtyping takes half as long as numpy.
"""

import json
import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
STORED: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "BF16": np.dtype("<u2")}
"""The types that are read."""


class NotSupportedError(Exception):
    """The reason why this package leaves a model, or a text, to torch."""


def read_weights(content: bytes, *, rounded: bool = False) -> dict[str, Array]:
    """All tensors in float32; those that are stored in bfloat16, its upper half, are read if `rounded`.

    >>> header = b'{"w": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]}}'
    >>> read_weights(len(header).to_bytes(8, "little") + header + b"\\x80\\x3f\\x00\\xc0", rounded=True)
    {'w': array([[ 1., -2.]], dtype=float32)}

    Raises NotSupportedError for other types and damaged files.
    """
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        if not rounded and any(entry["dtype"] == "BF16" for entry in entries.values()):
            raise NotSupportedError("weights are in bfloat16")
        return {name: _read(content, 8 + size, **entry) for name, entry in entries.items()}
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise NotSupportedError(f"the weights cannot be read as safetensors ({error})") from None


def _read(content: bytes, start: int, *, dtype: str, shape: list[int], data_offsets: list[int]) -> Array:
    if dtype not in STORED:
        raise NotSupportedError(f"a weight has the type {dtype}")
    begin, end = data_offsets
    if end - begin != math.prod(shape) * STORED[dtype].itemsize:
        raise ValueError("a tensor has another size than its shape")
    numbers = np.frombuffer(content, STORED[dtype], math.prod(shape), start + begin)
    whole = (numbers.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else numbers
    return whole.reshape(shape)
