"""Gradient × input and integrated gradients of an answer's log-probability.

Captum computes both for one output at a time: every output word of a translation would repeat the forward passes along
the path. Here they share them, so that only the backward passes are made word by word. Captum is the oracle of the
tests.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foveate.inspect.attribution.answer import BUDGET, NOBODY, Answer
from foveate.inspect.attribution.attribution import Attribution

STEPS, MOST = 16, 512
"""The number of points on the path, at first and at most."""
TOLERANCE = 0.02
"""The largest gap of completeness, in nats and as a share of the difference; the paper finds 5 % enough."""


def gradient_times_input(answer: Answer) -> Attribution:
    """Σ_d x_id · ∂ ln p(y) / ∂x_id with x_i the vectors that enter the model, summed over a word's pieces: what the
    answer's log-probability would lose without the word's vector, if it were linear.

    Reference: Shrikumar et al. 2017, "Learning Important Features Through Propagating Activation Differences",
    section 2.2.
    """
    vectors = answer.vectors()
    nowhere = torch.zeros_like(vectors)
    products = vectors * _gradients(answer, vectors, nowhere, torch.zeros(1), torch.ones(1))
    return Attribution.of(answer, "gradient × input", answer.by_word(products.sum(-1)))


def integrated_gradients(answer: Answer, *, steps: int = STEPS, tolerance: float = TOLERANCE) -> Attribution:
    """Σ_d (x_id − x'_id) ∫₀¹ ∂ ln p(y)(x' + a (x − x')) / ∂x_id da,  with x' = 0 for words, and x for other positions

    The integral is a Gauss–Legendre sum over `steps` points, as in Captum. It is complete: the sum over all positions
    is ln p(y)(x) − ln p(y)(x'). Where the gap is larger than `tolerance` nats + `tolerance` of the difference, the
    number of points doubles, up to 512; `note` has the number and the largest gap that remains.

    Reference: Sundararajan, Taly & Yan 2017, equation 1 and proposition 1.
    """
    vectors = answer.vectors()
    empty = torch.where(torch.from_numpy(answer.places == NOBODY)[:, None], vectors, torch.zeros_like(vectors))
    with torch.no_grad():
        whole, nothing = answer.scored(torch.stack([vectors, empty]))
    while True:
        difference = vectors - empty
        scores = (difference * _gradients(answer, empty, difference, *_legendre(steps))).sum(-1)
        gap = (scores.double().sum(1) - (whole - nothing)).abs()
        if bool((gap <= tolerance * (1 + (whole - nothing).abs())).all()) or 2 * steps > MOST:
            break
        steps *= 2
    note = f"{steps} points from zero vectors; largest gap of completeness {float(gap.max()):.2g} nats"
    return Attribution.of(answer, "integrated gradients", answer.by_word(scores), note=note)


def _gradients(
    answer: Answer,
    start: Float[Tensor, "positions dim"],
    way: Float[Tensor, "positions dim"],
    points: Float[Tensor, " points"],
    shares: Float[Tensor, " points"],
) -> Float[Tensor, "outputs positions dim"]:
    """The gradients of each output word's log-probability at some points of a way, summed with the points' shares."""
    total = start.new_zeros(len(answer.outputs), *start.shape)
    rows = max(1, BUDGET // (len(answer.row) + len(answer.pieces)))
    for part, share in zip(points.to(start).split(rows), shares.split(rows), strict=True):
        leaf = (start + part[:, None, None] * way).requires_grad_()
        with torch.enable_grad():
            scores = (answer.scored(leaf) * share[:, None]).sum(0)
        last = len(answer.outputs) - 1
        for output in range(len(answer.outputs)):
            (gradient,) = torch.autograd.grad(scores[output], leaf, retain_graph=output < last)
            total[output] += gradient.sum(0)
    return total


def _legendre(count: int) -> tuple[Float[Tensor, " points"], Float[Tensor, " points"]]:
    """Points in (0, 1) and their shares, which sum to 1."""
    points, shares = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy((1 + points) / 2), torch.from_numpy(shares / 2)
