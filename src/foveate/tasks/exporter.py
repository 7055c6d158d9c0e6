"""A translation run as a folder for another engine: the model, its tokenisers, and how they are used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from foveate.data.tokeniser import BOS, EOS
from foveate.errors import UsageError
from foveate.export import max_length, save_ctranslate2, save_onnx, vocabulary
from foveate.export.target import TARGETS, Quantisation, Target
from foveate.storage.manifest import write_json
from foveate.tasks.translate import TOKENISERS
from foveate.tasks.translator import Translator

DESCRIPTION = "export.json"
"""Written last: an export is whole when it is there."""


def export(
    run: Path | str,
    out: Path | str,
    *,
    to: Target,
    quantisation: Quantisation = "float32",
    note: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """Write the trained model of a run for another engine; returns the folder.

    Scores are the model's, to rounding, unless weights are quantised.

    Raises UsageError where the engine cannot express the model, SetupError where a package is not installed, DataError
    when the folder is not a run, has no trained weights, or is damaged.
    """
    if to not in TARGETS:
        raise UsageError(f"There is no export to {to!r}. Choose one of {', '.join(TARGETS)}.")
    if to == "onnx" and quantisation != "float32":
        raise UsageError(
            f"quantisation={quantisation!r} is for ctranslate2. Export to ONNX in float32 and quantise the two files "
            "with the tools of the runtime that loads them."
        )
    out = Path(out)
    if out.is_file() or (out.exists() and any(out.iterdir()) and not (out / DESCRIPTION).exists()):
        raise UsageError(f"{out} is there and is no earlier export. Name another folder, or remove it.")
    translator = Translator.load(run, engine="own", note=note)
    model = translator.model
    if to == "ctranslate2":
        names = {
            "source_vocabulary": vocabulary(translator.source_tokeniser),
            "target_vocabulary": vocabulary(translator.target_tokeniser),
        }
        save_ctranslate2(model, out, **names, quantisation=quantisation)
    else:
        save_onnx(model, out)
    for tokeniser, name in zip((translator.source_tokeniser, translator.target_tokeniser), TOKENISERS, strict=True):
        tokeniser.save(out / name)
    write_json(out / DESCRIPTION, _description(to, quantisation, max_length(model)))
    return out


def _description(to: Target, quantisation: Quantisation, limit: int | None) -> dict[str, Any]:
    ends = "added by the engine" if to == "ctranslate2" else "to be added"
    return {
        "format": to,
        "quantisation": quantisation,
        "source": f"ids of source.tokeniser.json and the end, {EOS}, which is {ends}",
        "target": f"begins with {BOS} and ends with {EOS}",
        "max_length": limit,
    }
