"""The time of a decoder's rows: how many positions each has read."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Clock:
    """The position of the next token: one for all rows, as long as they began together, else one for each.

    >>> early, late = Clock(2), Clock(7)
    >>> both = early.joined(late, rows=(2, 1))
    >>> both.latest, both.of_rows(3).tolist()
    (7, [2, 2, 7])
    >>> both.ticked().select(torch.tensor([1, 0])).of_rows(2).tolist()
    [3, 3]
    """

    latest: int = 0
    """The largest position of a row."""
    rows: Int[Tensor, " rows"] | None = None
    """The position of each row; None if all are at `latest`."""

    @classmethod
    def of(cls, rows: Int[Tensor, " rows"]) -> "Clock":
        """A clock with these positions."""
        latest, earliest = (int(rows.max()), int(rows.min())) if len(rows) else (0, 0)
        return cls(latest, None if latest == earliest else rows.long())

    def ticked(self, positions: int = 1) -> "Clock":
        """The clock after one more position of every row, or several."""
        return Clock(self.latest + positions, None if self.rows is None else self.rows + positions)

    def of_rows(self, rows: int, device: torch.device | str | None = None) -> Int[Tensor, " rows"]:
        """The position of each of these rows."""
        return torch.full((rows,), self.latest, device=device) if self.rows is None else self.rows

    def next(
        self, positions: int, rows: int, device: torch.device | str | None = None
    ) -> Int[Tensor, "rows positions"]:
        """The next positions of each of these rows."""
        return self.of_rows(rows, device)[:, None] + torch.arange(positions, device=device)

    def of_sentences(self, beam: int, device: torch.device | str | None = None) -> Int[Tensor, "#sentences"]:
        """The position of each sentence of `beam` rows; a single number if all have the same."""
        return self.of_rows(1, device) if self.rows is None else self.rows[::beam]

    def select(self, rows: Int[Tensor, " new_rows"]) -> "Clock":
        """The clock of the selected rows."""
        return self if self.rows is None else Clock.of(self.rows[rows])

    def joined(self, later: "Clock", rows: tuple[int, int], device: torch.device | str | None = None) -> "Clock":
        """The clock of this clock's rows, then the other's; `rows` are their numbers."""
        if self.rows is None and later.rows is None and self.latest == later.latest:
            return replace(self)
        parts = [clock.of_rows(count, device) for clock, count in zip((self, later), rows, strict=True)]
        return Clock.of(torch.cat(parts))
