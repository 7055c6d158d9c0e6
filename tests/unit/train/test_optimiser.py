import pytest
import torch
from torch import nn

from foveate import machine
from foveate.errors import DataError
from foveate.nn.linear_layer import Linear
from foveate.train.optimiser import adamw, begin_moments, optimiser_tensors, restore_optimiser, trainable


def build(model: nn.Module) -> torch.optim.AdamW:
    return adamw(trainable(model), learning_rate=0.1, weight_decay=0.5, betas=(0.9, 0.99), eps=1e-8)


def update(model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimiser.step()


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def test_only_matrices_decay(model: nn.Module) -> None:
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    build(model).step()
    for name, parameter in model.named_parameters():
        factor = 1 - 0.1 * 0.5 if parameter.ndim >= 2 else 1.0
        torch.testing.assert_close(parameter.detach(), before[name] * factor)


def test_the_fused_update_equals_the_formula(model: nn.Module) -> None:
    optimiser, weight = build(model), next(model.parameters())
    expected, first, second = weight.detach().clone(), torch.zeros(4, 3), torch.zeros(4, 3)
    for step in (1, 2, 3):
        gradient = torch.full((4, 3), float(step))
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        weight.grad = gradient.clone()
        optimiser.step()
        expected = expected * (1 - 0.1 * 0.5)
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        expected = expected - 0.1 * (first / (1 - 0.9**step)) / ((second / (1 - 0.99**step)).sqrt() + 1e-8)
    torch.testing.assert_close(weight.detach(), expected)


def test_restored_state_continues_with_the_same_bits(model: nn.Module) -> None:
    optimiser = build(model)
    update(model, optimiser)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    moments = {name: tensor.clone() for name, tensor in optimiser_tensors(optimiser).items()}
    update(model, optimiser)
    other = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    other.load_state_dict(weights)
    restored = build(other)
    restore_optimiser(restored, moments)
    update(other, restored)
    for name, tensor in other.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name])


def transposed(seed: int = 0) -> nn.Parameter:
    """A parameter whose numbers are in another order in memory than in its rows."""
    return nn.Parameter(torch.randn(3, 5, generator=torch.Generator().manual_seed(seed)).t())


@pytest.mark.parametrize("other", ["restored", "received"])
def test_moments_of_a_transposed_parameter_keep_their_places(other: str) -> None:
    def updated(again: bool) -> torch.Tensor:
        model = nn.ParameterDict({"weight": transposed()})
        optimiser = build(model)
        for step in (1, 2):
            if again and step == 2:
                moments = {name: tensor.contiguous() for name, tensor in optimiser_tensors(optimiser).items()}
                optimiser = build(model)
                if other == "restored":
                    restore_optimiser(optimiser, moments)
                else:
                    begin_moments(optimiser, list(moments))
                    for name, tensor in optimiser_tensors(optimiser).items():
                        tensor.copy_(moments[name])
            model["weight"].grad = transposed(step).detach().clone()
            optimiser.step()
        return model["weight"].detach()

    assert torch.equal(updated(again=True), updated(again=False))


def test_state_of_an_unknown_parameter_is_refused_by_name(model: nn.Module) -> None:
    with pytest.raises(DataError, match=r"9\.weight"):
        restore_optimiser(build(model), {"9.weight/exp_avg": torch.zeros(1)})


def test_a_model_without_parameters_to_train_is_refused(model: nn.Module) -> None:
    with pytest.raises(DataError, match="no trainable parameter"):
        build(model.requires_grad_(False))


def test_inference_after_an_update_multiplies_with_the_new_weights() -> None:
    """Also where weights are kept in another layout, which is made anew when a weight was written to."""
    machine.use(machine.Tuning(packed_rows=1))
    model = nn.Sequential(Linear(3, 4), Linear(4, 2))
    optimiser, x = build(model), torch.randn(5, 3)
    for _ in range(2):
        update(model, optimiser)
        with torch.no_grad():
            output = model(x)
        torch.testing.assert_close(output, model(x).detach())
