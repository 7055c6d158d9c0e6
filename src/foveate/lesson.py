"""Training from Python, on data in memory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foveate.config import assign, build, to_dict
from foveate.config.toml import inline
from foveate.data.text import normalise
from foveate.errors import DataError, UsageError
from foveate.storage.draft import disk_errors, write_file
from foveate.storage.run import begin_run, create_run
from foveate.tasks.run_plan import BEGINNING, Allowance, Size
from foveate.tasks.translate.side import SIDE
from foveate.tasks.translate.task import TranslateTask
from foveate.tasks.translate.use import Translator
from foveate.train import fit
from foveate.train.log import Progress

GIVEN = "given"
"""The folder within a run for the pairs that it was trained on."""


def train_translator(
    pairs: Iterable[Sequence[str]],
    folder: Path | str,
    *,
    valid_pairs: Iterable[Sequence[str]] = (),
    settings: Mapping[str, Any] | None = None,
    size: Size | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda sentence: None,
) -> Translator:
    """Train a translator on pairs of texts, in a run folder for all commands.

    Sizes and steps are chosen for the data and this machine, like in `foveate train translate`. `settings`, by dotted
    names, change them; `initialise_from` starts with the weights of another run or of "en-fr". Without `valid_pairs`
    some of the pairs are used for validation. `note` receives messages about choices and ignored pairs.

    >>> from tempfile import TemporaryDirectory
    >>> pairs = [(word, word[::-1]) for word in ("ab", "abc", "bca", "cab", "ca")] * 8
    >>> tiny = {"train.steps": 2, "model.hidden_dim": 8, "model.maxout_dim": 8, "model.embedding_dim": 8}
    >>> with TemporaryDirectory() as folder:
    ...     translator = train_translator(pairs, f"{folder}/run", settings=tiny)
    ...     len(translator.translate(["abc", "cb"]))
    2

    Raises DataError for a pair with a line break and for too few pairs, UsageError for a folder that is not empty and
    for unknown settings.
    """
    folder = Path(folder)
    begin_run(folder)
    files = {**_written(folder, pairs, ""), **_written(folder, valid_pairs, "valid_")}
    if "source" not in files:
        raise DataError("There are no pairs to train on. Pass at least 10, or fewer together with valid_pairs.")
    changes = dict(settings or {})
    fixed = {name: changes[name] for name in changes if name in BEGINNING or name.startswith("data.")}
    suggestion = SIDE.suggest(build(SIDE.run_config, _changed({"data": files}, fixed)), Allowance.here(size))
    reasons = (f"{reason.name}: {reason.why}" for reason in suggestion.reasons if reason.why)
    for sentence in (suggestion.facts, *reasons):
        note(sentence)
    mapping = {**suggestion.settings, "data": {**suggestion.settings.get("data", {}), **files}}
    config = build(SIDE.run_config, _changed(mapping, changes))
    task, reports = TranslateTask.prepare(config, folder)
    for part, report in reports.items():
        note(f"{part}: {report}")
    whole = to_dict(task.config)
    create_run(folder, SIDE.entry.name, whole, task.digests)
    fit(task, config.train, folder, progress=progress, configuration=whole)
    return Translator.load(folder, note=note)


def _written(folder: Path, pairs: Iterable[Sequence[str]], prefix: str) -> dict[str, str]:
    """Write the pairs as files of the run; return their paths by setting."""
    sides: tuple[list[str], list[str]] = ([], [])
    for number, pair in enumerate(pairs):
        for side, text in zip(sides, _both(pair, number), strict=True):
            if len(text.splitlines()) > 1 or text.endswith(("\n", "\r")):
                raise DataError(f"Pair {number} (counted from 0) has a line break in it. Give one line on each side.")
            side.append(normalise(text, f"pair {number}"))
    if not sides[0]:
        return {}
    paths = {}
    with disk_errors(folder):
        (folder / GIVEN).mkdir(exist_ok=True)
    for name, lines in zip(("source", "target"), sides, strict=True):
        path = (folder / GIVEN / f"{prefix}{name}.txt").absolute()
        write_file(path, "".join(f"{line}\n" for line in lines).encode("utf-8"))
        paths[f"{prefix}{name}"] = str(path)
    return paths


def _both(pair: Sequence[str], number: int) -> Sequence[str]:
    if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise DataError(f"Pair {number} (counted from 0) is {pair!r}. Give a source text and a target text.")
    return pair


def _changed(mapping: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    words = (f"{path}={'none' if value is None else inline(_plain(value, path))}" for path, value in changes.items())
    return dict(assign(mapping, list(words)))


def _plain(value: Any, path: str) -> Any:
    """A setting as TOML has it, with "none" for None. Raises UsageError for values of other types."""
    if isinstance(value, Mapping):
        return {key: _plain(part, f"{path}.{key}") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, path) for part in value]
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if value is None or isinstance(value, Path):
        return "none" if value is None else str(value)
    if not isinstance(value, str | bool | int | float):
        kind = type(value).__name__
        raise UsageError(f"{path} is a {kind}. Give a text, a number, true or false, a list or a table of settings.")
    return value
