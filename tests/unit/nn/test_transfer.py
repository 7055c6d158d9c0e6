from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from foveate.data.batch import Batch, PairBatch
from foveate.nn.transfer import beside, moved

META = torch.device("meta")


class Pair(NamedTuple):
    one: Tensor
    other: str


@dataclass(frozen=True)
class Nested:
    pair: Pair
    parts: list[dict[str, Tensor]]
    names: np.ndarray


class Own:
    """A batch of a user, with a method of its own."""

    def to(self, device: torch.device) -> str:
        return f"moved to {device}"


def test_tensors_move_wherever_they_are_and_everything_else_stays() -> None:
    names = np.array(["a"])
    nested = moved(Nested(Pair(torch.ones(2), "x"), [{"y": torch.ones(3)}], names), META)
    assert nested.pair.one.device == nested.parts[0]["y"].device == META
    assert (type(nested.pair), nested.pair.other) == (Pair, "x")
    assert nested.names is names
    assert moved((Own(), 1), META) == ("moved to meta", 1)


def test_a_batch_keeps_its_counts_which_would_be_read_from_the_device() -> None:
    batch = PairBatch(Batch.of([[5, 6], [7]]), Batch.of([[1, 2]]), (3, 4))
    there = moved(batch, META)
    assert there.source.values.device == there.target.lengths.device == META
    assert (there.source.num_tokens, there.examples, there.links) == (3, (3, 4), None)


def test_what_has_nothing_to_move_is_the_same_object() -> None:
    batch = Batch.of([[5, 6], [7]])
    assert moved(batch, torch.device("cpu")) is batch
    assert beside(nn.Linear(1, 1), batch) is batch
    assert beside(nn.Module(), batch) is batch
