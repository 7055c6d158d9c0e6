"""Long computations that may be interrupted: before each step of decoding, each batch of texts and each attention of an
explanation the caller is asked whether anybody still waits for the result.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Ask = Callable[[], None]
"""Returns if the work goes on, and raises an error of its own if not."""
_ask: ContextVar[Ask | None] = ContextVar("ask", default=None)


@contextmanager
def interruptible(ask: Ask) -> Iterator[None]:
    """Within the context, every step of a long computation in this thread begins with `ask()`, whose error ends it.

    >>> from foveate import Translator
    >>> def stop() -> None:
    ...     raise TimeoutError("too late")
    >>> with interruptible(stop):
    ...     Translator.load("en-fr").translate("Good morning!")
    Traceback (most recent call last):
    TimeoutError: too late
    """
    token = _ask.set(ask)
    try:
        yield
    finally:
        _ask.reset(token)


def question() -> Ask | None:
    """The function that asks whether the work goes on, or None."""
    return _ask.get()


def ask() -> None:
    """Ask whether the work goes on."""
    own = question()
    if own is not None:
        own()
