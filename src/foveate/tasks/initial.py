"""Initial weights as a function of the configuration's seed."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from foveate.errors import UsageError

Model = TypeVar("Model", bound=nn.Module)


def seeded(build: Callable[[], Model], seed: int) -> Model:
    """A model with its initial weights, a function of the seed. Raises UsageError when settings do not go together."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return require_model(build())
        except (ValueError, RuntimeError, ArithmeticError) as error:  # torch's own checks of sizes raise all three
            raise UsageError(f"The model cannot be built as configured: {error}") from error


def require_model(built: Model) -> Model:
    """What was built. Raises ValueError when a user's class built something that cannot be trained."""
    if not isinstance(built, nn.Module):
        raise ValueError(f"a model is a torch.nn.Module, and what was built is {built!r:.60}. Let build return it.")
    return built


def require_seed(seed: int) -> None:
    """Raises ValueError for a seed that torch and numpy would not both take."""
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"seed must be at least 0 and less than 2 to the power of 63, got {seed}")
