"""The smoothed path of labels is the best of all paths, and smoothing removes single doubtful labels."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch import Tensor

from foveate.decode.label_path import SmoothingConfig, Transitions, label_path

COUNTS = Transitions(np.array([3, 0, 1]), np.array([[7, 1, 0], [2, 9, 1], [0, 0, 4]]))


def total(path: tuple[int, ...], logs: Tensor, config: SmoothingConfig) -> float:
    """The sum of the definition, place by place."""
    first, steps, labels = (getattr(COUNTS, name) for name in ("first_logs", "step_logs", "label_logs"))
    score = config.transition * first[path[0]] + config.transition * sum(steps[a, b] for a, b in pairwise(path))
    return float(
        score + sum(logs[place, label].double() - config.prior * labels[label] for place, label in enumerate(path))
    )


@pytest.mark.parametrize("transition", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("prior", [0.0, 1.0])
@pytest.mark.parametrize("length", [1, 2, 6])
def test_the_path_has_the_largest_sum_of_all_paths(transition: float, prior: float, length: int) -> None:
    config = SmoothingConfig(transition=transition, prior=prior)
    logs = torch.randn(length, 3, generator=torch.Generator().manual_seed(length)).log_softmax(-1)
    best = max(product(range(3), repeat=length), key=lambda path: total(path, logs, config))
    assert tuple(label_path(logs, COUNTS, config).tolist()) == best


def test_without_weights_each_place_has_its_own_best_label() -> None:
    logs = torch.randn(9, 3, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    assert torch.equal(label_path(logs, COUNTS, SmoothingConfig(transition=0.0)), logs.argmax(-1))
    assert label_path(logs[:0], COUNTS, SmoothingConfig()).tolist() == []


def test_counts_are_those_of_the_sequences_and_shares_sum_to_one() -> None:
    counts = Transitions.of([np.array([2, 2, 0]), np.array([], np.int64), np.array([1])], 3)
    assert counts.first.tolist() == [0, 1, 1]
    assert counts.steps.tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 1]]
    torch.testing.assert_close(counts.step_logs.exp().sum(1), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(counts.label_logs.exp(), torch.tensor([1, 1, 2], dtype=torch.float64) / 4)
    assert bool(counts.step_logs.isfinite().all())


def test_counts_are_read_as_they_are_written_and_others_are_refused() -> None:
    plain = COUNTS.plain()
    assert Transitions.read(plain, 3).digest() == COUNTS.digest()
    with pytest.raises(ValueError, match="not those of 4 labels"):
        Transitions.read(plain, 4)
    with pytest.raises(IndexError):
        Transitions.read({"first": [1, 1], "steps": [[2, 0, 1]]}, 2)
    with pytest.raises(ValueError, match="not those of"):
        Transitions.read({"first": [1, 1], "steps": [[1, 0, -1]]}, 2)
    with pytest.raises(ValueError, match="from -1 to 0"):
        Transitions.read({"first": [1, 1], "steps": [[-1, 0, 5]]}, 2)


@pytest.mark.parametrize("name", ["transition", "prior"])
def test_a_weight_below_zero_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be at least 0, got -1.0"):
        SmoothingConfig(**{name: -1.0})
