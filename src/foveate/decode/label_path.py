"""Smooths the labels of a sequence: the most probable path of labels with a prior of their order.

The best label of each vector alone changes too often: a single doubtful vector interrupts a long segment. The prior
knows how long labels last, because a label usually follows itself.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from foveate.config.field import setting

UNSEEN = 0.1
"""The count of a step that the training data do not contain, so that no path is impossible."""


@dataclass(frozen=True, kw_only=True)
class SmoothingConfig:
    """ŷ = argmax Σ_t [log p(y_t | x) − a · log P(y_t)] + b · Σ_t log P(y_t | y_{t−1})

    The first sum has the model's probabilities, divided by the frequencies of labels to the power of a, `prior`. The
    second sum has the frequencies of steps in the training labels, and P(y_1) at its start. With a = b = 1 the model's
    probabilities become the scaled likelihoods of a hidden Markov model. Neighbouring vectors resemble each other, so
    that the model counts the same evidence several times: b, `transition`, above 1 corrects this.

    Reference: Bourlard & Morgan 1994, "Connectionist speech recognition", chapter 7.
    """

    transition: float = setting(2.0, "weight of the logarithms of the frequencies of steps between labels; 0: none")
    prior: float = setting(0.3, "power of the labels' frequencies that divides the probabilities; 1: likelihoods")

    def __post_init__(self) -> None:
        for name in ("transition", "prior"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Transitions:
    """The counts of the labels that begin a sequence, and of the steps from each label to each.

    >>> transitions = Transitions.of([np.array([0, 0, 0, 1]), np.array([0, 1])], 2)
    >>> transitions.first.tolist(), transitions.steps.tolist()
    ([2, 0], [[2, 2], [0, 0]])
    """

    first: Integer[np.ndarray, " labels"]
    steps: Integer[np.ndarray, "labels labels"]

    @classmethod
    def of(cls, sequences: Iterable[Integer[np.ndarray, " _"]], labels: int) -> "Transitions":
        """Count the steps in sequences of numbers of labels."""
        first, steps = np.zeros(labels, np.int64), np.zeros(labels * labels, np.int64)
        for sequence in sequences:
            if len(sequence):
                first[sequence[0]] += 1
                pairs = sequence[:-1].astype(np.int64) * labels + sequence[1:]
                steps += np.bincount(pairs, minlength=labels * labels)
        return cls(first, steps.reshape(labels, labels))

    @classmethod
    def read(cls, plain: Mapping[str, Any], labels: int) -> "Transitions":
        """Read the counts of `plain`. Raises KeyError, TypeError, ValueError or IndexError for others."""
        first, steps = np.array(plain["first"], np.int64), np.zeros((labels, labels), np.int64)
        if first.shape != (labels,) or min(0, *first.tolist(), *(count for *_, count in plain["steps"])) < 0:
            raise ValueError(f"the counts are not those of {labels} labels")
        for before, after, count in plain["steps"]:
            if min(before, after) < 0:
                raise ValueError(f"labels are numbers from 0, and a step is from {before} to {after}")
            steps[before, after] = count
        return cls(first, steps)

    def plain(self) -> dict[str, Any]:
        """The counts for JSON: `first`, and for each step that occurs, both labels and its count."""
        before, after = self.steps.nonzero()
        steps = np.stack([before, after, self.steps[before, after]], axis=1)
        return {"first": self.first.tolist(), "steps": steps.tolist()}

    def digest(self) -> str:
        """SHA-256 of the counts."""
        return hashlib.sha256(json.dumps(self.plain()).encode("ascii")).hexdigest()

    @property
    def label_logs(self) -> Float[Tensor, " labels"]:
        """log P(y): the logarithms of the frequencies of labels."""
        return _logs(self.first + self.steps.sum(0))

    @property
    def first_logs(self) -> Float[Tensor, " labels"]:
        """log P(y_1)"""
        return _logs(self.first)

    @property
    def step_logs(self) -> Float[Tensor, "labels labels"]:
        """log P(y_t | y_{t−1}), a row for each y_{t−1}"""
        return _logs(self.steps)


def label_path(
    log_probabilities: Float[Tensor, "length labels"], transitions: Transitions, config: SmoothingConfig
) -> Int[Tensor, " length"]:
    """The path of labels with the largest sum of `SmoothingConfig`, by dynamic programming (Viterbi 1967).

    The cost is O(length · labels²), in float64. Of equally good paths, the one with the smaller labels at its end.

    >>> transitions = Transitions.of([np.repeat([0, 1], 5)] * 9, 2)
    >>> doubtful = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.9, 0.1], [0.2, 0.8], [0.1, 0.9]]).log()
    >>> doubtful.argmax(-1).tolist(), label_path(doubtful, transitions, SmoothingConfig(transition=1.0)).tolist()
    ([0, 1, 0, 1, 1], [0, 0, 0, 1, 1])
    """
    length = len(log_probabilities)
    if not length:
        return torch.empty(0, dtype=torch.long)
    scores = log_probabilities.detach().double().cpu() - config.prior * transitions.label_logs
    arriving = (config.transition * transitions.step_logs).T.contiguous()  # the best start of a step is along a row
    best = scores[0] + config.transition * transitions.first_logs
    before = torch.zeros(scores.shape, dtype=torch.long)
    for place in range(1, length):
        best, before[place] = (arriving + best).max(1)
        best = best + scores[place]
    path = [int(best.argmax())]
    for place in range(length - 1, 0, -1):
        path.append(int(before[place, path[-1]]))
    return torch.tensor(path[::-1])


def _logs(counts: Integer[np.ndarray, "*shape labels"]) -> Float[Tensor, "*shape labels"]:
    """The logarithms of shares along the last axis."""
    shares = torch.from_numpy(np.maximum(counts, UNSEEN).astype(np.float64))
    return (shares / shares.sum(-1, keepdim=True)).log()
