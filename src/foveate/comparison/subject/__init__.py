"""The tasks that can be compared, each as a `Subject`."""

import functools
import importlib

from foveate.comparison.subject.subject import Asked, Bucket, Scored, Subject
from foveate.errors import UsageError
from foveate.suggestion import did_you_mean

_HOMES = {
    "translate": ("translate", "Translate"),
    "language_model": ("text", "LanguageModelling"),
    "masked_language_model": ("text", "MaskedLanguageModelling"),
    "tag": ("labelling", "Tag"),
    "classify": ("labelling", "Classify"),
}
SUBJECTS = tuple(_HOMES)


@functools.cache
def subject_of(task: str) -> Subject:
    """The subject of a task. Raises UsageError for a task that is unknown."""
    if task not in _HOMES:
        raise UsageError(f"There is no task {task!r}.{did_you_mean(task, _HOMES)} There are: {', '.join(_HOMES)}.")
    module, name = _HOMES[task]
    subject: Subject = getattr(importlib.import_module(f"foveate.comparison.subject.{module}"), name)()
    return subject


__all__ = ["SUBJECTS", "Asked", "Bucket", "Scored", "Subject", "subject_of"]
