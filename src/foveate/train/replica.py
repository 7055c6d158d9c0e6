"""The weights and moments of a run, which each process has as a whole."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foveate.storage.checkpoint import Checkpoint, Checkpoints, model_tensors, restore_model
from foveate.storage.portion import TensorFiles
from foveate.train.average import average
from foveate.train.optimiser import begin_moments, optimiser_tensors, restore_optimiser, trainable
from foveate.train.reduction import Reduction, Summation, summation
from foveate.train.world import World


class Replica:
    """A model, the same in each process. The first process reads and writes its tensors, and the others receive them.

    `Shards` has the same verbs, which all processes call together.
    """

    def __init__(self, model: nn.Module, world: World) -> None:
        self.model, self.world = model, world

    def named(self) -> list[tuple[str, nn.Parameter]]:
        """The parameters to train, as the optimiser sees them."""
        return trainable(self.model)

    def summation(self, parameters: Sequence[nn.Parameter], reduction: Reduction, accumulate: int) -> Summation:
        """The sum of the gradients of these parameters."""
        return summation(parameters, reduction, accumulate, self.world)

    def gathered(self) -> contextlib.AbstractContextManager[None]:
        """Within this context each process has whole weights, and uses the model without the others."""
        return contextlib.nullcontext()

    def restore(self, checkpoint: Checkpoint, optimiser: torch.optim.Optimizer) -> None:
        """The first process's part of continuing from a checkpoint; raises DataError if it does not fit."""
        restore_model(self.model, checkpoint.model, source=checkpoint.path)
        restore_optimiser(optimiser, checkpoint.optimiser, source=checkpoint.path)

    def receive(self, checkpoint: Checkpoint | None, optimiser: torch.optim.Optimizer) -> None:
        """Completes `restore` in all processes, or the beginning of a run without a checkpoint."""
        if self.world.size == 1:
            return
        self._share()
        names = self.world.once(lambda: sorted(optimiser_tensors(optimiser)))
        begin_moments(optimiser, names)
        moments = optimiser_tensors(optimiser)
        self.world.share([moments[name] for name in names])

    def save(
        self,
        checkpoints: Checkpoints,
        step: int,
        optimiser: torch.optim.Optimizer,
        state: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Writes a checkpoint, with the first process's state."""

        def write() -> None:
            tensors = {"model": model_tensors(self.model), "optimiser": optimiser_tensors(optimiser)}
            checkpoints.save(step, **tensors, state=state())

        self.world.once(write, during="saving a checkpoint")

    def load(self, paths: Sequence[Path], source: str) -> None:
        """Takes the mean of the tensors in these files (see `TensorFiles`), which `source` names in messages."""

        def read() -> None:
            restore_model(self.model, average(TensorFiles(path).whole() for path in paths), source=source)

        self.world.once(read, during="reading weights")
        self._share()

    def whole(self) -> Mapping[str, Tensor]:
        """The present weights, in the first process."""
        return model_tensors(self.model)

    def release(self) -> None:
        """Ends training: the model has whole weights from now on."""

    def _share(self) -> None:
        self.world.share(list(model_tensors(self.model).values()))
