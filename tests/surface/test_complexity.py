"""The lectures' table of costs, which `docs/complexity.py` computes from the objects."""

import doctest
import importlib
import math
from pathlib import Path
from typing import Any

import pytest

from foveate.attention import bigbird, block, causal, dilated, everything, longformer, nothing, window
from foveate.attention.efficient import BigbirdConfig, LongformerConfig


@pytest.fixture
def complexity(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    return importlib.import_module("complexity")


def test_the_examples_of_the_docstrings_run(complexity: Any) -> None:
    outcome = doctest.testmod(complexity, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted > 5
    assert outcome.failed == 0


def test_arithmetic_grows_as_the_table_says(complexity: Any) -> None:
    table = complexity.table
    short, long = table(128, 64), table(256, 64)
    growth = {name: long[name].flops / short[name].flops for name in short}
    assert growth["self-attention"] == 4
    assert growth["recurrent"] == 2
    assert growth["convolution"] == 2
    assert growth["restricted self-attention"] == pytest.approx(2, abs=0.1)


def test_only_a_recurrence_waits(complexity: Any) -> None:
    assert {name: row.steps for name, row in complexity.table(128, 64).items()} == {
        "self-attention": 1,
        "recurrent": 128,
        "convolution": 1,
        "restricted self-attention": 1,
    }


def test_paths_are_distances_in_the_visibility(complexity: Any) -> None:
    longest_path = complexity.longest_path
    assert longest_path(everything(), 40) == 1
    assert longest_path(causal(), 40) == 1
    assert longest_path(window(left=4, right=4), 41) == 10
    assert longest_path(window(left=3, right=0), 10) == 3
    assert longest_path(longformer(window=2, tokens=1), 40) == 2
    assert longest_path(bigbird(block=2, random=1), 40) == 2
    assert longest_path(block(4), 16) == 1  # blocks that never meet do not count
    assert longest_path(window(left=1, right=1) | dilated(left=math.inf, right=math.inf, step=6), 36) == 4
    assert longest_path(LongformerConfig(window=8).pattern, 81) == 20
    assert longest_path(LongformerConfig(window=8, tokens=1).pattern, 81) == 2
    assert {longest_path(BigbirdConfig(block=4).pattern, length) for length in (64, 128, 256)} == {2}
    assert longest_path(everything(), 1) == 0
    assert math.isinf(longest_path(nothing(), 3))


def test_costs_are_those_of_the_formulas(complexity: Any) -> None:
    assert complexity.self_attention(100, 8, causal()).flops == 4 * 8 * 100 * 101 / 2
    assert complexity.recurrence(100, 8).path == 99
    assert complexity.convolution(82, 8, kernel=3, dilated=True).path == 5
    assert complexity.convolution(81, 8, kernel=5).path == 40
    with pytest.raises(ValueError, match="joins no two positions"):
        complexity.convolution(9, 8, kernel=1)
