"""Whether a run may be continued: by one process at a time, and with the configuration it was started with."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from foveate import native
from foveate.errors import UsageError
from foveate.storage.link import open_own

try:
    import fcntl
except ImportError:  # Windows has no such locks; two processes in one folder are then the user's care
    fcntl = None  # type: ignore[assignment]

HARMLESS = ("train.max_minutes", "train.log_every", "train.keep")
"""Settings that do not change the weights of a given step."""
EXTENDING = ("train.steps", "train.patience", *HARMLESS)
"""Settings that may be changed for a run to go on: they say when it ends."""


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Holds the run folder for this process; the system lets go of it however the process ends."""
    with open_own(folder / ".lock", "wb") as file:
        if fcntl:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(
                    f"Another process is training in {folder}. Wait for it or stop it, or name another folder."
                ) from None
        yield


def require_same(
    state: Mapping[str, Any],
    configuration: Mapping[str, Any],
    folder: Path,
    *,
    accept_changes: bool = False,
    accepted: Collection[str] = (),
) -> list[str]:
    """Sentences about differences between a checkpoint and now that are harmless or accepted.

    Raises UsageError for any other.
    """
    found = differences(state["configuration"], configuration)
    serious = {path: change for path, change in found.items() if path not in {*HARMLESS, *accepted}}
    if serious and not accept_changes:
        listed = "\n".join(f"  {path}: {change}" for path, change in serious.items())
        raise UsageError(
            f"The configuration of {folder} is not the one its checkpoint was made with:\n{listed}\n"
            "Restore it, accept the changes explicitly, or start a new run in another folder."
        )
    notes = [f"Changed since the checkpoint: {path}: {change}." for path, change in found.items()]
    if state["torch"] != torch.__version__:
        notes.append(
            f"The checkpoint was made with torch {state['torch']}, this is {torch.__version__}: last bits may differ."
        )
    if state["threads"] != torch.get_num_threads():
        notes.append(
            f"The checkpoint was made with {state['threads']} threads, this run has {torch.get_num_threads()}: "
            "last bits may differ."
        )
    if state.get("native", native.in_use()) != native.in_use():
        notes.append(OTHER_NOISE if native.in_use() else OTHER_NOISE_WITHOUT.format(state=native.state()))
    return notes


OTHER_NOISE = (
    "The checkpoint was made without compiled kernels, this run uses them: dropout draws other noise, and the weights "
    "will be others than without the interruption. FOVEATE_NATIVE=0 goes on as the run began."
)
OTHER_NOISE_WITHOUT = (
    "The checkpoint was made with compiled kernels, this run has none: {state}. Dropout draws other noise, and the "
    "weights will be others than without the interruption. Bring the compiler back to go on as the run began."
)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """The settings that differ, by dotted path.

    >>> differences({"train": {"steps": 10, "seed": 0}}, {"train": {"steps": 20, "seed": 0}})
    {'train.steps': '10 → 20'}
    """
    old, new = dict(_flatten(before)), dict(_flatten(now))
    absent = "not set"
    return {
        path: f"{old.get(path, absent)} → {new.get(path, absent)}"
        for path in [*old, *(path for path in new if path not in old)]
        if old.get(path, absent) != new.get(path, absent)
    }


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flatten(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, list(value) if isinstance(value, tuple) else value
