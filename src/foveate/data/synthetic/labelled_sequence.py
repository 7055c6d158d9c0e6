"""A sequence of ids with its class."""

from typing import NamedTuple


class Labelled(NamedTuple):
    """A training example of a classifier. Ids begin at 1, because 0 is padding."""

    ids: list[int]
    label: int
