"""Checks that files are those of a run."""

from collections.abc import Mapping
from pathlib import Path

from foveate.errors import DataError


def require_digests(run: Path, digests: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raises DataError when a file is another run's; digests by file name."""
    for name, digest in digests.items():
        if expected.get(name, digest) != digest:
            what = "tokeniser" if name.endswith("tokeniser.json") else "file"
            raise DataError(
                f"{run / name} is not the {what} that this model was trained with: its digest is {digest[:12]}…, "
                f"the run's {expected[name][:12]}…. Restore the file of this run."
            )
