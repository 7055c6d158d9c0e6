"""What commands say on standard error, where it does not mix with output, and how much of it."""

import sys

_quiet = False


def hush(quiet: bool) -> None:
    """Whether the command that runs was called with --quiet: then only results and errors are said."""
    global _quiet
    _quiet = quiet


def say(text: str) -> None:
    """Tell the user something that explains or advises."""
    if not _quiet:
        tell(text)


def tell(text: str) -> None:
    """Tell the user a result, or why there is none."""
    print(text, file=sys.stderr, flush=True)
