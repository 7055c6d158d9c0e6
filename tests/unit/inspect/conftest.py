"""Alignments that the tests draw: a pronunciation, a Persian and a Chinese sentence."""

import numpy as np
import pytest

from foveate.inspect import Alignment


def _diagonal(source: list[str], target: list[str]) -> Alignment:
    """Attention that moves along the source, with round weights so that pictures do not depend on exp()."""
    weights = np.zeros((len(target), len(source)), dtype=np.float32)
    for row in range(len(target)):
        column = row * len(source) // len(target)
        weights[row, column] = 0.75
        weights[row, min(column + 1, len(source) - 1)] += 0.25
    return Alignment.of(source, target, weights)


@pytest.fixture
def pronunciation() -> Alignment:
    return _diagonal(list("foveate"), ["F", "OW1", "V", "IY0", "EY2", "T"])


@pytest.fixture
def persian() -> Alignment:
    return _diagonal(["در", "آغاز", "کلمه", "بود", "."], ["In", "the", "beginning", "was", "the", "Word", "."])


@pytest.fixture
def chinese() -> Alignment:
    return _diagonal(list("太初有道。"), ["In", "the", "beginning", "was", "the", "Word", "."])


@pytest.fixture
def into_persian() -> Alignment:
    return _diagonal(["In", "the", "beginning", "was", "the", "Word", "."], ["در", "آغاز", "کلمه", "بود", "."])
