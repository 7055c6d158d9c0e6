"""Measurements of held-out data, made of pieces of work that several processes can share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

Answer = TypeVar("Answer")


@runtime_checkable
class Each(Protocol):
    """Does a piece of work for every number below a count. The answers are in the order of the numbers."""

    def __call__(self, work: Callable[[int], Answer], count: int) -> list[Answer]: ...


def in_turn(work: Callable[[int], Answer], count: int) -> list[Answer]:
    """The answers of one process.

    >>> in_turn(lambda number: number**2, 4)
    [0, 1, 4, 9]
    """
    return [work(number) for number in range(count)]


class SharedValidation(ABC):
    """A task whose validation consists of independent batches, so that the processes of a run can share them."""

    def validate(self) -> dict[str, float]:
        """The figures of the validation data, by one process."""
        return self.measured(in_turn)

    @abstractmethod
    def measured(self, each: Each) -> dict[str, float]:
        """The figures of the validation data, whose batches `each` distributes.

        The answer to a batch is plain data (numbers, texts, and lists of them) and depends on no other batch. They are
        added up in the order of the batches: whoever has computed them, the sums have the same bits.
        """
