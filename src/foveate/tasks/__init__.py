"""Tasks: what can be trained, each in a folder of its own.

`__init__.py` of the folder has the name of the task and of its files, `task.py` what training fits, `use.py` the class
that users load, `side.py` the methods that commands call. `TASKS` is the only list of them. Nothing here imports torch:
`--help` has to be quick.
"""

from typing import TYPE_CHECKING

from foveate.tasks import (
    caption,
    classify,
    language_model,
    masked_language_model,
    molecule,
    node,
    speak,
    tag,
    transcribe,
    translate,
)
from foveate.tasks.entry import Entry

if TYPE_CHECKING:
    from foveate.storage.run import Run

TASKS: dict[str, Entry] = {
    room.TASK.name: room.TASK
    for room in (
        translate,
        language_model,
        masked_language_model,
        tag,
        classify,
        transcribe,
        speak,
        caption,
        node,
        molecule,
    )
}
"""All tasks by their names, which runs keep in `config.json`."""


def task_of(run: "Run") -> Entry:
    """The task of a run. Raises DataError when this version does not know it."""
    from foveate.errors import DataError

    if run.task not in TASKS:
        raise DataError(
            f"{run.folder} is a run of the task {run.task!r}, which this version of foveate does not know. "
            f"It knows {', '.join(TASKS)}."
        )
    return TASKS[run.task]
