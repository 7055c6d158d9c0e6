"""Output files that a command also reads, and would destroy."""

import argparse
import os

from foveate.errors import UsageError

OUTPUTS = ("save", "report", "out", "html", "png", "svg", "pdf")
"""Options that name a file to write."""


def require_apart(arguments: argparse.Namespace) -> None:
    """Raises UsageError for an output file that another argument names too."""
    for option in OUTPUTS:
        output = getattr(arguments, option, None)
        if not isinstance(output, str) or not os.path.isfile(output):
            continue
        for name, value in vars(arguments).items():
            paths = value if isinstance(value, list) else [value]
            files = [path for path in paths if isinstance(path, str) and os.path.isfile(path)]
            if name not in (option, "command") and any(os.path.samefile(output, path) for path in files):
                raise UsageError(
                    f"--{option} would write over {output}, which this command is also given to read or to write. "
                    "Name another file."
                )
