"""A run as a folder for another engine: the model, its vocabularies, and how they are used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from foveate.data.tokeniser import BOS, EOS, PAD, Tokeniser
from foveate.errors import UsageError
from foveate.export import max_length, save_ctranslate2, save_onnx, vocabulary
from foveate.export.target import DESCRIPTION, TARGETS, Quantisation, Target, require_export_folder
from foveate.storage.checkpoint import read_final
from foveate.storage.manifest import write_json
from foveate.storage.run import read_run
from foveate.storage.shipped import run_folder
from foveate.tasks import task_of

Note = Callable[[str], None]
COUNTED = f"the number of real tokens in each row; after them comes {PAD}, where outputs have no meaning"
"""The meaning of the lengths that a graph takes."""


@dataclass(frozen=True)
class Exported:
    """A trained model with all that is needed to use it elsewhere."""

    model: nn.Module
    save: Callable[[Path], None]
    """Writes the vocabularies into a folder."""
    meanings: dict[str, str]
    """Meanings of inputs and outputs, by their names or the beginnings of their names."""
    tokenisers: tuple[Tokeniser, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    """Further entries of `export.json`."""

    def meaning(self, name: str) -> str:
        """The meaning of an input or output."""
        return next(text for beginning, text in self.meanings.items() if name.startswith(beginning))


def saver(tokenisers: Mapping[str, Tokeniser]) -> Callable[[Path], None]:
    """Writes tokenisers into a folder, each under its name."""

    def save(folder: Path) -> None:
        for name, tokeniser in tokenisers.items():
            tokeniser.save(folder / name)

    return save


def export(
    run: Path | str,
    out: Path | str,
    *,
    to: Target,
    quantisation: Quantisation = "float32",
    note: Note = lambda sentence: None,
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
            f"quantisation={quantisation!r} is for ctranslate2. Export to ONNX in float32 and quantise the files "
            "with the tools of the runtime that loads them."
        )
    out = Path(out)
    require_export_folder(out, marks=(DESCRIPTION,))
    folder = run_folder(run)
    task = task_of(read_run(folder))
    if task.side.engines and to not in task.side.engines:  # a task without an engine gives its own reason below
        raise UsageError(
            f"CTranslate2 is given translators, and {run} is a run of the task {task.name}. Export it with `--to onnx`."
        )
    exported = task.side.export(run, note)
    details = _ctranslate2(exported, out, quantisation) if to == "ctranslate2" else _onnx(exported, out)
    exported.save(out)
    final = read_final(folder)
    weights = {"weights": final.description} if final else {}
    about = {"format": to, "quantisation": quantisation, "task": task.name, **weights}
    limit = {"max_length": max_length(exported.model)}
    written = {"written": sorted(path.name for path in out.iterdir())}
    write_json(out / DESCRIPTION, {**about, **limit, **exported.extra, **details, **written})
    return out


def _ctranslate2(exported: Exported, out: Path, quantisation: Quantisation) -> dict[str, Any]:
    source, target = map(vocabulary, exported.tokenisers)
    model: Any = exported.model
    save_ctranslate2(model, out, source_vocabulary=source, target_vocabulary=target, quantisation=quantisation)
    return {
        "source": f"ids of source.tokeniser.json and the end, {EOS}, which is added by the engine",
        "target": f"begins with {BOS} and ends with {EOS}",
    }


def _onnx(exported: Exported, out: Path) -> dict[str, Any]:
    """Type, shape and meaning of the inputs and outputs of every file."""
    files = {
        file: {
            side: {name: f"{tensor}: {exported.meaning(name)}" for name, tensor in named.items()}
            for side, named in signature.items()
        }
        for file, signature in save_onnx(exported.model, out).items()
    }
    return {"files": files}
