"""The targets of exports."""

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
MODELS = ["encoder.onnx", "step.onnx", "model.onnx", "model.bin", "config.json"]
VOCABULARIES = ["source_vocabulary.json", "target_vocabulary.json", "shared_vocabulary.json"]


def require_export_folder(folder: Path) -> None:
    """Raises UsageError for a folder that an export may not replace: one with other content than an earlier export, or
    with further files.
    """
    require_replaceable(folder, "an earlier export", *MARKS, only=_exported(folder))


def _exported(folder: Path) -> set[str] | None:
    """The names of the files that an export may have written there; None if its description does not say them, as in
    version 0.1, or is damaged.
    """
    ours = {DESCRIPTION, *MODELS, *VOCABULARIES}
    if not (folder / DESCRIPTION).is_file():
        return ours
    try:
        written = read_json(folder / DESCRIPTION).get("written")
    except DamagedError:
        return None
    return {*ours, *map(str, written)} if isinstance(written, list) else None
