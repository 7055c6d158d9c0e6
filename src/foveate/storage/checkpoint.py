"""Checkpoints: folders `checkpoints/step-00001000/` from which training continues bit for bit.

    step-00001000/
      model.safetensors        weights and buffers, tied ones once
      optimiser.safetensors    moments of AdamW by parameter name
                               of several processes that hold parts of them, each has a file: model-00001-of-00004 …
      state.json               step, history of validations, counters, configuration
      MANIFEST                 digests; see `manifest`

A checkpoint contains no code: pickle is neither written nor read.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from foveate.config import build
from foveate.errors import DataError, UsageError
from foveate.storage import draft, manifest
from foveate.storage.manifest import DamagedError
from foveate.storage.portion import TensorFiles
from foveate.storage.rounded_weight import Stored, rounded, widened
from foveate.storage.tensor import read_tensors, write_tensors

MODEL, OPTIMISER, STATE, FINAL = "model.safetensors", "optimiser.safetensors", "state.json", "model.json"
FORMAT = 1
_SIZE_OF_JSON = 1_000_000
Content = TypeVar("Content")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint, from which training can continue. Tensors are read when asked for."""

    path: Path
    step: int
    state: dict[str, Any]

    @cached_property
    def model(self) -> dict[str, Tensor]:
        return TensorFiles(self.path / MODEL).whole()

    @cached_property
    def optimiser(self) -> dict[str, Tensor]:
        return TensorFiles(self.path / OPTIMISER).whole()


class Checkpoints:
    """The checkpoints of one run; `note` receives a sentence for each damaged one that is skipped."""

    def __init__(self, folder: Path, note: Callable[[str], None] = lambda sentence: None) -> None:
        self.folder = folder
        self.note = note

    def path(self, step: int) -> Path:
        """The folder of a step's checkpoint, existing or not."""
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """The steps with a checkpoint, damaged or not, in ascending order."""
        matches = (re.fullmatch(r"step-(\d{8,})", path.name) for path in self.folder.glob("step-*"))
        return sorted(int(match.group(1)) for match in matches if match)

    def save(
        self, step: int, *, model: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], state: Mapping[str, Any]
    ) -> None:
        """Writes a checkpoint completely or not at all. Raises SetupError if the disk is full."""
        size = sum(tensor.nbytes for tensor in [*model.values(), *optimiser.values()]) + _SIZE_OF_JSON
        with self.draft(step, size) as folder:
            write_tensors(folder / MODEL, model)
            write_tensors(folder / OPTIMISER, optimiser)
            self.write_state(folder.name, step, state)

    def draft(
        self, step: int, size: int, digests: Mapping[str, str] | None = None
    ) -> contextlib.AbstractContextManager[Path]:
        """The folder of a checkpoint that appears when the context ends without an error; see `sealed_folder`."""
        return manifest.sealed_folder(self.path(step), size=size, digests=digests)

    def write_state(self, draft: str, step: int, state: Mapping[str, Any]) -> None:
        """Writes the state into a draft, which it names."""
        manifest.write_json(self.folder / draft / STATE, {"format": FORMAT, "step": step, **state})

    def load(self, step: int) -> Checkpoint:
        """Reads a checkpoint. Raises DamagedError if it differs from its digests."""
        path = self.path(step)
        manifest.verify(path)
        state = manifest.read_json(path / STATE)
        if state.get("format") != FORMAT:
            raise DataError(
                f"{path} has format {state.get('format')}, but this version of foveate reads format {FORMAT}. "
                "Use the version that wrote it."
            )
        return Checkpoint(path, step, state)

    def newest(self) -> Checkpoint | None:
        """The newest undamaged checkpoint, or None if the folder has no checkpoint.

        `note` receives a sentence about each damaged one that is newer. Raises DamagedError if all are damaged.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                return self.load(step)
            except DamagedError as error:
                self.note(f"Skipping the damaged checkpoint {self.path(step)}: {error}")
        if steps:
            raise DamagedError(
                f"All {len(steps)} checkpoints in {self.folder} are damaged. Start the run again in a new folder."
            )
        return None

    def sound(self, steps: Iterable[int]) -> list[int]:
        """The steps with an undamaged checkpoint; `note` receives a sentence about each damaged one."""
        sound = []
        for step in steps:
            try:
                manifest.verify(self.path(step))
                sound.append(step)
            except DamagedError as error:
                self.note(f"Skipping the damaged checkpoint {self.path(step)}: {error}")
        return sound

    def files(self, step: int) -> TensorFiles:
        """The weights of a checkpoint."""
        return TensorFiles(self.path(step) / MODEL)

    def is_sound(self, step: int) -> bool:
        """Whether the checkpoint of a step exists and is undamaged."""
        try:
            manifest.verify(self.path(step))
        except DamagedError:
            return False
        return True

    def set_aside(self, after: int) -> None:
        """Renames the damaged checkpoints after a step, so that they are neither counted nor mixed with new ones.

        `damaged-step-…` remains for inspection.
        """
        for step in self.steps():
            if step > after:
                target = self.folder / f"damaged-{self.path(step).name}"
                draft.remove(target)
                self.path(step).rename(target)

    def prune(self, keep: int, spare: Collection[int] = ()) -> None:
        """Deletes all but the newest `keep` checkpoints and those in `spare`, and the remains of killed runs."""
        draft.remove_stale(self.folder)
        for step in self.steps()[:-keep]:
            if step not in spare:
                draft.remove(self.path(step))


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The weights and buffers by name; tied weights appear once, under their first name."""
    unique: dict[Any, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        key = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else name
        unique.setdefault(key, (name, tensor))
    return dict(unique.values())


def restore_model(model: nn.Module, tensors: Mapping[str, Tensor], *, source: Path | str) -> None:
    """Copies saved tensors into a model of the same shape; raises DataError naming the first differences.

    A model's `retired` lists names of weights that earlier versions saved; these are ignored.
    """
    copy_tensors(model_tensors(model), tensors, retired=getattr(model, "retired", ()), source=source)


def copy_tensors(
    own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], *, retired: Collection[str] = (), source: Path | str
) -> None:
    """Copies tensors into those of the same names; raises DataError naming the first differences."""
    tensors = {name: tensor for name, tensor in tensors.items() if name in own or name not in retired}
    differences = [f"{name} is missing" for name in own.keys() - tensors.keys()]
    differences += [f"{name} is unknown to the model" for name in tensors.keys() - own.keys()]
    differences += [
        f"{name} is {_shape(tensors[name])} but the model has {_shape(own[name])}"
        for name in own.keys() & tensors.keys()
        if _shape(tensors[name]) != _shape(own[name])
    ]
    if differences:
        first = "; ".join(sorted(differences)[:3])
        more = f" (and {len(differences) - 3} more)" if len(differences) > 3 else ""
        raise DataError(
            f"The weights in {source} do not fit the model: {first}{more}. "
            "Build the model from the configuration saved with them."
        )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def stored_weights(run: Path) -> tuple[Path, int, int] | None:
    """The first readable file with weights of a run, and its numbers of values and of tensors."""
    checkpoints = Checkpoints(run / "checkpoints")
    for file in (run / MODEL, *(checkpoints.path(step) / MODEL for step in reversed(checkpoints.steps()))):
        with contextlib.suppress(DamagedError):
            return file, *TensorFiles(file).size
    return None


def save_final(
    run: Path, tensors: Mapping[str, Tensor], information: Mapping[str, Any], *, stored: Stored = ""
) -> None:
    """Writes `model.safetensors` and `model.json`, the weights for use, rounded to a smaller type if it is given.

    The old weights are deleted first, and the new ones are written last, after `model.json` with their digest: a
    process that is killed leaves neither weights without a digest nor a pair that does not match. Raises ValueError for
    int8 and numbers that are not finite.
    """
    tensors = rounded(tensors, stored)
    information = {**information, "stored": stored} if stored else information
    draft.require_space(run, sum(tensor.nbytes for tensor in tensors.values()))

    def write(temporary: Path) -> None:
        write_tensors(temporary, tensors)
        draft.flush(temporary)
        (run / MODEL).unlink(missing_ok=True)
        digest = manifest.file_digest(temporary)
        manifest.write_json(run / FINAL, {"format": FORMAT, "sha256": digest, **information})

    draft.replace_file(run / MODEL, write)


def is_finished(run: Path) -> bool:
    """Whether a run has its weights for use, damaged or not, and no better checkpoint since it was continued."""
    try:
        return read_final(run) is not None
    except DamagedError:
        return True


@dataclass(frozen=True, kw_only=True)
class Final:
    """The content of `model.json`, which describes the weights beside it."""

    format: int
    sha256: str
    weights: str = "final weights"
    step: int | None = None
    """The last step of the training that wrote them; None if unknown."""
    value: float | None = None
    """The value for comparison, lower is better; None if unknown."""
    metrics: dict[str, float | None] = field(default_factory=dict)
    stored: Stored = ""
    """The type to which the weights were rounded; empty if they are as they were trained."""

    @property
    def description(self) -> str:
        """The origin of the weights and their rounding, in words."""
        return f"{self.weights}, rounded to {self.stored}" if self.stored else self.weights


def read_final(run: Path) -> Final | None:
    """`model.json`, or None if the run is not finished. Raises DamagedError if the file is damaged.

    A run that was continued after its end and has an undamaged checkpoint that is better than its final weights is not
    finished. The weights remain on the disk until it ends again, in case it stops before such a checkpoint.
    """
    if not ((run / FINAL).exists() and (run / MODEL).exists()):
        return None
    final = _read(Final, run / FINAL)
    return None if final.step is not None and _is_overtaken(run, final.step, final.value) else final


@dataclass(frozen=True, kw_only=True)
class Best:
    """The content of `best.json`."""

    step: int
    checkpoint: str = ""
    value: float | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)


def read_best(run: Path) -> Best:
    """Reads `best.json`. Raises DamagedError if it is damaged."""
    return _read(Best, run / "best.json")


def _is_overtaken(run: Path, step: int, value: float | None) -> bool:
    """Whether an undamaged checkpoint after the step is the best, or the newest if no validation was finite."""
    checkpoints = Checkpoints(run / "checkpoints")
    later = [one for one in checkpoints.steps() if one > step]
    if not later:
        return False
    if (run / "best.json").exists():
        best = read_best(run)
        better = value is None or best.value is None or best.value < value
        later = [one for one in later if one == best.step and better]
    return any(checkpoints.is_sound(one) for one in later)


def _read(kind: type[Content], path: Path) -> Content:
    try:
        return build(kind, manifest.read_json(path), where=f"{path}:")
    except UsageError as error:
        raise DamagedError(f"{error} Restore it from a copy of the run.") from None


def load_weights(run: Path, note: Callable[[str], None] = lambda sentence: None) -> tuple[dict[str, Tensor], str]:
    """The weights of a run for use, and a short description of them.

    These are the final weights, converted to float32. For a run that is not finished, or that has become better since
    it was continued, they are those of the best checkpoint, or else of the newest undamaged one. Raises DataError if
    there are none or the final weights are damaged.
    """
    final = read_final(run)
    if final is not None:
        if manifest.file_digest(run / MODEL) != final.sha256:
            raise DamagedError(
                f"{run / MODEL} is not the file that was saved: its SHA-256 differs. "
                "Delete it to use the best checkpoint."
            )
        try:
            return widened(read_tensors(run / MODEL), final.stored), final.description
        except ValueError as error:
            raise DamagedError(f"{run / MODEL} cannot be read: {error}.") from None
    if (run / MODEL).exists() and not (run / FINAL).exists():
        raise DamagedError(
            f"{run / MODEL} has no model.json beside it with its digest, so that damage cannot be detected. Restore "
            "model.json from a copy of the run, or delete model.safetensors to use the best checkpoint."
        )
    step = _step_in_use(run, note)
    tensors = Checkpoints(run / "checkpoints").files(step).whole()
    return tensors, f"checkpoint of step {step:,} (the run is not finished)"


def weight_files(run: Path) -> list[Path]:
    """The files that `load_weights` reads: one, or those of the processes that have saved parts of a model. Raises
    DataError where there are none.
    """
    if read_final(run) is not None:
        return [run / MODEL]
    return Checkpoints(run / "checkpoints").files(_step_in_use(run)).files


def _step_in_use(run: Path, note: Callable[[str], None] = lambda sentence: None) -> int:
    """The step of the best checkpoint of a run, or else of the newest undamaged one. Raises DataError if there is
    none.
    """
    checkpoints = Checkpoints(run / "checkpoints", note)
    steps = checkpoints.steps()
    if (run / "best.json").exists():
        best = read_best(run).step
        steps = sorted(steps, key=lambda step: step == best)
    for step in reversed(steps):
        if checkpoints.sound([step]):
            return step
    raise DataError(
        f"{run} has no trained weights: neither model.json nor a sound checkpoint. Train first, or name another run."
    )


def _shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
