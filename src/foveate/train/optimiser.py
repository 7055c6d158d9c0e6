"""AdamW, and its state as named tensors."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foveate.errors import DataError


def trainable(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """The parameters that training changes, by name."""
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def adamw(
    named: Sequence[tuple[str, nn.Parameter]],
    *,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float],
    eps: float,
) -> torch.optim.AdamW:
    """AdamW for parameters by name, with weight decay on matrices only, without biases, gains and other vectors.

    One fused kernel updates all parameters of a group. On 2 CPU cores with 97 tensors and 6.8 M weights an update
    takes 13 ms against 54 ms one tensor after the other and 68 ms with the `foreach` lists.

    Reference: Loshchilov & Hutter 2019, algorithm 2.
    """
    if not named:
        raise DataError("The model has no trainable parameter. Unfreeze some, or skip training.")
    matrices = [(name, parameter) for name, parameter in named if parameter.ndim >= 2]
    vectors = [(name, parameter) for name, parameter in named if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    fused = all(parameter.device.type in ("cpu", "cuda") for _, parameter in named)
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=learning_rate, betas=betas, eps=eps, fused=fused or None
    )


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state as `{parameter name}/{quantity}`, independent of the order of the parameters."""
    return {
        f"{name}/{quantity}": value
        for name, parameter in _named(optimiser)
        for quantity, value in optimiser.state.get(parameter, {}).items()
    }


def restore_optimiser(
    optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], *, source: Path | str = "the checkpoint"
) -> None:
    """The inverse of `optimiser_tensors`, for the same parameters; the schedule sets the learning rate.

    Raises DataError for the state of other parameters.
    """
    states: dict[str, dict[str, Any]] = {}
    for key, value in tensors.items():
        name, _, quantity = key.rpartition("/")
        states.setdefault(name, {})[quantity] = value
    parameters = dict(_named(optimiser))
    unknown = sorted(states.keys() - parameters.keys())
    if unknown:
        raise DataError(
            f"The optimiser's state in {source} is for parameters that the model does not train: "
            f"{', '.join(unknown[:5])}."
        )
    for name, state in states.items():
        parameter = parameters[name]
        shapes = {"step": torch.Size(()), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
        if {quantity: value.shape for quantity, value in state.items()} != shapes:
            raise DataError(f"The optimiser's state in {source} does not fit {name}. Resume from a copy of the run.")
        if not all(value.dtype.is_floating_point for value in state.values()):
            raise DataError(f"The optimiser's state in {source} has no numbers for {name}. Resume from a copy.")
        optimiser.state[parameter] = {
            quantity: value.to(parameter.device) if quantity == "step" else laid_out(value, parameter)
            for quantity, value in state.items()
        }


def begin_moments(optimiser: torch.optim.Optimizer, names: Sequence[str]) -> None:
    """Makes the state of these names, as in `optimiser_tensors`, where it is missing, to be filled."""
    parameters = dict(_named(optimiser))
    for key in names:
        name, _, quantity = key.rpartition("/")
        parameter = parameters[name]
        step = torch.zeros((), dtype=torch.float32, device=parameter.device)
        empty = step if quantity == "step" else torch.zeros_like(parameter)
        optimiser.state[parameter].setdefault(quantity, empty)


def laid_out(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A tensor on the parameter's device, its numbers in the order of the parameter's in memory.

    torch's fused update reads a parameter, its gradient and its moments one number after the other, whatever their
    strides, so that those of a transposed parameter or of one in `channels_last` would change places.
    """
    tensor = tensor.to(parameter.device)
    if tensor.stride() == parameter.stride():
        return tensor
    return torch.empty_like(parameter, dtype=tensor.dtype, requires_grad=False).copy_(tensor)


def _named(optimiser: torch.optim.Optimizer) -> list[tuple[str, nn.Parameter]]:
    return [
        (name, parameter)
        for group in optimiser.param_groups
        for name, parameter in zip(group["param_names"], group["params"], strict=True)
    ]
