"""Every test runs on one thread, from the same seed, without a network."""

import dataclasses
import functools
import gc
import inspect
import os
import random
import signal
import socket
import threading
import typing
from collections.abc import Callable, Iterator
from typing import Any

import beartype.roar
import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
torch.set_num_threads(1)
# A suite started in the background inherits an ignored SIGINT, and the tests of Ctrl-C would wait for nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected: a quarter of that time went into looking for garbage among the modules


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


jaxtyped = jaxtyping.jaxtyped
shapes_of_a_call = jaxtyped("context")
local = threading.local()
checkers: dict[Any, Callable[..., Any]] = {}


def _checked(target: Any, typechecker: Callable[..., Any]) -> Any:
    """What jaxtyping's `jaxtyped` does, in a fraction of its time: parameters are checked once and not twice, and a
    function that another one defines in each of its calls does not get a new checker each time.
    """
    if inspect.isclass(target):
        if dataclasses.is_dataclass(target) and not hasattr(target.__init__, "__wrapped__"):
            target.__init__ = _checked(target.__init__, typechecker)  # type: ignore[misc]
        return target
    slowly = functools.partial(jaxtyped, target, typechecker=typechecker)
    if inspect.isgeneratorfunction(target) or inspect.iscoroutinefunction(target):
        return slowly()
    try:
        checker = _checker(target, typechecker)
    except Exception:
        return slowly()

    @functools.wraps(target)
    def call(*arguments: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return target(*arguments, **keywords)
        try:
            with shapes_of_a_call:
                return checker(*arguments, **keywords)
        except beartype.roar.BeartypeCallHintViolation as violation:
            slowly()(*arguments, **keywords)  # it says which shapes do not agree
            # The second call had another answer, or looked at another item of a list.
            raise jaxtyping.TypeCheckError(f"Type-check error: {violation}") from violation

    return call


def _checker(target: Any, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    """The function with checks. Raises what is wrong with its types, such as names that are defined later."""
    if "<locals>" not in target.__qualname__:
        typing.get_type_hints(target, include_extras=True)
        return typechecker(target)
    key = (target.__code__, *target.__annotations__.items())
    if key not in checkers:
        typing.get_type_hints(target, include_extras=True)

        @functools.wraps(target)
        def stand_in(*arguments: Any, **keywords: Any) -> Any:
            return local.targets.pop()(*arguments, **keywords)

        checkers[key] = typechecker(stand_in)
    checker = checkers[key]

    def call(*arguments: Any, **keywords: Any) -> Any:
        targets = local.__dict__.setdefault("targets", [])
        depth = len(targets)
        targets.append(target)
        try:
            return checker(*arguments, **keywords)
        finally:
            del targets[depth:]

    return call


jaxtyping.jaxtyped = lambda *, typechecker: functools.partial(_checked, typechecker=typechecker)

settings.register_profile("untimed", deadline=None)  # a busy machine is no mistake
settings.load_profile("untimed")

LOCAL = ("127.0.0.1", "::1", "localhost")
_connect = socket.socket.connect


def _connect_locally(self: socket.socket, address: Any) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOCAL:
        raise AssertionError(f"A test reached for the network: {address}. Tests run without one.")
    _connect(self, address)


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _connect_locally)
        yield


@pytest.fixture(autouse=True)
def same_seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """As users run the package: without the type checker of the tests, which would speak before our own messages."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def machine_as_it_comes() -> Iterator[None]:
    """No test inherits the switches that another one has tuned: commands that run inside the process tune it."""
    from foveate import machine

    machine.use(machine.Tuning())
    torch.set_num_threads(1)
    yield
    machine.use(machine.Tuning())
