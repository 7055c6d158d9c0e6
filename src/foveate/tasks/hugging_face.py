"""Folders of Hugging Face: which command serves which kind of model."""

from pathlib import Path

from foveate.errors import UsageError
from foveate.storage.run import GUESTS, model_type_of
from foveate.tasks import TASKS


def require_kind(folder: Path | str, *kinds: str) -> str:
    """Which of the kinds a Hugging Face folder holds. Raises UsageError when it is another."""
    kind = model_type_of(folder)
    if kind is None or kind not in kinds:
        commands = "; ".join(f"{model}: foveate {TASKS[task].verb.name}" for model, task in GUESTS.items())
        expected = " or ".join(map(repr, kinds))
        raise UsageError(f"{folder} holds a model of the kind {kind!r}, and this needs {expected} ({commands}).")
    return kind
