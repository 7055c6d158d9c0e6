"""The command line: one file per command, which parses, calls and prints."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 2 usage, 3 data, 4 environment, 130 interrupted."""
    try:
        # Here, and nothing at the top of this file: Ctrl-C while modules are read is as quiet as it is later.
        from foveate.cli.program import run

        return run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        print("foveate: stopped.", file=sys.stderr)
        return 130
