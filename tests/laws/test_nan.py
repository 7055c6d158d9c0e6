"""A key or value that is not finite reaches the queries that see it and no others, whose gradients stay clean, too."""

import pytest
import torch

from foveate.attention import (
    AdditiveConfig,
    Alibi,
    Attention,
    CosineConfig,
    Dot,
    Positions,
    ReLU,
    ScaledDot,
    ShawRelativeConfig,
    Sigmoid,
    Softmax,
    Sparsemax,
    causal,
    edges,
    padding,
    window,
)
from foveate.attention.paths import PATHS, BandedPath, TiledPath

CUT = (*PATHS, BandedPath(tile=2), TiledPath(tile=2))
RULES = (causal(), causal() & padding(), window(left=2, right=0), edges([[0, 1, 5, 2, 3], [0, 1, 6, 3, 5]]))
SCORES = (ScaledDot(), Dot(), CosineConfig(), AdditiveConfig(hidden_dim=5), ShawRelativeConfig(radius=2))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
@pytest.mark.parametrize("path", [None, *CUT], ids=lambda path: f"{getattr(path, 'name', 'explain')}")
def test_gradients_of_queries_that_do_not_see_it_are_those_without_it(path: object, poison: float) -> None:
    ran = 0
    for number, (rule, score) in enumerate((rule, score) for rule in RULES for score in SCORES):
        torch.manual_seed(number)
        normaliser = (Softmax(), ReLU(), Sigmoid(), Sparsemax())[number % 4 if number % 3 else 0]
        built = score.build(query_dim=16, key_dim=16)
        attention = Attention(built, visibility=rule, normaliser=normaliser, bias=Alibi(2) if number % 2 else None)
        at = Positions.of(7, 7, key_lengths=torch.tensor([7, 6]))
        clean = [torch.randn(2, heads, 7, 16) for heads in (2, 1, 1)]
        if path is not None and path.refuses(attention, clean[0], clean[1], at):
            continue
        ran += 1
        place = 5  # under these rules seen by the last queries only
        blind = ~rule(at).expand(2, 1, 7, 7)[..., place].any(0)[0]
        found = []
        for poisoned in (False, True):
            given = [tensor.clone() for tensor in clean]
            if poisoned:
                given[1][:, :, place] = given[2][:, :, place] = poison
            given = [tensor.requires_grad_() for tensor in given]
            if path is None:
                context = attention.explain(*given, at=at).context
            else:
                context = path.run(attention, *given, at=at, key_features=None, dropout=0.0)
            found.append((context, torch.autograd.grad(context[:, :, blind].square().sum(), given)))
        (context, gradients), (after, others) = found
        torch.testing.assert_close(after[:, :, blind], context[:, :, blind], atol=1e-5, rtol=1e-4)
        assert not after[:, :, ~blind].isfinite().all() or poison == torch.inf
        # Differences of large numbers, and ReLU's division by a small sum, round by up to 8e-5 on some processors.
        torch.testing.assert_close(others[0][:, :, blind], gradients[0][:, :, blind], atol=3e-4, rtol=1e-4)
    assert ran or path.name in ("flex", "additive", "short")
