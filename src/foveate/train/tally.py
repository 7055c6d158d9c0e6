"""The small figures of an update that all ranks must know: losses, counts, metrics, and whether to stop."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foveate.errors import UsageError
from foveate.train.trainable import Loss
from foveate.train.world import World


@dataclass(frozen=True, kw_only=True)
class Report:
    """The figures of some batches of an update, in their order; see `Updated` for `stop` and `seconds`.

    `peaks` are the largest entries of the batches' gradients where these have a bound, and otherwise 0.
    """

    losses: Sequence[Loss]
    peaks: Sequence[float]
    stop: bool
    seconds: float


class Table:
    """A row for each of `accumulate` batches, and one for the state of all ranks.

    Each rank fills the rows of its batches. The sum over the ranks has all of them, bit for bit, because the others
    add zeros; a float64 holds any float32 and any count below 2⁵³.
    """

    def __init__(self, accumulate: int, example: Loss, world: World) -> None:
        """All ranks call this, each with the loss of a batch. Raises UsageError, in all, unless their metrics have the
        same names.
        """
        self.accumulate, self.world = accumulate, world
        self.names, self.dtype = sorted(example.metrics), example.total.dtype
        self.dtypes = {name: value.dtype for name, value in example.metrics.items() if isinstance(value, Tensor)}
        first, *others = map(json.loads, world.gather(json.dumps(self.names)))
        for names in others:
            if names != first:
                error = _different(first, names)
                error.shared = True
                raise error

    def agreed(self, own: Report) -> Report:
        """The report on all batches of the update. Raises UsageError for a batch with other metrics."""
        table = torch.zeros(self.accumulate + 1, 3 + len(self.names), dtype=torch.float64)
        for place, (loss, peak) in enumerate(zip(own.losses, own.peaks, strict=True)):
            if sorted(loss.metrics) != self.names:
                raise _different(self.names, sorted(loss.metrics))
            figures = [float(loss.metrics[name]) for name in self.names]
            row = [float(loss.total.detach()), loss.count, peak, *figures]
            table[self.world.rank + place * self.world.size] = torch.tensor(row, dtype=torch.float64)
        table[-1, 0] = own.stop
        table[-1, 1] = own.seconds if self.world.is_first else 0.0
        rows = self.world.sum(table).tolist()
        return Report(
            losses=[
                Loss(
                    torch.tensor(row[0], dtype=self.dtype),
                    int(row[1]),
                    {name: self._like(name, value) for name, value in zip(self.names, row[3:], strict=True)},
                )
                for row in rows[:-1]
            ],
            peaks=[row[2] for row in rows[:-1]],
            stop=rows[-1][0] > 0,
            seconds=rows[-1][1],
        )

    def _like(self, name: str, value: float) -> Tensor | float:
        return torch.tensor(value, dtype=self.dtypes[name]) if name in self.dtypes else value


def _different(some: Sequence[str], others: Sequence[str]) -> UsageError:
    return UsageError(
        f"The batches of one update have different metrics: {', '.join(some) or 'none'}, and "
        f"{', '.join(others) or 'none'}. With several processes they must be the same."
    )
