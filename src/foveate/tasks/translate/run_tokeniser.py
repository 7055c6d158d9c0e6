"""The tokenisers of a translator's run."""

from collections.abc import Mapping
from pathlib import Path

from foveate.data.tokeniser import Tokeniser, load_tokeniser
from foveate.tasks.run_digest import require_digests

TOKENISERS = ("source.tokeniser.json", "target.tokeniser.json")


def load_tokenisers(run: Path, digests: Mapping[str, str] | None = None) -> tuple[Tokeniser, Tokeniser]:
    """The tokenisers of a run. Raises DataError if a file is missing, damaged, or from another run."""
    source, target = (load_tokeniser(run / name) for name in TOKENISERS)
    if digests is not None:
        own = dict(zip(TOKENISERS, (source.digest(), target.digest()), strict=True))
        require_digests(run, own, digests)
    return source, target
