"""Gates and standardisation."""

import pytest
import torch

from foveate.nn.ran_gate import Gate, Norm, Standard, standardised


def test_a_gate_is_one_projection_times_the_sigmoid_of_another() -> None:
    gate, x = Gate(5).double(), torch.randn(3, 5, dtype=torch.float64)
    (a, b), (bias_a, bias_b) = gate.linear.weight.chunk(2), gate.linear.bias.chunk(2)
    torch.testing.assert_close(gate(x), (x @ a.T + bias_a) * (x @ b.T + bias_b).sigmoid())


def test_standardised_values_have_mean_0_and_deviation_1() -> None:
    y = standardised(3.0 + 2.0 * torch.randn(4, 6, dtype=torch.float64))
    torch.testing.assert_close(y.mean(-1), torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(y.std(-1, correction=0), torch.ones(4, dtype=torch.float64), atol=1e-6, rtol=0)


@pytest.mark.parametrize("mean", [0.5, 1.0, 3.0])
def test_the_published_norm_varies_too_little_where_the_mean_is_not_0(mean: float) -> None:
    x = mean + standardised(torch.randn(4, 64, dtype=torch.float64))
    deviation = standardised(x, "published").std(-1, correction=0)
    torch.testing.assert_close(
        deviation, torch.full((4,), (1 + mean**2) ** -0.5, dtype=torch.float64), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("kind", ["standard", "published"])
def test_a_norm_scales_and_shifts_what_is_standardised(kind: Standard) -> None:
    norm, x = Norm(6, kind).double(), 1.0 + torch.randn(4, 6, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    torch.testing.assert_close(norm(x), norm.weight * standardised(x, kind) + norm.bias)
    assert torch.equal(norm(torch.zeros(2, 6, dtype=torch.float64)), norm.bias.expand(2, -1))
