"""In float64 every bias is float64: paths against sums that Python makes of one pair after the other."""

import math

import pytest
import torch

from foveate.attention import Alibi, Attention, Gaussian, Positions, ScaledDot, edges, window
from foveate.attention.paths import PATHS, BandedPath, TiledPath


@pytest.mark.parametrize(
    "path", [None, *PATHS, BandedPath(tile=4), TiledPath(tile=4)], ids=lambda p: f"{getattr(p, 'name', p)}"
)
def test_biases_are_exact_in_float64(path: object) -> None:
    torch.manual_seed(0)
    given = [torch.randn(1, 12, 9, 4, dtype=torch.float64) for _ in range(3)]
    every = torch.cartesian_prod(torch.arange(9), torch.arange(9)).T
    for rule in (window(left=99, right=99), edges(every)):
        for part, bias in (("bias", Alibi(12)), ("bias", Gaussian(sigma=1.7)), ("reweight", Gaussian(sigma=1.7))):
            attention, at = Attention(ScaledDot(), visibility=rule, **{part: bias}), Positions.of(9, 9)
            if path is None:
                context = attention.explain(*given, at=at).context
            elif path.refuses(attention, given[0], given[1], at):
                continue
            else:
                context = path.run(attention, *given, at=at, key_features=None, dropout=0.0)
            slopes = [2.0 ** -(h + 1) for h in range(8)] + [2.0 ** -(h + 0.5) for h in range(4)]
            for head in range(12):
                query, key, value = (tensor[0, head].tolist() for tensor in given)
                for i in range(9):
                    away = [abs(i - j) for j in range(9)]
                    moved = [-slopes[head] * d if isinstance(bias, Alibi) else -(d**2) / (2 * 1.7**2) for d in away]
                    scores = [sum(a * b for a, b in zip(query[i], row, strict=True)) / 2 for row in key]
                    inside = moved if part == "bias" else [0.0] * 9
                    powers = [math.exp(score + more) for score, more in zip(scores, inside, strict=True)]
                    weights = [power / sum(powers) for power in powers]
                    if part == "reweight":
                        weights = [weight * math.exp(more) for weight, more in zip(weights, moved, strict=True)]
                    exact = [sum(w * row[d] for w, row in zip(weights, value, strict=True)) for d in range(4)]
                    wanted = torch.tensor(exact, dtype=torch.float64)
                    torch.testing.assert_close(context[0, head, i], wanted, atol=1e-12, rtol=0)
