"""The targets of exports."""

from collections.abc import Sequence
from glob import escape
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
MODELS = ["encoder.onnx", "step.onnx", "model.onnx", "*.onnx.data", "model.bin", "config.json"]
BESIDE = ["labels.json", "rows.json", "*.tokeniser.json"]
"""Further files of exports whose description does not name them: it is damaged, or of version 0.1."""
VOCABULARIES = ["source_vocabulary.json", "target_vocabulary.json", "shared_vocabulary.json"]


def require_export_folder(folder: Path, *, marks: Sequence[str] = MARKS) -> None:
    """Raises UsageError for a folder that an export may not replace: one with other content than an earlier export,
    which one of the files `marks` shows, or with further files.
    """
    beside = list[str]()
    if (folder / DESCRIPTION).is_file():
        try:
            description = read_json(folder / DESCRIPTION)
        except DamagedError:  # of ours only beside a model
            marks, beside = MARKS[1:], BESIDE
        else:
            written = description.get("written")
            beside = [escape(str(name)) for name in written] if isinstance(written, list) else BESIDE
            marks = marks if description.get("format") in TARGETS else ()
    require_replaceable(folder, "an earlier export", *marks, only=[DESCRIPTION, *MODELS, *VOCABULARIES, *beside])
