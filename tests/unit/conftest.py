"""A process that ends in the middle of a save."""

import os
from collections.abc import Callable

import pytest


def _run_until_call(action: Callable[[], object], number: int) -> bool:
    """Runs in a forked process that dies without clean-up at its call `number` to the system; True if it died."""
    process = os.fork()
    if process == 0:
        calls = 0

        def dying(function: Callable) -> Callable:
            def call(*arguments: object, **keywords: object) -> object:
                nonlocal calls
                calls += 1
                if calls == number:
                    os._exit(9)
                return function(*arguments, **keywords)

            return call

        for name in ("rename", "replace", "fsync", "mkdir", "rmdir", "unlink", "chmod"):
            setattr(os, name, dying(getattr(os, name)))
        try:
            action()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9


@pytest.fixture
def run_until_call() -> Callable[[Callable[[], object], int], bool]:
    return _run_until_call
