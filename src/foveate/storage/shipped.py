"""Trained models that come with the package, by name."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from foveate.errors import DataError
from foveate.suggestion import did_you_mean

FOLDER = Path(__file__).parents[1] / "shipped"


@dataclass(frozen=True)
class Shipped:
    """A model that comes with the package."""

    run: str
    """Its run folder in `FOLDER`, with a model card: data, licences, scores and limits."""
    task: str
    summary: str


SHIPPED = {
    "en-fr": Shipped("english_french", "translate", "translates English to French"),
    "en-sounds": Shipped("english_sounds", "translate", "pronounces English words"),
    "us-address": Shipped("us_addresses", "tag", "labels the parts of addresses of the United States"),
}
"""The models by their names, which commands take in place of a run folder."""


def is_shipped(folder: Path) -> bool:
    """Whether a folder belongs to a model that comes with the package."""
    return folder.parent == FOLDER


def name_of(folder: Path) -> str:
    """The name by which commands know a model that comes with the package; of another run its folder.

    >>> name_of(run_folder("us-address")), name_of(Path("runs/mine"))
    ('us-address', 'runs/mine')
    """
    return next((name for name, model in SHIPPED.items() if folder == FOLDER / model.run), str(folder))


def shipped_for(tasks: Collection[str]) -> list[str]:
    """The names of the models of some tasks.

    >>> shipped_for(["translate"]), shipped_for(["caption"])
    (['en-fr', 'en-sounds'], [])
    """
    return [name for name, model in SHIPPED.items() if model.task in tasks]


def name_such_a_run(tasks: Collection[str]) -> str:
    """The remedy for a run of another task, without a full stop.

    >>> print(name_such_a_run(["tag"]))
    Name such a run, or us-address, which comes with foveate
    """
    names = shipped_for(tasks)
    come = "which comes" if len(names) == 1 else "which come"
    return f"Name such a run, or {' or '.join(names)}, {come} with foveate" if names else "Name such a run"


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
            return FOLDER / SHIPPED[run].run
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
    names = (name for name, model in SHIPPED.items() if folder == (FOLDER / model.run).resolve())
    return next(names, folder.name)
