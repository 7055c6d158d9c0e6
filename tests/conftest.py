"""Every test runs on one thread, from the same seed, without a network."""

import gc
import os
import random
import signal
import socket
from collections.abc import Iterator
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import settings

import shape_checker

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
torch.set_num_threads(1)
if not torch.accelerator.is_available():
    # For each kind of device that might appear later, torch's own function writes down the stack of every call, and
    # keeps it: a quarter of the time of the laws.
    torch.manual_seed = torch.default_generator.manual_seed
# A suite started in the background inherits an ignored SIGINT, and the tests of Ctrl-C would wait for nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected: a quarter of that time went into looking for garbage among the modules


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


shape_checker.use()
collect_ignore = ["shape_checker.py"]  # imported once more, it would be built on itself

settings.register_profile("untimed", deadline=None)  # a busy machine is no mistake
settings.load_profile("untimed")

LOCAL = ("127.0.0.1", "::1", "localhost")
_connect = socket.socket.connect


def _connect_locally(self: socket.socket, address: Any) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOCAL:
        raise AssertionError(f"A test reached for the network: {address}. Tests run without one.")
    _connect(self, address)


@pytest.fixture(autouse=True, scope="session")
def other_processor() -> Iterator[None]:
    """Kernels are compiled for the processor that FOVEATE_TESTED_PROCESSOR names, in the words of -march."""
    name = os.environ.get("FOVEATE_TESTED_PROCESSOR")
    with pytest.MonkeyPatch.context() as patch:
        if name is not None:
            patch.setattr("foveate.native.compiler._FOR_THIS_PROCESSOR", ((f"-march={name}",),))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _connect_locally)
        yield


@pytest.fixture(autouse=True)
def same_seed() -> None:
    shape_checker.calls.clear()
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
