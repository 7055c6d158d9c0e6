"""The targets of exports."""

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Literal, get_args

from foveate.storage.draft import require_replaceable
from foveate.storage.manifest import DamagedError, read_json

Target = Literal["ctranslate2", "onnx"]
Quantisation = Literal["float32", "int8", "int16", "float16", "bfloat16"]
"""The number types in which CTranslate2 stores weights."""
TARGETS: tuple[str, ...] = get_args(Target)
QUANTISATIONS: tuple[str, ...] = get_args(Quantisation)
DESCRIPTION = "export.json"
"""Written last: an export is whole when it is there. It names all other files."""
MARKS = (DESCRIPTION, "model.bin", "*.onnx")
"""Files by which a folder is known as an earlier export, which may be replaced."""


FILES = (
    *("encoder.onnx", "step.onnx", "model.onnx", "model.bin", "config.json"),
    *("source_vocabulary.json", "target_vocabulary.json", "shared_vocabulary.json"),
)
"""The files of models."""


def require_export_folder(folder: Path) -> None:
    """Raises UsageError for a folder that an export may not replace: one with other content than an earlier export, or
    with further files. Exports of version 0.1 do not name their files.
    """
    only: Collection[str] | None = FILES
    if (folder / DESCRIPTION).is_file():
        with contextlib.suppress(DamagedError):
            only = None
            written = read_json(folder / DESCRIPTION).get("written")
            only = {*FILES, *map(str, written), DESCRIPTION} if isinstance(written, list) else None
    require_replaceable(folder, "an earlier export", *MARKS, only=only)
