"""Second derivatives where torch's kernel has none: what stands in for its gradients."""

from functools import partial

import torch

from foveate.attention.paths import sdpa
from foveate.attention.paths.dot import attended


def test_a_bias_that_learns_has_second_derivatives_where_a_kernel_gives_four_gradients() -> None:
    torch.manual_seed(0)
    leaves = [torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    leaves.append(torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True))
    above = torch.randn(1, 2, 3, 4, dtype=torch.float64)
    *features, bias = leaves
    slopes = torch.autograd.grad(attended(*features, 0.5, bias=bias), leaves, above, create_graph=True)
    expected = torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves)

    numbers = tuple(slope.detach() for slope in slopes)  # as a kernel hands them out, without a graph
    instead = sdpa._again(partial(sdpa._defined, False, 0.5), tuple(leaves), 0.0, numbers, (above,))
    assert instead is not None
    torch.testing.assert_close(instead, slopes)
    torch.testing.assert_close(torch.autograd.grad(sum(slope.square().sum() for slope in instead), leaves), expected)
