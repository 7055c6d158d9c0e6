"""Limits on the size of a model while it is built: that of its weight file, or of the machine's memory.

A configuration from somebody else may ask for any size. Tensors are counted before torch allocates them, so that a
model that is too large is refused before it uses memory.
"""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from foveate.errors import DataError, FoveateError, UsageError

TIMES, SPARE, PARTS = 4, 1 << 22, 1000
"""Building a model creates more tensors than its file stores: tied weights twice, and tables of positions. The numbers
may exceed those of the file by `TIMES` and `SPARE`, the tensors by `TIMES` and `PARTS`.
"""
FLOAT = 4
"""Bytes of a float32 number, the type in which models are built."""
GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the memory limit of a container."""


class _FullError(Exception):
    """A tensor exceeds the limit. This is not a `FoveateError`, so that no handler on the way rewords it."""

    def __init__(self, room: "_Room", shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self.room, self.shape = room, shape


class _Room(TorchFunctionMode):
    """Counts the tensors that torch allocates, and raises at the first one above the limit."""

    def __init__(self, numbers: int, parts: int | None = None) -> None:
        super().__init__()
        self.numbers, self.parts = numbers, math.inf if parts is None else parts

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        shape_of = _MAKERS.get(func)
        if shape_of is not None:
            shape = shape_of(*args, **(kwargs or {}))
            self.numbers -= math.prod(shape)
            self.parts -= 1
            if self.numbers < 0 or self.parts < 0:
                raise _FullError(self, shape)
        return func(*args, **(kwargs or {}))


def _sizes(*sizes: Any, size: Any = None, **_: Any) -> tuple[int, ...]:
    shape = sizes[0] if sizes and not isinstance(sizes[0], int) else sizes or (size if size is not None else ())
    return tuple(shape)


def _filled(size: Any, *_: Any, **__: Any) -> tuple[int, ...]:
    return tuple(size)


def _square(n: int, m: int | None = None, **_: Any) -> tuple[int, ...]:
    return (n, n if m is None else m)


def _counted(*ends: Any, start: Any = 0, end: Any = None, step: Any = 1, **_: Any) -> tuple[int, ...]:
    if ends:
        start, end, step = ((0, ends[0], step), (*ends, step), ends)[min(len(ends), 3) - 1]
    return (max(math.ceil((end - start) / step), 0) if step else 0,)


_MAKERS: dict[Any, Callable[..., tuple[int, ...]]] = {
    **dict.fromkeys((torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn), _sizes),
    torch.full: _filled,
    torch.eye: _square,
    torch.arange: _counted,
}
"""The functions that allocate tensors for modules, with the shape that each call asks for."""


_counting: ContextVar[bool] = ContextVar("counting", default=False)


@contextlib.contextmanager
def _within(room: _Room, refusal: Callable[[tuple[int, ...]], FoveateError]) -> Iterator[None]:
    token = _counting.set(True)
    try:
        with room:
            yield
    except _FullError as full:
        if full.room is not room:
            raise
        raise refusal(full.shape) from None
    finally:
        _counting.reset(token)


@contextlib.contextmanager
def within_file(stored: int, parts: int, *, config: Path | str, file: Path | str) -> Iterator[None]:
    """Limit models that are built in this block to about `stored` numbers in `parts` tensors.

    Raises DataError for a far larger model, before it uses memory.
    """

    def refusal(shape: tuple[int, ...]) -> FoveateError:
        return DataError(
            f"{config} asks for a model with {_described(shape)}, far more than {file} holds: {stored:,} numbers in "
            f"{parts:,} tensors. They belong to different models: use the two files of one model."
        )

    with _within(_Room(TIMES * stored + SPARE, TIMES * parts + PARTS), refusal):
        yield


@contextlib.contextmanager
def within_tensors(tensors: Mapping[str, Tensor], *, config: Path | str, file: Path | str) -> Iterator[None]:
    """Like `within_file`, for weights in memory."""
    stored = sum(tensor.numel() for tensor in tensors.values())
    with within_file(stored, len(tensors), config=config, file=file):
        yield


@contextlib.contextmanager
def within_machine() -> Iterator[None]:
    """Limit models that are built in this block to this machine's memory. Raises UsageError before they use memory."""
    if _counting.get():  # the limits of a file are narrower
        yield
        return
    memory = memory_bytes()

    def refusal(shape: tuple[int, ...]) -> FoveateError:
        return UsageError(
            f"The configuration asks for a model with {_described(shape)}: its weights alone need more than the "
            f"{memory / 1e9:,.1f} GB of available memory, and training needs four times as much. Make the model "
            "smaller, with --set model.… or in the TOML file; `foveate plan` shows what a model costs."
        )

    with _within(_Room(memory // FLOAT), refusal):
        yield


def memory_bytes() -> int:
    """The memory of this machine, or the part of it that a container or `ulimit -v` allows."""
    import resource

    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        mapped = 0
        with contextlib.suppress(OSError, ValueError):  # this limit includes the memory that is already mapped
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limits.append(max(0, soft - mapped))
    for path in GROUPS:
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(path.read_text()))
    return min(limits)


def _described(shape: tuple[int, ...]) -> str:
    return f"a part of {' × '.join(f'{size:,}' for size in shape) or '1'} numbers"
