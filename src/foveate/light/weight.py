"""Reads the weights of a safetensors file with numpy: a header in JSON says where each tensor's numbers are.

The arrays of this package are annotated without their shapes, because importing jaxtyping takes half as long as numpy.
"""

import json
import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "BF16": np.dtype("<u2"), "I8": np.dtype("i1")}
"""The types that are read."""
ROUNDED: dict[str, str | None] = {"": None, "bfloat16": "BF16", "int8": "I8"}
"""The roundings of `foveate.storage.rounded_weight`, by their names in `model.json`, with the type of their tensors."""
SCALES = ".scales"


class NotSupportedError(Exception):
    """The reason why this package leaves a model, or a text, to torch."""


def read_weights(content: bytes, stored: Any = "") -> dict[str, Array]:
    """All tensors in float32; those in bfloat16, its upper half, and int8 with scales only if they are stored so.

    >>> header = b'{"w": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]}}'
    >>> read_weights(len(header).to_bytes(8, "little") + header + b"\\x80\\x3f\\x00\\xc0", "bfloat16")
    {'w': array([[ 1., -2.]], dtype=float32)}

    Raises NotSupportedError for other types and damaged files.
    """
    if stored not in list(ROUNDED):  # a list in a damaged file is not hashable
        raise NotSupportedError(f"weights are stored as {stored!r}")
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        expected = {"F32", ROUNDED[stored]}
        for name, entry in entries.items():
            if entry["dtype"] not in expected:
                raise NotSupportedError(f"{name} has the type {entry['dtype']}")
        tensors = {name: _read(content, 8 + size, **entry) for name, entry in entries.items()}
        rounded = {name: tensor for name, tensor in tensors.items() if tensor.dtype == np.int8}
        room = np.empty(sum(tensor.size for tensor in rounded.values()), np.float32)  # one array: of large pages
        for name, tensor in rounded.items():
            tensors[name], room = _product(tensor, tensors.pop(name + SCALES), room)
        return tensors
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise NotSupportedError(f"the weights cannot be read as safetensors ({error})") from None


def _read(content: bytes, start: int, *, dtype: str, shape: list[int], data_offsets: list[int]) -> Any:
    kind, size, (begin, end) = TYPES[dtype], math.prod(shape), data_offsets
    if end - begin != size * kind.itemsize:
        raise ValueError("a tensor has another size than its shape")
    numbers = np.frombuffer(content, kind, size, start + begin)
    whole = (numbers.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else numbers
    return whole.reshape(shape)


def _product(values: Any, scales: Array, room: Array) -> tuple[Array, Array]:
    """The weight that whole numbers and the scale of each row stand for, exactly, in the first part of `room`; and the
    rest of it.
    """
    if scales.dtype != np.float32 or scales.shape != values.shape[:1]:
        raise ValueError("scales do not fit their weight")
    weight = room[: values.size].reshape(values.shape)
    np.multiply(values, scales.reshape(-1, *[1] * (values.ndim - 1)), out=weight)
    return weight, room[values.size :]
