"""State that is prepared from weights and modules, and kept only while every part of its origin is unchanged."""

from collections.abc import Callable
from operator import is_
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.nn.modules import module as torch_module
from torch.optim.optimizer import register_optimizer_step_post_hook

Made = TypeVar("Made")


class _Kept(NamedTuple):
    """A result with its origin."""

    objects: list[object]
    numbers: list[object]
    memory: list[Tensor]
    """While these hold the memory, no other weight can get its address."""
    result: Any


class Origin:
    """The weights and modules that some state was prepared from, with that state.

    A module is compared by its class, attributes, hooks, submodules and weights; a weight by its address, layout and
    version counter. torch does not count writes through `weight.data` or through a numpy array that shares its memory:
    write under `torch.no_grad()` instead. Those of fused optimisers, which it does not count either, a hook counts.
    Threads may ask at once: a result is stored with its origin, in one piece, when it is complete.

    >>> origin, layer = Origin(), nn.Linear(2, 2)
    >>> first = origin.made(lambda: layer.weight.clone(), layer)
    >>> origin.made(lambda: layer.weight.clone(), layer) is first
    True
    >>> _ = nn.init.zeros_(layer.weight)
    >>> origin.made(lambda: layer.weight.clone(), layer) is first
    False
    """

    def __init__(self) -> None:
        self._last: _Kept | None = None

    def made(self, make: Callable[[], Made], *parts: Tensor | nn.Module | object) -> Made:
        """The result of `make` for these parts, which is called again when the parts or their values differ from those
        of the last call.
        """
        objects: list[object] = []
        numbers: list[object] = [torch_module._has_any_global_hook()]
        for part in parts:
            _describe(part, objects, numbers)
        last = self._last
        alike = last is not None and numbers == last.numbers and len(objects) == len(last.objects)
        if last is not None and alike and all(map(is_, objects, last.objects)):
            return cast(Made, last.result)
        memory = [part.detach() for part in objects if isinstance(part, Tensor)]
        result = make()
        self._last = _Kept(objects, numbers, memory, result)
        return result

    def __deepcopy__(self, memo: object) -> "Origin":
        return Origin()

    def __reduce__(self) -> tuple[type["Origin"], tuple[()]]:
        return Origin, ()


def is_plain(module: object, kind: type[nn.Module]) -> bool:
    """Whether a module computes exactly what its class defines, so that a shortcut may replace it.

    A subclass, a parametrised or wrapped layer, hooks or the instance's own `forward` may compute something else.
    """
    if type(module) is not kind:
        return False
    own: dict[str, Any] = module.__dict__
    return not (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
        or torch_module._has_any_global_hook()
    )


def _count_writes(optimiser: torch.optim.Optimizer, *arguments: Any) -> None:
    """Increments the version counters of parameters that a fused kernel has changed, which torch does not do."""
    for group in optimiser.param_groups:
        if group.get("fused"):
            for parameter in group["params"]:
                increment_version(parameter)


# A compiled step would leave the hook out. The decorator that sets this imports torch's compiler.
_count_writes._torchdynamo_disable = True  # type: ignore[attr-defined]
register_optimizer_step_post_hook(_count_writes)


def _describe(part: object, objects: list[object], numbers: list[object]) -> None:
    objects.append(part)
    if isinstance(part, Tensor):
        numbers += (part.data_ptr(), -1 if part.is_inference() else part._version, part.stride())
        return
    if not isinstance(part, nn.Module):
        return
    own = part.__dict__
    objects.append(type(part))
    objects += own.values()
    numbers += (len(own["_forward_hooks"]), len(own["_forward_pre_hooks"]))
    for weight in (*own["_parameters"].values(), *own["_buffers"].values()):
        _describe(weight, objects, numbers)
    for child in own["_modules"].values():
        _describe(child, objects, numbers)
