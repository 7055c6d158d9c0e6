"""A sequence with its class."""

from typing import NamedTuple


class Labelled(NamedTuple):
    """What a classifier learns from. Ids begin at 1: 0 is left for padding."""

    ids: list[int]
    label: int
