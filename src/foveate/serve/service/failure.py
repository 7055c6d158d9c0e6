"""Reports of failures, which never have a text of a client."""

import traceback


def described(error: BaseException) -> str:
    """The kind of an error and the lines of the program that led to it. Its message is left out, because it may quote
    what a client has sent.

    >>> try:
    ...     int("a secret")
    ... except ValueError as error:
    ...     print(described(error).partition(" (")[0])
    ValueError
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = ", ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__} ({places})"
