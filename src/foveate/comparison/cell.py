"""One cell of a comparison: a variant with a seed, trained within the budget, measured, and kept.

What it measures of memory is the most bytes of tensors that are alive at once in a training step.
"""

import hashlib
import json
import math
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from foveate.comparison.comparison_folder import CELL, Folder
from foveate.comparison.design import Design
from foveate.config import to_dict
from foveate.errors import DataError
from foveate.storage.checkpoint import Checkpoints, is_finished, load_weights, restore_model
from foveate.storage.manifest import read_json, write_json
from foveate.storage.run import create_run, read_run
from foveate.tasks.side import Bucket, Side
from foveate.train import TrainConfig, fit
from foveate.train.log import Progress
from foveate.train.trainable import Trainable
from foveate.train.update import Updater

LOOK = 64
"""The number of batches among which the largest is chosen."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The measurements of a finished cell, as in `cell.json`."""

    variant: str
    seed: int
    parameters: int
    memory_bytes: int
    """See `step_bytes`."""
    steps: int
    tokens: int
    seconds: float
    """Wall-clock time, including validations and checkpoints."""
    cpu_seconds: float | None
    """CPU time of all threads; None if the training was interrupted."""
    weights: str
    """The weights that were measured, in words."""
    scores: Mapping[str, float]
    buckets: tuple[Bucket, ...]
    unit: str
    asked: str
    """The digest of the requested measurements: a cell with another digest is measured again."""
    threads: int
    torch_version: str
    finished: str
    folder: str

    @classmethod
    def read(cls, path: Path) -> "Cell":
        """Raises DataError where it is damaged."""
        values = read_json(path)
        try:
            buckets = tuple(Bucket(**bucket) for bucket in values.pop("buckets"))
            return cls(**values, buckets=buckets)
        except (KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged: {error}. Remove it, and the cell is measured again.") from None


def finished(folder: Folder, variant: str, seed: int) -> Cell | None:
    """The cell, if it is trained and measured as requested. Raises UsageError if its folder holds another run."""
    place = folder.cell(variant, seed)
    if not (place / "config.json").exists():
        return None
    folder.require_own(variant, seed, read_run(place).config)
    if not (place / CELL).exists() or not is_finished(place):
        return None
    cell = Cell.read(place / CELL)
    if cell.asked != asked_digest(folder):
        return None
    if missing := sorted(set(folder.design.asked.metrics) - set(cell.scores)):
        raise DataError(
            f"{place / CELL} is damaged: it has no {' and '.join(missing)}. Remove it, and the cell is measured again."
        )
    return cell


def make(folder: Folder, variant: str, seed: int, progress: Progress, memory: int | None = None) -> Cell | None:
    """Train a cell, or finish its training, and measure it; None when the user interrupts.

    `memory` is that of another cell of the variant, if it is known. Raises DataError if the training fails.
    """
    place, side = folder.cell(variant, seed), folder.design.side
    config = _begun(folder, variant, seed)
    before = Cell.read(place / CELL) if (place / CELL).exists() else None
    if before is not None:
        memory = before.memory_bytes
    if memory is None:
        memory = step_bytes(folder.open(variant, seed), config.train)
    task = side.open(config, place)
    cpu = None
    if not is_finished(place):
        resume, started = (place / "metrics.jsonl").exists(), time.process_time()
        outcome = fit(task, config.train, place, resume=resume, progress=progress, configuration=to_dict(config))
        if outcome.interrupted:
            return None
        cpu = None if resume else time.process_time() - started
    else:
        restore_model(task.model, load_weights(place)[0], source=place)
        cpu = before.cpu_seconds if before is not None else None
    return _measured(folder, variant, seed, task, config, memory, cpu)


def asked_digest(folder: Folder) -> str:
    """A digest of the requested metrics and of the test data."""
    content = {**asdict(folder.design.asked), "test": folder.test_digests}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def with_usual_metrics(design: Design, folder: Folder) -> Design:
    """The design with the task's usual metrics, if it names none. Raises UsageError for metrics that do not apply."""
    settings, task = design.asked, folder.open(design.first, design.seeds[0])
    if not settings.metrics:
        metrics = design.side.usual_metrics(task)
        if not design.shares_tokens:
            metrics = tuple(name for name in metrics if name not in design.side.per_token) or metrics
        settings = replace(settings, metrics=metrics)
    design.side.require_given(task, settings)
    design.require_comparable(settings.metrics)
    return replace(design, asked=settings)


def _begun(folder: Folder, variant: str, seed: int) -> Any:
    """The configuration of a cell; its run folder is created with its data, if it does not exist."""
    place, config, side = folder.cell(variant, seed), folder.config(variant, seed), folder.design.side
    budget, begun = folder.design.budget, (place / "config.json").exists()
    if begun and budget.kind == "tokens":
        steps = read_run(place).config["train"]["steps"]
        config = replace(config, train=replace(config.train, steps=steps))
    elif budget.kind == "tokens":
        steps = steps_of_tokens(side, folder.open(variant, seed), budget.amount, config.train.accumulate)
        config = replace(config, train=replace(config.train, steps=steps))
    if not begun:  # last the configuration: a folder without it is no run yet, and is begun anew
        create_run(place, side.entry.name, to_dict(config), folder.share(variant, place))
    return config


def steps_of_tokens(side: Side, task: Any, tokens: int, accumulate: int) -> int:
    """The smallest number of updates that read so many tokens."""
    count = batches = 0
    while count < tokens:
        count += side.count(task.batch(batches))
        batches += 1
    return -(-batches // accumulate)


def _measured(folder: Folder, variant: str, seed: int, task: Any, config: Any, memory: int, cpu: float | None) -> Cell:
    place = folder.cell(variant, seed)
    checkpoints = Checkpoints(place / "checkpoints")
    state = read_json(checkpoints.path(checkpoints.steps()[-1]) / "state.json")
    task.model.eval()
    with torch.no_grad():
        scored = folder.design.side.score(task, config, place, folder.design.asked)
    for metric, value in scored.values.items():
        if not math.isfinite(value):
            raise DataError(f"its {metric} is {value}, since training has diverged. Try a lower train.learning_rate.")
    cell = Cell(
        variant=variant,
        seed=seed,
        parameters=sum(parameter.numel() for parameter in task.model.parameters()),
        memory_bytes=memory,
        steps=state["step"],
        tokens=state["tokens"],
        seconds=round(state["seconds"], 3),
        cpu_seconds=None if cpu is None else round(cpu, 3),
        weights=read_json(place / "model.json")["weights"],
        scores=dict(scored.values),
        buckets=tuple(scored.buckets),
        unit=scored.unit,
        asked=asked_digest(folder),
        threads=torch.get_num_threads(),
        torch_version=torch.__version__,
        finished=time.strftime("%Y-%m-%d"),
        folder=str(place.relative_to(folder.path)),
    )
    write_json(place / CELL, {**asdict(cell), "buckets": [asdict(bucket) for bucket in cell.buckets]})
    return cell


class _Alive(TorchDispatchMode):
    """Counts the bytes of every tensor that an operation creates, until the tensor is freed."""

    def __init__(self, known: Iterator[Tensor]) -> None:
        super().__init__()
        self.now = self.most = 0
        self.sizes: dict[int, int] = {}
        for tensor in known:
            self._add(tensor)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._add(leaf)
        return result

    def _add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.sizes:
            return
        self.sizes[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._remove, key)

    def _remove(self, key: int) -> None:
        self.now -= self.sizes.pop(key, 0)


def step_bytes(task: Trainable, config: TrainConfig) -> int:
    """Bytes of weights, gradients, moments and activations at the fullest moment of a training step.

    The step reads the largest of the first batches; memory that kernels allocate internally is not counted. Unlike the
    memory of the process, the figure depends neither on the machine nor on other programs. The step changes the model:
    pass one that is no longer needed.
    """
    numbers = range(min(LOOK, task.steps_per_epoch))
    largest = max(numbers, key=lambda number: _elements(task.batch(number)))
    updater = Updater(task, config)
    updater(largest // config.accumulate + 1, [])  # the moments are made by the first update
    with _Alive(_held(task, updater)) as alive:
        updater(largest // config.accumulate + 1, [])
    return alive.most


def _held(task: Trainable, updater: Updater) -> Iterator[Tensor]:
    yield from task.model.parameters()
    yield from task.model.buffers()
    for state in updater.optimiser.state.values():
        yield from (value for value in state.values() if isinstance(value, Tensor))


def _elements(batch: Any) -> int:
    """The number of elements in the tensors of a batch and of its parts."""
    if isinstance(batch, torch.Tensor):
        return batch.numel()
    parts = vars(batch).values() if hasattr(batch, "__dict__") else ()
    return sum(_elements(part) for part in parts)
