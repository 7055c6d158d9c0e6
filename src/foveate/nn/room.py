"""How large a model may become while it is built: no more than the file of its weights, or the machine, has room for.

A configuration that somebody else wrote may ask for any size. What a model's parts ask of torch is counted before torch
makes it: a model too large is refused before any memory is taken.
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
"""A model is built of more than is stored: tied weights are made twice, tables of positions are not kept. It may take
so many times the numbers of its file, and so many more, in so many parts more."""
FLOAT = 4
"""Bytes of a number in float32, in which models are built."""
GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container's memory is said."""


class _FullError(Exception):
    """A part that has no room; no error of ours, so that nobody on its way rewords it."""

    def __init__(self, room: "_Room", shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self.room, self.shape = room, shape


class _Room(TorchFunctionMode):
    """Counts what is asked of torch, and ends the building at the first number too many."""

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
"""What modules are made of: the shape that each call asks for."""


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
    """A model that is built in here has to fit weights of so many numbers in so many tensors.

    Raises DataError before memory is taken for one that is far larger.
    """

    def refusal(shape: tuple[int, ...]) -> FoveateError:
        return DataError(
            f"{config} asks for a model with {_described(shape)}, far more than {file} holds: {stored:,} numbers in "
            f"{parts:,} tensors. The two belong to different models: take both from one place."
        )

    with _within(_Room(TIMES * stored + SPARE, TIMES * parts + PARTS), refusal):
        yield


@contextlib.contextmanager
def within_tensors(tensors: Mapping[str, Tensor], *, config: Path | str, file: Path | str) -> Iterator[None]:
    """As `within_file`, for weights that are read already."""
    stored = sum(tensor.numel() for tensor in tensors.values())
    with within_file(stored, len(tensors), config=config, file=file):
        yield


@contextlib.contextmanager
def within_machine() -> Iterator[None]:
    """A model that is built in here has to fit this machine's memory. Raises UsageError before memory is taken."""
    if _counting.get():  # a file's bounds are the narrower ones
        yield
        return
    memory = memory_bytes()

    def refusal(shape: tuple[int, ...]) -> FoveateError:
        return UsageError(
            f"The configuration asks for a model with {_described(shape)}: its weights alone would take more than the "
            f"{memory / 1e9:,.1f} GB of memory that there are here, and training takes four times as much. Make the "
            "model smaller, with --set model.… or the TOML file; `foveate plan` says what a model costs."
        )

    with _within(_Room(memory // FLOAT), refusal):
        yield


def memory_bytes() -> int:
    """The memory of this machine, or as much of it as a container or `ulimit -v` leaves."""
    import resource

    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        taken = 0
        with contextlib.suppress(OSError, ValueError):  # this limit counts what the process has already mapped
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limits.append(max(0, soft - taken))
    for path in GROUPS:
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(path.read_text()))
    return min(limits)


def _described(shape: tuple[int, ...]) -> str:
    return f"a part of {' × '.join(f'{size:,}' for size in shape) or '1'} numbers"
