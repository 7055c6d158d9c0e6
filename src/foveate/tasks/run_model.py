"""The model of a run: its initial and its trained weights, what it looked at in a text."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from foveate.config import build
from foveate.data.text import require_texts
from foveate.errors import DataError, UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.trace import Observation, Pedigree
from foveate.inspect.trace.conversion import Stored
from foveate.models.hugging_face_folder import CONFIG
from foveate.nn.room import within_file, within_machine, within_tensors
from foveate.storage.checkpoint import load_weights, restore_model, save_final, stored_weights
from foveate.storage.draft import disk_errors
from foveate.storage.run import GUESTS, Run, model_type_of, read_run
from foveate.suggestion import missing_file
from foveate.tasks import TASKS

Model = TypeVar("Model", bound=nn.Module)
INITIAL = "initial"
"""Folder of a run with the weights that it began with: a run does not depend on another's folder."""


def seeded(make: Callable[[], Model], seed: int) -> Model:
    """A model with its initial weights, a function of the seed.

    Raises UsageError when settings do not go together, or the machine has no memory for them.
    """
    with torch.random.fork_rng(devices=[]), within_machine():
        torch.manual_seed(seed)
        try:
            built = make()
            if not isinstance(built, nn.Module):
                raise ValueError(
                    f"a model is a torch.nn.Module, and what was built is {built!r:.60}. Let build return it."
                )
            return built
        except (ValueError, RuntimeError, ArithmeticError) as error:  # torch's own checks of sizes raise all three
            raise UsageError(f"The model cannot be built as configured: {error}") from error


@contextlib.contextmanager
def within_run(run: Path) -> Iterator[None]:
    """Within this context a model has to fit the weights of a run folder, if there are any.

    Raises DataError before memory is taken for one that is far larger.
    """
    stored = stored_weights(run)
    room = within_file(*stored[1:], config=run / "config.json", file=stored[0]) if stored else contextlib.nullcontext()
    with room:
        yield


def keep(weights: Mapping[str, Tensor], run: Path) -> None:
    """Put the weights that a run begins with into its folder."""
    with disk_errors(run):
        (run / INITIAL).mkdir(parents=True, exist_ok=True)
    save_final(run / INITIAL, weights, {"weights": "initial weights"})


def begin_with(model: nn.Module, run: Path) -> None:
    """Give a model the weights that `keep` has put into its run folder. Raises DataError when they do not fit it."""
    tensors, _ = load_weights(run / INITIAL)
    restore_model(model, tensors, source=run / INITIAL)


def require_seed(seed: int) -> None:
    """Raises ValueError for a seed that torch and numpy would not both take."""
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"seed must be at least 0 and less than 2 to the power of 63, got {seed}")


def require_smoothing(share: float) -> None:
    """Raises ValueError for a `label_smoothing` that is not a share of the probability."""
    if not 0 <= share < 1:
        raise ValueError(f"label_smoothing must be at least 0 and less than 1, got {share}")


def saved(folder: Path, task: str, kind: type[Any]) -> tuple[Any, Run]:
    """The configuration of a run, without how it was trained, and the run.

    Raises UsageError for a run of another task, DataError when there is none.
    """
    run = read_run(folder).require(task)
    settings = {name: value for name, value in run.config.items() if name != "train"}
    return build(kind, settings, where=f"{folder / 'config.json'}:"), run


def require_kind(folder: Path | str, *kinds: str) -> str:
    """The kind of the model in a Hugging Face folder. Raises UsageError for other kinds."""
    kind = model_type_of(folder)
    if kind is None and not (Path(folder) / CONFIG).exists():
        missing = missing_file(Path(folder)) if not Path(folder).exists() else f"{folder} has no {CONFIG}."
        raise UsageError(f"{missing} Name the folder of a model of Hugging Face.")
    if kind is None or kind not in kinds:
        commands = "; ".join(f"{model}: foveate {TASKS[task].verb.name}" for model, task in GUESTS.items())
        expected = " or ".join(map(repr, kinds))
        raise UsageError(f"{folder} holds a model of the kind {kind!r}, and this needs {expected} ({commands}).")
    return kind


def require_numbers(name: str, scores: Tensor, noun: str = "probabilities") -> None:
    """Raises DataError for scores, such as probabilities, that are not numbers; `name` is that of the input."""
    if scores.isnan().any():
        raise DataError(
            f"{name}: the model's {noun} are not numbers (NaN). The input has values that are too large for the "
            "model, or the checkpoint is damaged or its training diverged: use an earlier checkpoint."
        )


def trained(folder: Path, make: Callable[[], Model], note: Callable[[str], None]) -> Model:
    """The model of `make` with the trained weights of a run; of an unfinished run, those of its best checkpoint.

    Raises DataError when it has no weights or is damaged.
    """
    tensors, _ = load_weights(folder, note)
    with within_tensors(tensors, config=folder / "config.json", file=folder / "model.safetensors"):
        model = make()
    kinds = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if len(kinds) == 1:  # layers are made in torch's default type, which may be another one here
        model.to(dtype=kinds.pop())
    restore_model(model, tensors, source=folder)
    return model


def require_text(text: str) -> None:
    """Raises UsageError for a text without anything to look at."""
    require_texts(text)
    if not isinstance(text, str):
        raise TypeError(f"One text at a time is looked at, not {type(text).__name__}: give one of them.")
    if not text.strip():
        raise UsageError("The text is empty: there is nothing to look at.")


def listed(things: Any, verb: str, noun: str) -> list[Any]:
    """Several things as a list. Raises TypeError for a single one, such as a path, which would be read letter by
    letter.
    """
    if isinstance(things, str | Path) or not isinstance(things, Sequence | Iterator):
        raise TypeError(f"`{verb}` takes a list of {noun}, not {type(things).__name__}: [{str(things)!r:.60}].")
    return list(things)


def require_positions(
    name: str, length: int, limit: int | None, what: str = "tokens", *, remedy: str = "Shorten it"
) -> None:
    """Raises DataError for an input with more tokens than the model has positions."""
    if limit is not None and length > limit:
        raise DataError(
            f"{name} has {length} {what}, but the model has {limit} positions. {remedy}; nothing is cut off silently."
        )


def traced(
    model: nn.Module,
    observation: Observation,
    pieces: Sequence[str] | Track,
    text: str = "",
    label: str | None = None,
    *,
    attending: str = "Look at a model that attends.",
    stored: Stored = "float16",
) -> Trace:
    """The observation along a track, or the pieces of a text, where they are as many as the model looked at, or along
    their numbers.

    Tracks: `source`, the pieces of the text as the model reads them; of a classifier whose pooling attends, `target`,
    the label. Raises UsageError for a model without attention; `attending` is a sentence on how to get one with it.
    """
    tracks: dict[str, Track] = {}
    lengths = {record.shape[3] for record in observation} | {
        one.explanation.weights.shape[2] for one in observation.others
    }
    if len(pieces) in lengths:
        tracks["source"] = pieces if isinstance(pieces, Track) else Track.of_pieces(pieces, text=text)
        if label is not None:
            tracks["target"] = Track(labels=(label,))
    trace = Trace.of(observation, tracks, pedigree=Pedigree.of(model), stored=stored)
    if not trace.sites:
        raise UsageError(
            f"This {type(model).__name__} has no attention, so there is nothing to look at: a recurrent network keeps "
            f"what it has read in its state. {attending}"
        )
    return trace
