"""Trained models that come with the package, by name."""

from collections.abc import Callable
from pathlib import Path

from foveate.errors import DataError
from foveate.suggestion import did_you_mean

FOLDER = Path(__file__).parents[1] / "shipped"
SHIPPED = {"en-fr": "english_french"}
"""The run folder of each model, by name. It contains a model card with data, licences, figures and limits."""


def is_shipped(folder: Path) -> bool:
    """Whether a folder belongs to a model that comes with the package."""
    return folder.parent == FOLDER


def run_folder(run: Path | str, note: Callable[[str], None] = lambda sentence: None) -> Path:
    """The folder of a run, or of a model that comes with foveate.

    >>> run_folder("en-fr").name, run_folder("./en-fr").name
    ('english_french', 'en-fr')

    A run of that name in the working directory takes precedence, and `note` receives a sentence about it. A `Path` and
    a string with a slash are always folders. Raises DataError for a plain name that is neither.
    """
    folder = Path(run)
    if isinstance(run, str) and run in SHIPPED:
        if not (folder / "config.json").exists():
            return FOLDER / SHIPPED[run]
        note(f"{run} is the run in {folder.resolve()}, not the model of this name that comes with foveate.")
    elif isinstance(run, str) and run == folder.name and not folder.exists():
        raise DataError(
            f"{run} is neither a folder here nor a model that comes with foveate ({', '.join(SHIPPED)})."
            f"{did_you_mean(run, SHIPPED) or ' Give the folder that `foveate train … --out` made.'}"
        )
    return folder


def run_name(run: Path | str) -> str:
    """The name of a run, or of a model that comes with foveate, for titles.

    >>> run_name("en-fr"), run_name(FOLDER / "english_french"), run_name("runs/deep/")
    ('en-fr', 'en-fr', 'deep')
    """
    folder = run_folder(run).resolve()
    shipped = {name for name, called in SHIPPED.items() if folder == (FOLDER / called).resolve()}
    return next(iter(shipped), folder.name)
